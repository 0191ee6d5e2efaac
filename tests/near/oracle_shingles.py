"""Shingles, signatures and band keys in plain Python, from the definitions in the modules' docstrings.

Written for reading, not for speed: no numpy arithmetic, whole numbers of any size cut to 64 bits. Only
the shipped Unicode tables are shared with the package, since they are what defines a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dedup_pipeline.near.unicode_tables import load_tables

FULL = (1 << 64) - 1
K = 0x9E3779B97F4A7C15
_TABLES = load_tables()
_PAGES = _TABLES.pages.tolist()
_ENTRIES = _TABLES.entries.tolist()


def mix64(value: int) -> int:
    """The finaliser of SplitMix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & FULL
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & FULL
    return value ^ (value >> 31)


def classify(character: str) -> tuple[int, str]:
    """0 (no word), 1 (word) or 2 (a token of its own), and what the character folds to."""
    code = ord(character)
    entry = _ENTRIES[_PAGES[code // 256] * 256 + code % 256]
    return entry % 4, chr(code + entry // 4)


def runs(text: str) -> Iterator[tuple[int, str]]:
    """The maximal runs of one class: (0, separators), (1, folded word), (2, one folded character)."""
    kind, run = 0, ""
    for character in text:
        own, folded = classify(character)
        if own == kind and own != 2:
            run += folded
            continue
        if run:
            yield kind, run
        kind, run = own, folded
    if run:
        yield kind, run


def tokens(text: str) -> list[str]:
    return [run for kind, run in runs(text) if kind]


def characters(text: str) -> list[str]:
    """The folded word characters, with one space for every run of others between them."""
    return list("".join(run if kind else " " for kind, run in runs(text)).strip(" "))


def token_hash(token: str) -> int:
    content = token.encode()
    hashed = 0
    for start in range(0, len(content), 8):
        hashed = (hashed ^ int.from_bytes(content[start : start + 8], "little")) * K & FULL
        hashed ^= hashed >> 32
    return mix64(hashed)


def units(text: str, kind: str) -> list[int]:
    if kind == "word":
        return [token_hash(token) for token in tokens(text)]
    return [mix64((ord(character) + K) & FULL) for character in characters(text)]


def shingle(window: Sequence[int]) -> int:
    """The hash of one shingle, not rolling."""
    total = sum(unit * pow(K, len(window) - 1 - place, 1 << 64) for place, unit in enumerate(window))
    return mix64(total & FULL) or 1


def shingle_hashes(text: str | bytes, kind: str = "word", n: int = 3) -> list[int]:
    """The distinct hashes in order of first occurrence."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    found = units(text, kind)
    if not found:
        return []
    width = min(n, len(found))
    return list(dict.fromkeys(shingle(found[at : at + width]) for at in range(len(found) - width + 1)))


def murmur(value: int) -> int:
    """The 32-bit finaliser of MurmurHash3."""
    value = (value ^ (value >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ (value >> 16)


def signature(hashes: Iterable[int], factors: Sequence[int], summands: Sequence[int]) -> list[int]:
    mixed = [murmur(value & 0xFFFFFFFF) for value in hashes]
    return [
        min(((a * value + b) & 0xFFFFFFFF for value in mixed), default=0xFFFFFFFF)
        for a, b in zip(factors, summands, strict=True)
    ]


def band_key(values: Sequence[int]) -> int:
    key = len(values)
    for value in values:
        key = (mix64(key ^ value) + K) & FULL
    return key


def jaccard(left: Iterable[int], right: Iterable[int]) -> float:
    one, other = set(left), set(right)
    return len(one & other) / len(one | other) if one | other else 0.0
