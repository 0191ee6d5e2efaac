"""MinHash signatures of shingle sets, in the ``affine32`` family of datasketch 2.0.

The signature value of permutation k is the least ``a_k * f(x) + b_k`` modulo 2^32 over the shingles of
a text, where x is the lower 32 bits of the shingle hash, f the 32-bit finaliser of MurmurHash3, and
a_k (odd) and b_k come from datasketch's own generator. So a signature equals
``datasketch.MinHash(scheme="affine32", hashfunc=int)`` updated with the same 32-bit values.

The chance that two signatures agree in one value is the Jaccard similarity of the two sets (Broder
1997), up to the collisions of 32-bit values: about n / 2^32 of n shingles.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Int64, UInt32, UInt64, inlined, kernel
from dedup_pipeline.hashing import mix64

MINHASH_SCHEME = "affine32"
SEED = 1
EMPTY = np.uint32(0xFFFFFFFF)
"""Every value of the signature of a text without shingles."""

_BLOCK = 8


@cache
def permutations(num_perm: int, seed: int = SEED) -> npt.NDArray[np.uint32]:
    """Return uint32 of shape (2, num_perm): the factors a (odd) and the summands b, as datasketch draws them."""
    generator = np.random.RandomState(seed)
    factors = generator.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    summands = generator.randint(0, 1 << 32, num_perm, dtype=np.uint32)
    drawn = np.ascontiguousarray(np.stack([factors, summands]))
    drawn.flags.writeable = False
    return drawn


def signatures(hashes: UInt64, offsets: Int64, num_perm: int, seed: int = SEED) -> UInt32:
    """Return the signatures of the shingle sets ``hashes[offsets[i]:offsets[i + 1]]``.

    Returns:
        uint32 array of shape (n, num_perm); rows of empty sets hold `EMPTY`.
    """
    factors, summands = permutations(num_perm, seed)
    return _minima(hashes, offsets, factors, summands)


def band_keys(signature: UInt32, bands: int, rows: int) -> UInt64:
    """Return the keys of the first ``bands`` bands of ``rows`` signature values each.

    The key is a 64-bit hash of *all* values of the band: a sum or a truncation would put unrelated
    documents into one bucket.

    Returns:
        uint64 array of shape (n, bands).
    """
    return _bands(signature, bands, rows)


@inlined
def _finalise(value: np.uint32) -> np.uint32:
    mixed = np.uint32(value ^ np.uint32(value >> np.uint32(16)))
    mixed = np.uint32(mixed * np.uint32(0x85EBCA6B))
    mixed = np.uint32(mixed ^ np.uint32(mixed >> np.uint32(13)))
    mixed = np.uint32(mixed * np.uint32(0xC2B2AE35))
    return np.uint32(mixed ^ np.uint32(mixed >> np.uint32(16)))


@kernel
def _minima(hashes: UInt64, offsets: Int64, factors: UInt32, summands: UInt32) -> UInt32:
    rows, width = len(offsets) - 1, len(factors)
    out = np.empty((rows, width), dtype=np.uint32)
    for row in range(rows):
        least = out[row]
        least[:] = EMPTY
        at, end = offsets[row], offsets[row + 1]
        # Eight shingles a pass: the minima are loaded and stored once for eight of them.
        while at + _BLOCK <= end:
            x0 = _finalise(np.uint32(hashes[at]))
            x1 = _finalise(np.uint32(hashes[at + 1]))
            x2 = _finalise(np.uint32(hashes[at + 2]))
            x3 = _finalise(np.uint32(hashes[at + 3]))
            x4 = _finalise(np.uint32(hashes[at + 4]))
            x5 = _finalise(np.uint32(hashes[at + 5]))
            x6 = _finalise(np.uint32(hashes[at + 6]))
            x7 = _finalise(np.uint32(hashes[at + 7]))
            for k in range(width):
                a, b = factors[k], summands[k]
                m0 = min(np.uint32(a * x0 + b), np.uint32(a * x1 + b))
                m1 = min(np.uint32(a * x2 + b), np.uint32(a * x3 + b))
                m2 = min(np.uint32(a * x4 + b), np.uint32(a * x5 + b))
                m3 = min(np.uint32(a * x6 + b), np.uint32(a * x7 + b))
                least[k] = min(least[k], min(min(m0, m1), min(m2, m3)))
            at += _BLOCK
        while at < end:
            x0 = _finalise(np.uint32(hashes[at]))
            for k in range(width):
                least[k] = min(least[k], np.uint32(factors[k] * x0 + summands[k]))
            at += 1
    return out


@kernel
def _bands(signature: UInt32, bands: int, rows: int) -> UInt64:
    out = np.empty((len(signature), bands), dtype=np.uint64)
    for index in range(len(signature)):
        for band in range(bands):
            key = np.uint64(rows)
            for row in range(rows):
                key = mix64(key ^ np.uint64(signature[index, band * rows + row])) + np.uint64(0x9E3779B97F4A7C15)
            out[index, band] = key
    return out
