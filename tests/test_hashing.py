"""XXH3, 128 bits, against the ``xxhash`` package on every length class, and SplitMix64 against its paper."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.hashing import mix64, xxh3_128

LAWS = settings(deadline=None, max_examples=200)
FULL = (1 << 64) - 1

BORDERS = sorted(
    {
        length + step
        for length in (0, 1, 3, 4, 8, 9, 16, 17, 32, 64, 96, 128, 129, 159, 160, 192, 224, 240, 241, 256, 512)
        for step in (-1, 0, 1)
        if length + step >= 0
    }
    | {1024 * blocks + rest for blocks in (1, 2, 3, 10) for rest in (-1, 0, 1, 63, 64, 65, 127, 128, 129, 960, 1000)}
)


def hashed(strings: list[bytes], before: bytes = b"", after: bytes = b"") -> list[int]:
    content = np.frombuffer(bytearray(before + b"".join(strings) + after), dtype=np.uint8)
    got = xxh3_128(content, np.cumsum([len(before), *map(len, strings)], dtype=np.int64))
    assert got.dtype == np.uint64
    assert got.shape == (len(strings), 2)
    return [(high << 64) | low for high, low in got.tolist()]


def digests(strings: list[bytes]) -> list[int]:
    return [xxhash.xxh3_128_intdigest(content) for content in strings]


def test_every_length_up_to_1100() -> None:
    """One after the other in one buffer, so that they begin at every alignment."""
    generator = random.Random(1)
    strings = [generator.randbytes(length) for length in range(1101)]
    assert hashed(strings) == digests(strings)


@pytest.mark.parametrize("start", range(17))
def test_borders_of_the_length_classes_at_every_alignment(start: int) -> None:
    generator = random.Random(start)
    for length in BORDERS:
        content = generator.randbytes(length)
        assert hashed([content], generator.randbytes(start), generator.randbytes(9)) == digests([content]), length


@pytest.mark.parametrize("filling", [b"\x00", b"\xff", b"\x80", b"\x7f", b"a"], ids=bytes.hex)
def test_bytes_all_alike(filling: bytes) -> None:
    """Carries and sign bits: no byte may be read as a negative number."""
    strings = [filling * length for length in range(700)]
    assert hashed(strings) == digests(strings)


@LAWS
@given(
    st.lists(
        st.binary(max_size=40) | st.binary(min_size=100, max_size=300) | st.binary(min_size=1000, max_size=2100),
        max_size=6,
    ),
    st.binary(max_size=9),
)
def test_any_bytes(strings: list[bytes], before: bytes) -> None:
    assert hashed(strings, before, before) == digests(strings)


def test_a_megabyte() -> None:
    content = random.Random(2).randbytes((1 << 20) + 77)
    assert hashed([b"x", content, content[1:], b""]) == digests([b"x", content, content[1:], b""])


def test_no_strings_and_empty_ones() -> None:
    assert hashed([]) == []
    assert hashed([b"", b""]) == digests([b"", b""])


@pytest.mark.parametrize("length", [1, 3, 4, 8, 9, 16, 17, 128, 129, 160, 240, 241, 1024, 1100])
def test_every_byte_counts_in_both_halves(length: int) -> None:
    content = random.Random(length).randbytes(length)
    flipped = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(length)]
    got = hashed([content, *flipped])
    assert len({value >> 64 for value in got}) == len({value & FULL for value in got}) == length + 1


@pytest.mark.parametrize(
    ("content", "digest"),
    [
        (b"", "99aa06d3014798d86001c324468d497f"),
        (b"a", "a96faf705af16834e6c632b61e964e1f"),
        (b"abc", "06b05ab6733a618578af5f94892f3950"),
        (b"abcd1234", "ea07bff96e7b492e32500856f68ba7c2"),
        (b"https://example.org/", "9db2570db118aad0d5065686b5f20b16"),
        (bytes(range(128)), "14792fc3af88dc6c05321a0b64d67b41"),
        (bytes(range(200)), "cb0395310643ba0edd97e9af3609d9f5"),
        (bytes(range(256)) * 5, "d92ab3a1cb0542a74844b009e164352e"),
    ],
    ids=lambda value: None,
)
def test_golden_values(content: bytes, digest: str) -> None:
    """As ``xxhsum -H2`` prints them; stored fingerprints must go on to meet new ones."""
    assert f"{hashed([content])[0]:032x}" == digest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards a page with mprotect")
def test_nothing_behind_the_end_is_read() -> None:
    """The strings end where memory ends: a read beyond would end that process."""
    script = """
import ctypes, mmap, os
import numpy as np
from dedup_pipeline.hashing import xxh3_128
from dedup_pipeline.near.shingles import shingle_sets

page = mmap.PAGESIZE
area = mmap.mmap(-1, 2 * page)
whole = np.frombuffer(area, dtype=np.uint8)
guarded = ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(whole.ctypes.data + page), page, 0)
assert guarded == 0, os.strerror(ctypes.get_errno())
for text in (b"Z", b"9 ", b"\\xc3", b"\\xe6\\xb1", b"\\xf0\\x9f\\x98"):
    for length in [*range(300), 1023, 1024, 1025, 1100]:
        whole[:page] = 97
        whole[page - len(text) : page] = list(text)
        content = whole[page - length : page]
        offsets = np.array([0, length], dtype=np.int64)
        xxh3_128(content, offsets)
        shingle_sets(content, offsets, "word", 3)
        shingle_sets(content, offsets, "char", 3)
print("done")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


def test_splitmix64() -> None:
    """The first five numbers that SplitMix64 draws from the seed 1234567 (Rosetta Code's test vector)."""
    drawn = [int(mix64(np.uint64((1234567 + step * 0x9E3779B97F4A7C15) & FULL))) for step in range(1, 6)]
    assert drawn == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@LAWS
@given(st.integers(0, FULL))
def test_mix64_can_be_undone(value: int) -> None:
    """It is a bijection: here is its inverse."""
    mixed = int(mix64(np.uint64(value)))
    mixed ^= (mixed >> 31) ^ (mixed >> 62)
    mixed = mixed * pow(0x94D049BB133111EB, -1, 1 << 64) & FULL
    mixed ^= (mixed >> 27) ^ (mixed >> 54)
    mixed = mixed * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & FULL
    mixed ^= (mixed >> 30) ^ (mixed >> 60)
    assert mixed == value
