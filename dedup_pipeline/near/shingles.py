"""Texts to sets of 64-bit shingle hashes.

The definition, which the tests write again in plain Python:

1. Decode UTF-8; each maximal invalid part becomes U+FFFD (Unicode 14, section 3.9, the practice that
   Python's ``errors="replace"`` follows), which is no word character.
2. A *token* is a maximal run of word characters, each folded (`unicode_tables`); a character of a
   script without spaces is a token of its own.
3. The hash of a token: its folded UTF-8 bytes in chunks of 8, little-endian, the last one padded with
   zeros; start with h = 0, for each chunk ``h = (h xor chunk) * K; h = h xor (h >> 32)``, at last
   ``mix64(h)``; modulo 2^64, K = 0x9E3779B97F4A7C15. Eight bytes a step, because one at a time is what
   bounds a scan of text.
4. A *word shingle* is n consecutive tokens; its hash is ``mix64`` of the polynomial
   ``t1 * K^(n-1) + ... + tn`` modulo 2^64. Rolling, so that a shingle costs the same for every n (Karp
   and Rabin 1987).
5. A *character shingle* is n consecutive characters of the runs of word characters, folded and joined
   by single spaces; its hash is made alike, from ``mix64(c + K)`` for each character.
6. A text with fewer tokens (characters) than n, but at least one, is one shingle. A text without any
   has none and is like nothing.
7. Hash 0 marks a free place in a hash table, so it is written as 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dedup_pipeline.compiled import Bytes, Int32, Int64, UInt16, UInt64, inlined, kernel, load64
from dedup_pipeline.hashing import mix64
from dedup_pipeline.near.unicode_tables import load_tables

SHINGLE_SCHEME = "chunk8-poly64/1"
"""Name of the definition above; it changes when any hash does."""

KINDS = ("word", "char")

_K = np.uint64(0x9E3779B97F4A7C15)
_REPLACEMENT = np.int64(0xFFFD)
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
def _decode(data: Bytes, at: int, end: int) -> tuple[np.int64, int]:
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


def _ascii_classes() -> Bytes:
    """Return for each byte: 0 ends a token, 1 is an ASCII word character, 2 begins something longer."""
    classes = np.zeros(256, dtype=np.uint8)
    classes[[code for code in range(128) if chr(code).isalnum() or chr(code) == "_"]] = 1
    classes[128:] = 2
    return classes


_CLASSES = _ascii_classes()


@inlined
def _lower(chunk: np.uint64) -> np.uint64:
    """Return eight ASCII bytes with A to Z in lower case."""
    from_a = chunk + np.uint64(0x3F3F3F3F3F3F3F3F)
    past_z = chunk + np.uint64(0x2525252525252525)
    return chunk + (((from_a ^ past_z) & np.uint64(0x8080808080808080)) >> np.uint64(2))


@inlined
def _absorb(hashed: np.uint64, chunk: np.uint64) -> np.uint64:
    hashed = (hashed ^ chunk) * _K
    return hashed ^ (hashed >> np.uint64(32))


@inlined
def _ascii_token(data: Bytes, start: int, end: int) -> np.uint64:
    """Return the hash of the token ``data[start:end]`` of ASCII word characters."""
    hashed = np.uint64(0)
    for at in range(start, end, 8):
        chunk = np.uint64(0)
        rest = end - at
        if at + 8 <= len(data):
            chunk = load64(data, at)
            if rest < 8:
                chunk &= (np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1)
        else:
            for step in range(rest):
                chunk |= np.uint64(data[at + step]) << np.uint64(8 * step)
        hashed = _absorb(hashed, _lower(chunk))
    return mix64(hashed)


@inlined
def _push(hashed: np.uint64, chunk: np.uint64, filled: int, byte: int | np.int64) -> tuple[np.uint64, np.uint64, int]:
    chunk |= np.uint64(byte) << np.uint64(8 * filled)
    if filled == 7:
        return _absorb(hashed, chunk), np.uint64(0), 0
    return hashed, chunk, filled + 1


@kernel
def _push_code(hashed: np.uint64, chunk: np.uint64, filled: int, code: np.int64) -> tuple[np.uint64, np.uint64, int]:
    """Hash the UTF-8 bytes of one code point."""
    if code < 0x80:
        return _push(hashed, chunk, filled, code)
    if code < 0x800:
        hashed, chunk, filled = _push(hashed, chunk, filled, 0xC0 | (code >> 6))
    else:
        if code < 0x10000:
            hashed, chunk, filled = _push(hashed, chunk, filled, 0xE0 | (code >> 12))
        else:
            hashed, chunk, filled = _push(hashed, chunk, filled, 0xF0 | (code >> 18))
            hashed, chunk, filled = _push(hashed, chunk, filled, 0x80 | ((code >> 12) & 0x3F))
        hashed, chunk, filled = _push(hashed, chunk, filled, 0x80 | ((code >> 6) & 0x3F))
    return _push(hashed, chunk, filled, 0x80 | (code & 0x3F))


@kernel
def _any_tokens(
    data: Bytes, at: int, end: int, pages: UInt16, entries: Int32, units: UInt64, count: int
) -> tuple[int, int]:
    """Write the tokens from ``at`` up to the first character of no word; return where and how many then."""
    hashed, chunk, filled = np.uint64(0), np.uint64(0), 0
    inside = False
    while at < end:
        code = np.int64(data[at])
        width = 1
        if code >= 0x80:
            code, width = _decode(data, at, end)
        entry = np.int64(entries[(np.int64(pages[code >> 8]) << 8) | (code & 0xFF)])
        kind = entry & 3
        at += width
        if kind == 1:
            hashed, chunk, filled = _push_code(hashed, chunk, filled, code + (entry >> 2))
            inside = True
            continue
        if inside:
            units[count] = mix64(_absorb(hashed, chunk) if filled else hashed)
            count += 1
            hashed, chunk, filled = np.uint64(0), np.uint64(0), 0
            inside = False
        if kind == 0:
            return at, count
        lone, rest, held = _push_code(np.uint64(0), np.uint64(0), 0, code + (entry >> 2))
        units[count] = mix64(_absorb(lone, rest) if held else lone)
        count += 1
    if inside:
        units[count] = mix64(_absorb(hashed, chunk) if filled else hashed)
        count += 1
    return at, count


@kernel
def _word_units(data: Bytes, start: int, end: int, pages: UInt16, entries: Int32, units: UInt64) -> int:
    """Write the token hashes of one text into ``units``; return how many."""
    count = 0
    at = start
    while at < end:
        if _CLASSES[data[at]] == 0:
            at += 1
            continue
        begun = at
        while at < end and _CLASSES[data[at]] == 1:
            at += 1
        if at == end or _CLASSES[data[at]] == 0:
            units[count] = _ascii_token(data, begun, at)
            count += 1
        else:
            at, count = _any_tokens(data, begun, end, pages, entries, units, count)
    return count


@kernel
def _char_units(data: Bytes, start: int, end: int, pages: UInt16, entries: Int32, units: UInt64) -> int:
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
    data: Bytes, offsets: Int64, characters: bool, n: int, pages: UInt16, entries: Int32
) -> tuple[UInt64, Int64]:
    rows = len(offsets) - 1
    longest = np.int64(0)
    for row in range(rows):
        longest = max(longest, offsets[row + 1] - offsets[row])
    # A token takes a byte and a separator, or the two and more bytes of a character of its own; a
    # character shingle takes a byte. So these sizes are never exceeded.
    units = np.empty(longest + 1, dtype=np.uint64)
    table = np.empty(max(np.int64(16), 4 * (longest + 1)), dtype=np.uint64)
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
