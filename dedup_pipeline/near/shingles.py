"""Texts to sets of 64-bit shingle hashes.

The definition, which the tests write again in plain Python:

1. Decode UTF-8; each maximal invalid part becomes U+FFFD (Unicode 14, section 3.9, the practice that
   Python's ``errors="replace"`` follows), which is no word character.
2. A *token* is a maximal run of word characters, each folded (`unicode_tables`); a character of a
   script without spaces is a token of its own.
3. The hash of a token of folded code points c1 ... ck: start with 0xCBF29CE484222325, for each c
   ``h = (h xor c) * 0x100000001B3`` modulo 2^64 (FNV-1a over code points), then ``mix64``.
4. A *word shingle* is n consecutive tokens; its hash is ``mix64`` of the polynomial
   ``t1 * K^(n-1) + ... + tn`` modulo 2^64, K = 0x9E3779B97F4A7C15. Rolling, so that a shingle costs the
   same for every n (Karp and Rabin 1987).
5. A *character shingle* is n consecutive characters of the runs of word characters, folded and joined
   by single spaces; its hash is made alike, from ``mix64(c + K)`` for each character.
6. A text with fewer tokens (characters) than n, but at least one, is one shingle. A text without any
   has none and is like nothing.
7. Hash 0 marks a free place in a hash table, so it is written as 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dedup_pipeline.compiled import Bytes, Int64, UInt64, inlined, kernel
from dedup_pipeline.hashing import mix64
from dedup_pipeline.near.unicode_tables import load_tables

SHINGLE_SCHEME = "fnv1a-poly64/1"
"""Name of the definition above; it changes when any hash does."""

KINDS = ("word", "char")

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_K = np.uint64(0x9E3779B97F4A7C15)
_REPLACEMENT = 0xFFFD
_SPACE = np.uint64(0x20)


class ShingleSets(NamedTuple):
    """The shingle sets of several texts.

    Attributes:
        hashes: uint64, the distinct hashes of each text one after the other, in order of first
            occurrence.
        offsets: int64, n + 1 ascending positions in ``hashes``.
    """

    hashes: UInt64
    offsets: Int64


def shingle_sets(data: Bytes, offsets: Int64, kind: str, n: int) -> ShingleSets:
    """Return the shingle sets of the texts ``data[offsets[i]:offsets[i + 1]]`` (UTF-8).

    Args:
        data: the bytes of all texts.
        offsets: int64, one more than there are texts.
        kind: ``word`` or ``char``.
        n: tokens or characters in a shingle, at least 1.
    """
    tables = load_tables()
    return ShingleSets(*_shingle(data, offsets, kind == "char", n, tables.pages, tables.entries))


@inlined
def _decode(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the code point at ``data[at]``, a byte above 127, and how many bytes it takes.

    The table of well-formed sequences: Unicode 14, table 3-7.
    """
    first = np.int64(data[at])
    if first < 0xC2 or first > 0xF4:
        return _REPLACEMENT, 1
    wanted = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    low, high = np.int64(0x80), np.int64(0xBF)
    if first == 0xE0:
        low = np.int64(0xA0)
    elif first == 0xED:
        high = np.int64(0x9F)
    elif first == 0xF0:
        low = np.int64(0x90)
    elif first == 0xF4:
        high = np.int64(0x8F)
    code = first & (0x3F >> wanted)
    for step in range(1, wanted + 1):
        if at + step >= end:
            return _REPLACEMENT, step
        byte = np.int64(data[at + step])
        if byte < low or byte > high:
            return _REPLACEMENT, step
        code = (code << 6) | (byte & 0x3F)
        low, high = np.int64(0x80), np.int64(0xBF)
    return code, wanted + 1


@inlined
def _put(table: UInt64, mask: np.uint64, value: np.uint64) -> bool:
    """Enter ``value`` into an open-addressing table; return whether it is new."""
    at = value & mask
    while table[at] != np.uint64(0):
        if table[at] == value:
            return False
        at = (at + np.uint64(1)) & mask
    table[at] = value
    return True


@inlined
def _power(n: int) -> np.uint64:
    result = np.uint64(1)
    for _ in range(n):
        result *= _K
    return result


@kernel
def _word_units(data: Bytes, start: int, end: int, pages: Bytes, entries: Bytes, units: UInt64) -> int:
    """Write the token hashes of one text into ``units``; return how many."""
    count = 0
    hashed = _OFFSET
    inside = False
    at = start
    while at < end:
        code = np.int64(data[at])
        width = 1
        if code >= 0x80:
            code, width = _decode(data, at, end)
        entry = np.int64(entries[(np.int64(pages[code >> 8]) << 8) | (code & 0xFF)])
        kind = entry & 3
        if kind == 1:
            hashed = (hashed ^ np.uint64(code + (entry >> 2))) * _PRIME
            inside = True
        else:
            if inside:
                units[count] = mix64(hashed)
                count += 1
                hashed = _OFFSET
                inside = False
            if kind == 2:
                units[count] = mix64((_OFFSET ^ np.uint64(code + (entry >> 2))) * _PRIME)
                count += 1
        at += width
    if inside:
        units[count] = mix64(hashed)
        count += 1
    return count


@kernel
def _char_units(data: Bytes, start: int, end: int, pages: Bytes, entries: Bytes, units: UInt64) -> int:
    """Write the character hashes of one text (words joined by one space) into ``units``; return how many."""
    count = 0
    gap = False
    at = start
    while at < end:
        code = np.int64(data[at])
        width = 1
        if code >= 0x80:
            code, width = _decode(data, at, end)
        entry = np.int64(entries[(np.int64(pages[code >> 8]) << 8) | (code & 0xFF)])
        if entry & 3:
            if gap and count:
                units[count] = mix64(_SPACE + _K)
                count += 1
            units[count] = mix64(np.uint64(code + (entry >> 2)) + _K)
            count += 1
            gap = False
        else:
            gap = True
        at += width
    return count


@kernel
def _roll(units: UInt64, count: int, n: int, table: UInt64, out: UInt64, filled: int) -> int:
    """Append the distinct shingle hashes of ``units[:count]`` to ``out[filled:]``; return its new end."""
    width = min(n, count)
    places = np.int64(16)
    while places < 2 * (count - width + 1):
        places *= 2
    mask = np.uint64(places - 1)
    table[:places] = np.uint64(0)
    leaving = _power(width)
    rolling = np.uint64(0)
    for index in range(count):
        rolling = rolling * _K + units[index]
        if index >= width:
            rolling -= units[index - width] * leaving
        if index >= width - 1:
            value = mix64(rolling)
            if value == np.uint64(0):
                value = np.uint64(1)
            if _put(table, mask, value):
                out[filled] = value
                filled += 1
    return filled


@kernel
def _shingle(
    data: Bytes, offsets: Int64, characters: bool, n: int, pages: Bytes, entries: Bytes
) -> tuple[UInt64, Int64]:
    rows = len(offsets) - 1
    longest = np.int64(0)
    for row in range(rows):
        longest = max(longest, offsets[row + 1] - offsets[row])
    # A token takes a byte and a separator, or the two and more bytes of a character of its own; a
    # character shingle takes a byte. So these sizes are never exceeded.
    units = np.empty(longest + 1, dtype=np.uint64)
    table = np.empty(max(16, 4 * (longest + 1)), dtype=np.uint64)
    out = np.empty(1024 + (offsets[rows] - offsets[0]) // 4, dtype=np.uint64)
    ends = np.zeros(rows + 1, dtype=np.int64)
    filled = 0
    for row in range(rows):
        start, end = offsets[row], offsets[row + 1]
        if characters:
            count = _char_units(data, start, end, pages, entries, units)
        else:
            count = _word_units(data, start, end, pages, entries, units)
        if count:
            if filled + count > len(out):
                wider = np.empty(2 * (filled + count), dtype=np.uint64)
                wider[:filled] = out[:filled]
                out = wider
            filled = _roll(units, count, n, table, out, filled)
        ends[row + 1] = filled
    return out[:filled], ends
