"""SipHash-2-4 with 128-bit output, over many byte strings at once.

The keyed hash of Aumasson and Bernstein ("SipHash: a fast short-input PRF", 2012); the 128-bit output as
the reference implementation (https://github.com/veorq/SipHash, ``siphash.c`` with ``outlen == 16``)
defines it. Whoever does not know the secret cannot make two URLs of one key, which XXH3 does not promise.
"""

from __future__ import annotations

import numpy as np

from dedup_pipeline.compiled import Bytes, Int64, UInt64, inlined, kernel, load64

SECRET_BYTES = 16


@inlined
def _turn(value: np.uint64, by: int) -> np.uint64:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@inlined
def _round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b
    b = _turn(b, 13) ^ a
    a = _turn(a, 32)
    c += d
    d = _turn(d, 16) ^ c
    a += d
    d = _turn(d, 21) ^ a
    c += b
    b = _turn(b, 17) ^ c
    c = _turn(c, 32)
    return a, b, c, d


@inlined
def _last_word(data: Bytes, at: int, n: int) -> np.uint64:
    """The bytes after the last whole word, with the length in the topmost byte."""
    word = np.uint64(n & 0xFF) << np.uint64(56)
    whole = n & ~7
    for index in range(n - whole):
        word |= np.uint64(data[at + whole + index]) << np.uint64(8 * index)
    return word


@kernel
def siphash_128(data: Bytes, offsets: Int64, key_low: np.uint64, key_high: np.uint64) -> UInt64:
    """Return the SipHash-2-4 of the byte strings ``data[offsets[i]:offsets[i + 1]]``.

    Args:
        data: the bytes of all strings.
        offsets: n + 1 ascending positions in ``data``.
        key_low: the first 8 bytes of the secret, little-endian.
        key_high: the last 8.

    Returns:
        uint64 array of shape (n, 2): the second and the first 8 bytes of the digest, little-endian each.
    """
    out = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    for row in range(len(offsets) - 1):
        at = offsets[row]
        n = offsets[row + 1] - at
        a = key_low ^ np.uint64(0x736F6D6570736575)
        b = key_high ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        c = key_low ^ np.uint64(0x6C7967656E657261)
        d = key_high ^ np.uint64(0x7465646279746573)
        for word in range(n // 8 + 1):
            value = load64(data, at + 8 * word) if word < n // 8 else _last_word(data, at, n)
            d ^= value
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            a ^= value
        c ^= np.uint64(0xEE)
        for _ in range(4):
            a, b, c, d = _round(a, b, c, d)
        out[row, 1] = a ^ b ^ c ^ d
        b ^= np.uint64(0xDD)
        for _ in range(4):
            a, b, c, d = _round(a, b, c, d)
        out[row, 0] = a ^ b ^ c ^ d
    return out
