"""XXH3, 128 bits, over many byte strings at once.

`xxh3_128` is the XXH3_128bits function of xxHash 0.8 (specification: ``doc/xxhash_spec.md`` of
https://github.com/Cyan4973/xxHash, version 0.2.0) with seed 0, as a kernel that walks an Arrow buffer:
calling the library once per record would hold the interpreter lock and cost several times the hash.
The tests hold it against the ``xxhash`` package on every length class.
"""

from __future__ import annotations

import numpy as np

from dedup_pipeline.compiled import Bytes, Int64, UInt64, high_product, inlined, kernel, load32, load64

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
        "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
        "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    dtype=np.uint8,
)

_P32_1 = np.uint64(0x9E3779B1)
_P32_2 = np.uint64(0x85EBCA77)
_P32_3 = np.uint64(0xC2B2AE3D)
_P64_1 = np.uint64(0x9E3779B185EBCA87)
_P64_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P64_3 = np.uint64(0x165667B19E3779F9)
_P64_4 = np.uint64(0x85EBCA77C2B2AE63)
_P64_5 = np.uint64(0x27D4EB2F165667C5)
_MX1 = np.uint64(0x165667919E3779F9)
_MX2 = np.uint64(0x9FB21C651E98DF25)
_LOW32 = np.uint64(0xFFFFFFFF)


def _u(value: int) -> np.uint64:
    return np.uint64(value)


_1, _2, _3, _8, _13, _19, _24, _28, _29, _32, _33, _35, _37, _47, _54 = (
    _u(n) for n in (1, 2, 3, 8, 13, 19, 24, 28, 29, 32, 33, 35, 37, 47, 54)
)
_ZERO = _u(0)
_FULL = _u(0xFFFFFFFFFFFFFFFF)


@inlined
def mix64(value: np.uint64) -> np.uint64:
    """Return the bijective finaliser of SplitMix64 (Steele, Lea, Flood 2014) of one uint64."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inlined
def _avalanche64(h: np.uint64) -> np.uint64:
    h ^= h >> _33
    h *= _P64_2
    h ^= h >> _29
    h *= _P64_3
    return h ^ (h >> _32)


@inlined
def _avalanche(h: np.uint64) -> np.uint64:
    h ^= h >> _37
    h *= _MX1
    return h ^ (h >> _32)


@inlined
def _swap32(x: np.uint64) -> np.uint64:
    return (
        ((x >> _24) & _u8) | ((x >> _8) & np.uint64(0xFF00)) | ((x << _8) & np.uint64(0xFF0000)) | ((x << _24) & _top8)
    )


_u8 = _u(0xFF)
_top8 = _u(0xFF000000)


@inlined
def _swap64(x: np.uint64) -> np.uint64:
    return (_swap32(x & _LOW32) << _32) | _swap32(x >> _32)


@inlined
def _fold(left: np.uint64, right: np.uint64) -> np.uint64:
    upper: np.uint64 = high_product(left, right)
    return (left * right) ^ upper


@inlined
def _mix16(data: Bytes, at: int, secret: int) -> np.uint64:
    return _fold(load64(data, at) ^ load64(_SECRET, secret), load64(data, at + 8) ^ load64(_SECRET, secret + 8))


@inlined
def _short(data: Bytes, at: int, n: int) -> tuple[np.uint64, np.uint64]:
    """Lengths 0 to 16."""
    if n == 0:
        return (
            _avalanche64(load64(_SECRET, 80) ^ load64(_SECRET, 88)),
            _avalanche64(load64(_SECRET, 64) ^ load64(_SECRET, 72)),
        )
    if n <= 3:
        first, middle, last = np.uint64(data[at]), np.uint64(data[at + (n >> 1)]), np.uint64(data[at + n - 1])
        low = (first << np.uint64(16)) | (middle << _24) | last | (np.uint64(n) << _8)
        swapped = _swap32(low)
        high = ((swapped << _13) | (swapped >> _19)) & _LOW32
        flip_low = np.uint64(load32(_SECRET, 0)) ^ np.uint64(load32(_SECRET, 4))
        flip_high = np.uint64(load32(_SECRET, 8)) ^ np.uint64(load32(_SECRET, 12))
        return _avalanche64(high ^ flip_high), _avalanche64(low ^ flip_low)
    if n <= 8:
        low32, high32 = np.uint64(load32(data, at)), np.uint64(load32(data, at + n - 4))
        keyed = (low32 + (high32 << _32)) ^ (load64(_SECRET, 16) ^ load64(_SECRET, 24))
        factor = _P64_1 + (np.uint64(n) << _2)
        low, high = keyed * factor, high_product(keyed, factor)
        high += low << _1
        low ^= high >> _3
        low ^= low >> _35
        low *= _MX2
        low ^= low >> _28
        return _avalanche(high), low
    flip_low = load64(_SECRET, 32) ^ load64(_SECRET, 40)
    flip_high = load64(_SECRET, 48) ^ load64(_SECRET, 56)
    head, tail = load64(data, at), load64(data, at + n - 8)
    keyed = head ^ tail ^ flip_low
    low, high = keyed * _P64_1, high_product(keyed, _P64_1)
    low += np.uint64(n - 1) << _54
    tail ^= flip_high
    high += tail + (tail & _LOW32) * (_P32_2 - _1)
    low ^= _swap64(high)
    out_low, out_high = low * _P64_2, high_product(low, _P64_2)
    out_high += high * _P64_2
    return _avalanche(out_high), _avalanche(out_low)


@inlined
def _close(low: np.uint64, high: np.uint64, n: int) -> tuple[np.uint64, np.uint64]:
    return (
        _ZERO - _avalanche(low * _P64_1 + high * _P64_4 + np.uint64(n) * _P64_2),
        _avalanche(low + high),
    )


@inlined
def _middle(data: Bytes, at: int, n: int) -> tuple[np.uint64, np.uint64]:
    """Lengths 17 to 240."""
    low, high = np.uint64(n) * _P64_1, _ZERO
    rounds = (n - 1) // 32 if n <= 128 else 3
    if n <= 128:
        for step in range(rounds, -1, -1):
            left, right, secret = at + 16 * step, at + n - 16 * (step + 1), 32 * step
            low += _mix16(data, left, secret)
            low ^= load64(data, right) + load64(data, right + 8)
            high += _mix16(data, right, secret + 16)
            high ^= load64(data, left) + load64(data, left + 8)
        return _close(low, high, n)
    for step in range(max(n // 32, 5)):
        if step == 4:
            low, high = _avalanche(low), _avalanche(high)
            if n < 160:
                break
        left, right = at + 32 * step, at + 32 * step + 16
        secret = 32 * step if step < 4 else 3 + 32 * (step - 4)
        low += _mix16(data, left, secret)
        low ^= load64(data, right) + load64(data, right + 8)
        high += _mix16(data, right, secret + 16)
        high ^= load64(data, left) + load64(data, left + 8)
    left, right = at + n - 16, at + n - 32
    low += _mix16(data, left, 103)
    low ^= load64(data, right) + load64(data, right + 8)
    high += _mix16(data, right, 119)
    high ^= load64(data, left) + load64(data, left + 8)
    return _close(low, high, n)


@inlined
def _stripe(data: Bytes, at: int, secret: int, lanes: UInt64) -> None:
    for lane in range(8):
        value = load64(data, at + 8 * lane)
        key = value ^ load64(_SECRET, secret + 8 * lane)
        lanes[lane ^ 1] += value
        lanes[lane] += (key & _LOW32) * (key >> _32)


@inlined
def _merge(lanes: UInt64, secret: int, start: np.uint64) -> np.uint64:
    total = start
    for pair in range(4):
        total += _fold(
            lanes[2 * pair] ^ load64(_SECRET, secret + 16 * pair),
            lanes[2 * pair + 1] ^ load64(_SECRET, secret + 16 * pair + 8),
        )
    return _avalanche(total)


@inlined
def _long(data: Bytes, at: int, n: int, lanes: UInt64) -> tuple[np.uint64, np.uint64]:
    """Lengths above 240: blocks of 16 stripes of 64 bytes."""
    lanes[0], lanes[1], lanes[2], lanes[3] = _P32_3, _P64_1, _P64_2, _P64_3
    lanes[4], lanes[5], lanes[6], lanes[7] = _P64_4, _P32_2, _P64_5, _P32_1
    blocks = (n - 1) // 1024
    for block in range(blocks):
        for stripe in range(16):
            _stripe(data, at + 1024 * block + 64 * stripe, 8 * stripe, lanes)
        for lane in range(8):
            value = lanes[lane]
            lanes[lane] = (value ^ (value >> _47) ^ load64(_SECRET, 128 + 8 * lane)) * _P32_1
    for stripe in range((n - 1 - 1024 * blocks) // 64):
        _stripe(data, at + 1024 * blocks + 64 * stripe, 8 * stripe, lanes)
    _stripe(data, at + n - 64, 121, lanes)
    return (
        _merge(lanes, 117, _FULL ^ (np.uint64(n) * _P64_2)),
        _merge(lanes, 11, np.uint64(n) * _P64_1),
    )


@kernel
def xxh3_128(data: Bytes, offsets: Int64) -> UInt64:
    """Return the 128-bit XXH3 hashes of the byte strings ``data[offsets[i]:offsets[i + 1]]``.

    Args:
        data: the bytes of all strings.
        offsets: n + 1 ascending positions in ``data``.

    Returns:
        uint64 array of shape (n, 2): upper and lower half, as ``xxhash.xxh3_128_intdigest`` orders them.
    """
    out = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    lanes = np.empty(8, dtype=np.uint64)
    for row in range(len(offsets) - 1):
        at = offsets[row]
        n = offsets[row + 1] - at
        if n <= 16:
            high, low = _short(data, at, n)
        elif n <= 240:
            high, low = _middle(data, at, n)
        else:
            high, low = _long(data, at, n, lanes)
        out[row, 0] = high
        out[row, 1] = low
    return out
