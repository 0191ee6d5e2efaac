"""Schemes of other people's filters: positions against plain computations of the same, and both bit orders."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.bloom import SeenFilter
from dedup_pipeline.urls.position_schemes import SCHEMES, blake2b_double, murmur3_32, murmur3_seeds, polynomial


def test_the_polynomial_filter_of_sixteen_bits() -> None:
    seen = SeenFilter(16, 3)
    for host in ("cats.io", "dogs.io", "owls.io"):
        seen.add(host)
    assert seen.bits_set == 9
    assert seen.might_contain("dogs.io")
    assert seen.might_contain("bats.io")
    assert not seen.might_contain("yaks.io")


@given(st.text(max_size=40), st.integers(1, 10**12), st.integers(1, 12))
def test_polynomial_positions_by_character(text: str, m: int, k: int) -> None:
    first = second = 0
    for character in text:
        first = (first * 31 + ord(character)) % 1_000_000_007
        second = (second * 37 + ord(character)) % 1_000_000_009
    expected = [(first + i * second) % m for i in range(k)]
    assert polynomial(text.encode("utf-8", "surrogatepass"), m, k) == expected


def test_polynomial_takes_bytes_that_are_no_text_byte_by_byte() -> None:
    assert polynomial(b"\xff", 1000, 2) == [255, 510]


@given(st.binary(max_size=60), st.integers(1, 10**12), st.integers(1, 12))
def test_blake2b_positions(item: bytes, m: int, k: int) -> None:
    digest = hashlib.blake2b(item, digest_size=16).hexdigest()
    first, second = int(digest[:16], 16), int(digest[16:], 16)
    second += second % 2 == 0
    assert blake2b_double(item, m, k) == [(first + i * second) % m for i in range(k)]


# MurmurHash3_x86_32, unsigned, of the values that its public test vectors list.
@pytest.mark.parametrize(
    ("item", "seed", "unsigned"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ],
)
def test_murmur3_is_the_published_one(item: bytes, seed: int, unsigned: int) -> None:
    assert murmur3_32(item, seed) == unsigned - (1 << 32 if unsigned >= 1 << 31 else 0)


def test_murmur3_positions_count_a_negative_hash_from_the_end() -> None:
    assert murmur3_32(b"\x21\x43\x65\x87", 0) < 0
    assert murmur3_seeds(b"\x21\x43\x65\x87", 1000, 1) == [murmur3_32(b"\x21\x43\x65\x87", 0) % 1000]
    places = murmur3_seeds(b"http://example.com/", 4096, 7)
    assert len(places) == 7
    assert all(0 <= place < 4096 for place in places)
    assert places == [murmur3_32(b"http://example.com/", seed) % 4096 for seed in range(7)]


@pytest.mark.parametrize(
    ("scheme", "order"), [("polynomial", "lsb"), ("blake2b_double", "msb"), ("murmur3_seeds", "lsb")]
)
def test_each_scheme_states_its_bit_order(scheme: str, order: str) -> None:
    positions = SCHEMES[scheme][0](b"http://example.com/", 1 << 12, 5)
    seen = SeenFilter(1 << 12, 5, scheme)
    seen.add("http://example.com/")
    bits = np.unpackbits(np.frombuffer(seen.to_bytes(), np.uint8), bitorder="little" if order == "lsb" else "big")
    assert sorted(np.flatnonzero(bits)) == sorted(set(positions))
    assert seen.parameters()["bit_order"] == order


def test_redis_numbers_bits_from_the_top_of_each_byte() -> None:
    # SETBIT key 0 1 makes the byte 0x80.
    place = blake2b_double(b"http://example.com/", 64, 1)[0]
    content = bytearray(8)
    content[place // 8] = 0x80 >> place % 8
    assert SeenFilter.from_bytes(bytes(content), 64, 1, "blake2b_double").might_contain("http://example.com/")
    other = SeenFilter.from_bytes(bytes(content), 64, 1, "blake2b_double", bit_order="lsb")
    assert not other.might_contain("http://example.com/")


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("order", ["lsb", "msb"])
def test_bytes_of_either_order_open_again(scheme: str, order: str) -> None:
    empty = SeenFilter.from_bytes(b"", 10_007, 4, scheme, bit_order=order)
    items = [f"http://example.com/{n}" for n in range(300)]
    empty.add(items)
    again = SeenFilter.from_bytes(empty.to_bytes(), 10_007, 4, scheme, bit_order=order)
    assert again.contains(items).all()
    assert len(again) == pytest.approx(300, rel=0.05)
    assert again.describe().estimated
    assert not again.union(empty).contains(["http://example.org/"]).all()


def test_a_redis_bitmap_may_lack_its_last_zero_bytes() -> None:
    seen = SeenFilter(1 << 16, 3, "blake2b_double")
    seen.add("http://example.com/")
    cut = seen.to_bytes().rstrip(b"\0")
    assert len(cut) < len(seen.to_bytes())
    assert SeenFilter.from_bytes(cut, 1 << 16, 3, "blake2b_double").might_contain("http://example.com/")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((b"\0" * 3, 16, 3), "fill 2 bytes, but 3 were given"),
        ((b"\0\x80", 12, 3), "beyond m = 12"),
        ((b"", 16, 3, "sha1"), "polynomial, blake2b_double, murmur3_seeds"),
        ((b"", 0, 3), "at least 1 bit"),
        ((b"", 3, 0), "at least 1 bit"),
    ],
)
def test_bytes_that_are_no_such_filter_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SeenFilter.from_bytes(*arguments)


def test_an_unknown_bit_order_is_refused() -> None:
    with pytest.raises(ConfigError, match="lsb or msb"):
        SeenFilter.from_bytes(b"", 16, 3, bit_order="little")


def test_a_scheme_has_no_secret() -> None:
    seen = SeenFilter(16, 3)
    with pytest.raises(ConfigError, match="have none"):
        SeenFilter.from_arrays(seen.parameters(), seen.to_arrays(), bytes(16))


def test_fill_and_errors_are_read_off_the_bits() -> None:
    seen = SeenFilter(1000, 2)
    seen.add([f"u{n}" for n in range(200)])
    report = seen.describe()
    assert report.fill == seen.bits_set / 1000
    assert report.error_rate == pytest.approx((seen.bits_set / 1000) ** 2)
    full = SeenFilter.from_bytes(b"\xff" * 2, 16, 3)
    assert full.describe().error_rate == 1.0
    assert len(full) == 16
