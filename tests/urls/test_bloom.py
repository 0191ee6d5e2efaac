"""Bloom filters: what they promise is what is counted, and nothing goes beyond it in silence."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.errors import ConfigError, DedupError, FilterFull
from dedup_pipeline.urls.bloom import (
    BloomFilter,
    CountingBloomFilter,
    ScalableBloomFilter,
    actual_error,
    bloom_size,
)


def urls(count: int, start: int = 0) -> list[str]:
    """Return distinct URLs."""
    return [f"http://example.com/page/{n}" for n in range(start, start + count)]


def keys(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return random keys, ready made."""
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


def sigmas(rate: float, queries: int) -> float:
    """Return three standard deviations of a share counted over so many queries."""
    return 3 * math.sqrt(rate * (1 - rate) / queries)


# The sizes that every text book's calculator gives.
@pytest.mark.parametrize(
    ("items", "rate", "bits", "hashes"),
    [(1_000_000, 0.01, 9_585_059, 7), (1000, 0.001, 14_378, 10), (1, 0.5, 2, 1), (10**9, 1e-6, 28_755_175_133, 20)],
)
def test_bloom_size_is_the_text_books(items: int, rate: float, bits: int, hashes: int) -> None:
    assert bloom_size(items, rate) == (bits, hashes)


@given(st.integers(1, 10**9), st.floats(1e-9, 0.5))
def test_the_text_book_size_errs_about_as_often_as_asked(items: int, rate: float) -> None:
    # Rounding k to a whole number costs up to a tenth where k is small, more where it is 1 or 2 instead of 1.5.
    size = bloom_size(items + 1000, rate)
    assert actual_error(size.bits, size.hashes, items + 1000) <= rate * 1.25


def test_actual_error_by_hand() -> None:
    assert actual_error(10, 1, 1) == pytest.approx(0.1)
    assert actual_error(10, 2, 1) == pytest.approx((1 - 0.9**2) ** 2)
    assert actual_error(100, 3, 0) == 0.0
    assert actual_error(1, 1, 5) == 1.0
    # Not the approximation with e: they differ where filters are small.
    assert actual_error(16, 3, 3) == pytest.approx((1 - (15 / 16) ** 9) ** 3)


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_actual_error_of_nothing_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="at least 1 bit"):
        actual_error(*wrong)


@pytest.mark.parametrize("kind", [BloomFilter, ScalableBloomFilter, CountingBloomFilter])
@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "many", 2**60])
def test_a_capacity_that_is_none_is_refused(kind: Any, capacity: Any) -> None:
    with pytest.raises(ConfigError, match="capacity"):
        kind(capacity)


@pytest.mark.parametrize("kind", [BloomFilter, ScalableBloomFilter, CountingBloomFilter])
@pytest.mark.parametrize("rate", [0, 0.0, 1.0, 2, -0.1, 1e-20, float("nan"), "low", True])
def test_an_error_rate_that_is_none_is_refused(kind: Any, rate: Any) -> None:
    with pytest.raises(ConfigError, match="error_rate"):
        kind(10, rate)


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
@pytest.mark.parametrize("rate", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_what_is_asked_is_met_and_the_model_holds(kind: Any, rate: float, share: float) -> None:
    capacity, queries = 50_000, 1_000_000
    seen = kind(capacity, rate)
    assert seen.add(keys(int(capacity * share), 1)).sum() >= capacity * share * (1 - 2 * rate)
    counted = float(seen.contains(keys(queries, 2)).mean())
    model = seen.describe().error_rate
    assert model <= seen.describe().final_error_rate <= rate * (1 + 1e-9)
    assert abs(counted - model) <= sigmas(model, queries) + 0.02 * model
    assert counted <= rate + sigmas(rate, queries)


@pytest.mark.parametrize("rate", [1e-2, 1e-3])
@pytest.mark.parametrize("growth", [0.5, 1, 10, 40])
def test_a_growing_filter_keeps_its_rate_however_far_it_grows(rate: float, growth: float) -> None:
    capacity, queries = 5_000, 1_000_000
    seen = ScalableBloomFilter(capacity, rate)
    seen.add(keys(int(capacity * growth), 1))
    counted = float(seen.contains(keys(queries, 2)).mean())
    report = seen.describe()
    assert report.error_rate <= rate
    assert counted <= rate
    assert abs(counted - report.error_rate) <= sigmas(report.error_rate, queries) + 0.03 * report.error_rate
    assert report.final_error_rate == rate
    assert report.capacity is not None
    assert report.capacity >= len(seen)


@pytest.mark.parametrize("kind", [BloomFilter, ScalableBloomFilter, CountingBloomFilter])
def test_what_is_lost_is_as_many_as_expected(kind: Any) -> None:
    offered, lost, expected = 20_000, 0, 0.0
    for seed in range(10):
        seen = kind(offered if kind is not ScalableBloomFilter else 500, 0.02)
        lost += offered - int(seen.add(keys(offered, seed)).sum())
        expected += seen.describe().expected_lost
    assert abs(lost - expected) <= 3 * math.sqrt(expected) + 0.02 * expected


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_a_full_filter_says_so_and_how_far_it_came(kind: Any) -> None:
    seen = kind(100, 1e-6)
    items = ["http://example.com/page/0", *urls(150)]
    with pytest.raises(FilterFull, match=r"made for 100 keys and item 101") as caught:
        seen.add(items)
    assert isinstance(caught.value, ConfigError | DedupError)
    assert caught.value.exit_code == 2
    assert caught.value.position == 101
    assert caught.value.new.tolist() == [True, False] + [True] * 99
    assert len(seen) == 100
    assert seen.contains(items[:101]).all()
    assert not seen.contains(items[101:]).any()


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_a_full_filter_still_answers_what_it_has_seen(kind: Any) -> None:
    seen = kind(100, 1e-6)
    seen.add(urls(100))
    assert not seen.add(urls(100)).any()
    with pytest.raises(FilterFull, match="item 0"):
        seen.add(urls(1, 1000))


def test_the_position_counts_over_all_batches_of_one_call() -> None:
    seen = BloomFilter(70_000, 1e-6)
    with pytest.raises(FilterFull) as caught:
        seen.add(keys(100_000, 1))
    assert caught.value.position == 70_000
    assert len(caught.value.new) == 70_000


def test_the_union_of_filters_is_the_filter_of_both() -> None:
    left, right, whole = (BloomFilter(10_000, 1e-3) for _ in range(3))
    left.add(keys(4000, 1))
    right.add(keys(4000, 2))
    whole.add(keys(4000, 1))
    whole.add(keys(4000, 2))
    merged = left.union(right)
    assert (merged.to_arrays()["words"] == whole.to_arrays()["words"]).all() or len(whole) < 8000
    report = merged.describe()
    assert report.estimated
    assert report.inserted == pytest.approx(len(whole), rel=0.02)
    assert report.error_rate == pytest.approx(whole.describe().error_rate, rel=0.2)


def test_the_union_with_an_empty_filter_counts_exactly() -> None:
    left, right = BloomFilter(1000), BloomFilter(1000)
    left.add(urls(500))
    merged = left.union(right)
    assert len(merged) == 500
    assert not merged.describe().estimated


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_a_union_beyond_capacity_is_refused(kind: Any) -> None:
    left, right = kind(1000, 1e-3), kind(1000, 1e-3)
    left.add(urls(1000))
    right.add(urls(1000, 5000))
    with pytest.raises(FilterFull):
        left.union(right)


def test_a_union_of_growing_filters_names_its_new_rate() -> None:
    left, right = ScalableBloomFilter(100, 1e-3), ScalableBloomFilter(1000, 1e-4)
    left.add(urls(700))
    right.add(urls(700, 5000))
    merged = left.union(right)
    assert merged.describe().final_error_rate == pytest.approx(1.1e-3)
    merged.add(urls(5000, 10_000))
    assert merged.contains([*urls(700), *urls(700, 5000), *urls(5000, 10_000)]).all()
    assert merged.describe().error_rate <= 1.1e-3
    assert len(left) == 700


def test_counters_forget_what_is_removed() -> None:
    seen = CountingBloomFilter(1000, 1e-6)
    seen.add(urls(500))
    assert seen.remove(urls(200)).all()
    assert not seen.contains(urls(200)).any()
    assert seen.contains(urls(300, 200)).all()
    assert len(seen) == 300
    assert seen.add(urls(200)).all()


def test_what_was_added_twice_is_there_until_it_is_removed_twice() -> None:
    seen = CountingBloomFilter(1000, 1e-6)
    assert seen.add(["a", "b", "a"]).tolist() == [True, True, False]
    assert seen.remove("a").tolist() == [True]
    assert "a" in seen
    assert len(seen) == 2
    assert seen.remove("a").tolist() == [True]
    assert "a" not in seen
    assert seen.remove(["a", None]).tolist() == [False, False]
    assert len(seen) == 1


def test_a_saturated_counter_never_loses_what_is_still_in() -> None:
    seen = CountingBloomFilter(1000, 1e-6)
    for _ in range(40):
        seen.add("hot")
    for _ in range(39):
        assert seen.remove("hot").all()
    assert "hot" in seen


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([f"u{n}" for n in range(12)])), max_size=80))
def test_counting_follows_a_counter_as_long_as_only_what_is_in_is_removed(steps: list[tuple[bool, str]]) -> None:
    seen, truth = CountingBloomFilter(1000, 1e-9), Counter[str]()
    for adds, url in steps:
        if adds:
            assert bool(seen.add(url)[0]) == (truth[url] == 0)
            truth[url] += 1
        elif truth[url]:
            assert seen.remove(url).all()
            truth[url] -= 1
        for each, count in truth.items():
            assert (each in seen) == (count > 0) or max(truth.values()) > 15
    assert len(seen) == sum(count > 0 for count in truth.values()) or max(truth.values(), default=0) > 15


def test_losses_add_up_over_removals() -> None:
    seen = CountingBloomFilter(1000, 0.1)
    for _ in range(5):
        seen.add(urls(900))
        seen.remove(urls(900))
    once = CountingBloomFilter(1000, 0.1)
    once.add(urls(900))
    assert seen.describe().expected_lost > 4 * once.describe().expected_lost


def test_counters_of_a_union_are_sums() -> None:
    left, right = CountingBloomFilter(1000, 1e-6), CountingBloomFilter(1000, 1e-6)
    left.add(["a", "b"])
    right.add(["b", "c"])
    merged = left.union(right)
    merged.remove("b")
    assert "b" in merged
    merged.remove("b")
    assert merged.contains(["a", "b", "c"]).tolist() == [True, False, True]


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("share", [0.5, 1.0, 10.0])
def test_a_million_keys_at_every_rate(rate: float, share: float) -> None:
    capacity, queries = 1_000_000, max(10_000_000, int(100 / rate))
    kinds: list[Any] = [ScalableBloomFilter] if share > 1 else [BloomFilter, CountingBloomFilter, ScalableBloomFilter]
    for kind in kinds:
        seen, found, asked = kind(capacity, rate), 0, 0
        offered = keys(int(capacity * share), 1)
        seen.add(offered)
        assert seen.contains(offered).all()
        while asked < queries:
            found += int(seen.contains(keys(5_000_000, 1000 + asked)).sum())
            asked += 5_000_000
        model = seen.describe().error_rate
        assert abs(found / asked - model) <= sigmas(model, asked) + 0.005 * model, kind
        assert found / asked <= rate + sigmas(rate, asked)
        if kind is ScalableBloomFilter:
            assert found / asked <= rate
