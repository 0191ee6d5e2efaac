"""Layouts: sized by their own models, and the models are what is counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.compiled import Int64, UInt64, kernel
from dedup_pipeline.urls import layouts
from dedup_pipeline.urls.layouts import Layout, classic_rate, empty_words, plan_layout, position


def keys(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Return random keys."""
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


def everything(count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Want all."""
    return np.ones(count, dtype=np.bool_)


def filled(layout: Layout, count: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the words of a filter with ``count`` distinct keys."""
    words = empty_words(layout)
    layouts.add(layout, words, keys(count, seed), everything(count), 1 << 60, np.zeros(count, np.bool_), 0)
    return words


def counted_rate(layout: Layout, words: np.ndarray[tuple[int], np.dtype[np.uint64]], queries: int) -> float:
    """Return the share of absent keys that the filter calls seen."""
    found = np.zeros(queries, np.bool_)
    layouts.find(layout, words, keys(queries, 999), everything(queries), found)
    return float(found.mean())


# Bits per item of the blocked models, computed from the Poisson sum by hand once (1e-2, 1e-3) and by its two-bit
# form (1e-4); the classic ones are -k / ln(1 - p^(1/k)).
@pytest.mark.parametrize(
    ("rate", "name", "hashes", "bits"),
    [
        (1e-2, "blocked", 8, 10.10),
        (1e-3, "blocked", 8, 15.72),
        (5e-4, "blocked", 8, 17.81),
        (1e-4, "blocked", 16, 22.87),
        (9e-5, "classic", 13, 19.40),
        (1e-6, "classic", 20, 28.76),
    ],
)
def test_each_rate_has_its_layout_and_size(rate: float, name: str, hashes: int, bits: float) -> None:
    layout = plan_layout(1_000_000, rate)
    assert (layout.name, layout.hashes) == (name, hashes)
    assert layout.bits / 1e6 == pytest.approx(bits, abs=0.01)


@given(st.integers(1, 10**12), st.floats(1e-12, 0.4))
def test_a_planned_layout_keeps_its_rate_at_capacity_and_wastes_little(capacity: int, rate: float) -> None:
    layout = plan_layout(capacity, rate)
    assert layout.rate(capacity) <= rate * (1 + 1e-6)
    if capacity > 10_000:
        assert layout.rate(capacity * 1.01) > rate * 0.98


@given(st.floats(1e-8, 0.3), st.integers(1000, 10**7))
def test_rates_grow_with_the_items(rate: float, capacity: int) -> None:
    layout = plan_layout(capacity, rate)
    rates = [layout.rate(capacity * share) for share in (0.0, 0.1, 0.5, 1.0, 2.0, 10.0)]
    assert rates == sorted(rates)
    assert rates[0] == 0.0
    assert rates[-1] <= 1.0


@pytest.mark.parametrize("rate", [1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_the_model_is_what_is_counted(rate: float, share: float) -> None:
    capacity = 100_000
    layout = plan_layout(capacity, rate)
    items, queries = int(capacity * share), 2_000_000
    expected = layout.rate(items)
    counted = counted_rate(layout, filled(layout, items), queries)
    # One filter's own rate scatters beside the draw of the queries: blocks are few compared with the queries.
    assert abs(counted - expected) <= 4 * math.sqrt(expected / queries) + 0.02 * expected


@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-5])
def test_bits_set_tell_how_many_keys_are_in(rate: float) -> None:
    layout = plan_layout(50_000, rate)
    words = filled(layout, 30_000)
    fill = float(np.bitwise_count(words).sum()) / layout.bits
    assert layout.items_of(fill) == pytest.approx(30_000, rel=0.01)
    assert layout.items_of(0.0) == 0
    assert layout.items_of(1.0) == math.inf


@pytest.mark.parametrize("rate", [0.05, 1e-2])
def test_the_integral_is_what_gets_lost(rate: float) -> None:
    layout = plan_layout(20_000, rate)
    offered, lost, inserted = 22_000, 0, 0
    for seed in range(20):
        words, new = empty_words(layout), np.zeros(offered, np.bool_)
        layouts.add(layout, words, keys(offered, 100 + seed), everything(offered), 1 << 60, new, 0)
        lost += offered - int(new.sum())
        inserted += int(new.sum())
    assert lost == pytest.approx(20 * layout.lost(inserted / 20), rel=0.06)


def test_lost_agrees_with_a_plain_sum() -> None:
    layout = plan_layout(1000, 0.01)
    plain = sum(layout.rate(n + 0.5) / (1 - layout.rate(n + 0.5)) for n in range(1000))
    assert layout.lost(1000) == pytest.approx(plain, rel=1e-4)
    assert layout.lost(0) == 0.0


@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-5])
def test_adding_stops_at_the_limit_and_goes_on_from_there(rate: float) -> None:
    layout = plan_layout(1000, rate)
    words, offered = empty_words(layout), keys(500, 3)
    offered = np.concatenate([offered[:100], offered])  # the first hundred twice
    new = np.zeros(600, np.bool_)
    stopped, added = layouts.add(layout, words, offered, everything(600), 250, new, 0)
    assert (stopped, added) == (350, 250)
    assert new.tolist() == [True] * 100 + [False] * 100 + [True] * 150 + [False] * 250
    stopped, added = layouts.add(layout, words, offered, everything(600), 1000, new, stopped)
    assert (stopped, added) == (600, 250)
    assert new[350:].all()


@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-5])
def test_unwanted_keys_are_passed_over(rate: float) -> None:
    layout = plan_layout(1000, rate)
    words, offered, wanted = empty_words(layout), keys(100, 4), np.arange(100) % 2 == 0
    new, found = np.zeros(100, np.bool_), np.zeros(100, np.bool_)
    layouts.add(layout, words, offered, wanted, 1000, new, 0)
    assert (new == wanted).all()
    layouts.find(layout, words, offered, everything(100), found)
    assert (found == wanted).all()
    found[:] = False
    layouts.find(layout, words, offered, ~wanted, found)
    assert not found.any()


def test_every_block_and_every_bit_is_used() -> None:
    layout = plan_layout(2000, 1e-2)
    words = filled(layout, 200_000)
    assert (words == np.uint64(0xFFFFFFFFFFFFFFFF)).all()


@pytest.mark.parametrize("bits", [2**33 + 512, 2**45])
def test_positions_are_spread_beyond_32_bits(bits: int) -> None:
    places = _positions(keys(4000, 5), bits)
    assert places.max() > 0.998 * bits
    assert len(np.unique(places)) > 3990
    # Each tenth of the filter gets its share, and odd and even places too.
    shares = np.bincount((places // (bits // 10 + 1)).astype(np.int64), minlength=10) / len(places)
    assert (np.abs(shares - 0.1) < 0.02).all()
    assert abs(float((places & np.int64(1)).mean()) - 0.5) < 0.03


@kernel
def _positions(offered: UInt64, bits: int) -> Int64:
    out = np.empty(len(offered), dtype=np.int64)
    for at in range(len(offered)):
        out[at] = position(offered[at, 0], offered[at, 1], 3, bits)
    return out


@pytest.mark.parametrize("rate", [1e-2, 1e-4])
def test_the_bits_of_a_key_are_the_documented_ones(rate: float) -> None:
    layout = plan_layout(10_000, rate)
    for upper, lower in keys(200, 8).tolist():
        expected = [0] * layout.words
        block = 8 * (upper * (layout.bits // 512) >> 64)
        for word in range(8):
            first = lower >> 6 * word & 63
            expected[block + word] |= 1 << first
            if layout.hashes == 16:
                step = 1 + (_mixed(lower) >> 6 * word & 63) * 63 // 64
                expected[block + word] |= 1 << (first + step) % 64
        words, key = empty_words(layout), np.array([[upper, lower]], dtype=np.uint64)
        layouts.add(layout, words, key, everything(1), 1, np.zeros(1, np.bool_), 0)
        assert words.tolist() == expected
        assert sum(word.bit_count() for word in expected) == layout.hashes


def _mixed(value: int) -> int:
    """The finaliser of SplitMix64."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


@pytest.mark.parametrize("rate", [1e-2, 1e-4])
def test_a_key_is_missing_if_one_of_its_bits_is(rate: float) -> None:
    layout, key = plan_layout(1, rate), keys(1, 9)
    whole = empty_words(layout)
    layouts.add(layout, whole, key, everything(1), 1, np.zeros(1, np.bool_), 0)
    for word in range(layout.words):
        for bit in range(64):
            words, found = empty_words(layout), np.zeros(1, np.bool_)
            words[:] = whole
            words[word] &= ~(np.uint64(1) << np.uint64(bit))
            layouts.find(layout, words, key, everything(1), found)
            assert found[0] == (words == whole).all()


def test_a_cache_line_holds_a_block() -> None:
    for capacity in (1, 10, 12345, 10**6):
        words = empty_words(plan_layout(capacity, 1e-2))
        assert words.ctypes.data % 64 == 0
        assert not words.any()


def test_the_classic_rate_of_a_tiny_filter() -> None:
    assert classic_rate(1, 3, 0) == 0.0
    assert classic_rate(1, 3, 1) == 1.0
    assert classic_rate(9585059, 7, 1_000_000) == pytest.approx(0.01004, abs=1e-5)
