"""Candidate pairs against brute force, the choice of bands against every other choice, the S-curve against chance."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.near.lsh import (
    MOST_TEXTS,
    Bands,
    candidate_pairs,
    candidate_probability,
    choose_bands,
    gather_keys,
    number_texts,
)
from dedup_pipeline.near.minhash import band_keys, signatures

LAWS = settings(deadline=None, max_examples=200)
TOP = (1 << 64) - 1
# Few different keys, spread over the whole key space and at the ends of its slices.
KEYS = st.sampled_from([0, 1, TOP, TOP - 1, TOP // 2, TOP // 2 + 1, TOP // 3, TOP // 3 + 1, 1 << 62, 7 << 60])
THRESHOLDS = st.sampled_from([0.001, 0.1, 0.25, 1 / 3, 0.5, 2 / 3, 0.8, 1.0])


@st.composite
def indexes(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Band keys and set sizes of some texts."""
    bands = draw(st.integers(1, 4))
    keys = draw(st.lists(st.lists(KEYS, min_size=bands, max_size=bands), max_size=25))
    return keys, draw(st.lists(st.integers(1, 12), min_size=len(keys), max_size=len(keys)))


def meetings(keys: list[list[int]], sizes: list[int], threshold: float) -> set[tuple[int, int]]:
    return {
        (left, right)
        for left, right in combinations(range(len(keys)), 2)
        if any(one == other for one, other in zip(keys[left], keys[right], strict=True))
        and not Fraction(min(sizes[left], sizes[right]), max(sizes[left], sizes[right])) < Fraction(threshold)
    }


def found(
    keys: list[list[int]] | np.ndarray, sizes: list[int], threshold: float, pairs_at_once: int, keys_at_once: int
) -> tuple[list[tuple[int, int]], int]:
    """All pairs in the order yielded, and the largest bucket."""
    table = np.array(keys, dtype=np.uint64) if len(keys) else np.zeros((0, 4), dtype=np.uint64)
    largest = np.zeros(1, dtype=np.int64)
    arrays = list(
        candidate_pairs(table, np.array(sizes, dtype=np.int64), threshold, pairs_at_once, keys_at_once, largest)
    )
    assert all(array.dtype == np.uint64 and 0 < len(array) <= pairs_at_once for array in arrays)
    pairs = [(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for array in arrays for pair in array]
    return pairs, int(largest[0])


@LAWS
@given(indexes(), THRESHOLDS, st.sampled_from([1, 2, 3, 7, 1000]), st.sampled_from([1, 2, 3, 5, 1000]))
def test_every_pair_that_meets_exactly_once(
    index: tuple[list[list[int]], list[int]], threshold: float, pairs_at_once: int, keys_at_once: int
) -> None:
    keys, sizes = index
    pairs, largest = found(keys, sizes, threshold, pairs_at_once, keys_at_once)
    assert len(set(pairs)) == len(pairs)
    assert all(left < right for left, right in pairs)
    wanted = meetings(keys, sizes, threshold)
    # A quotient of two counts is rounded before it is compared; only a border case may differ, and only to stay in.
    assert wanted <= set(pairs) <= meetings(keys, sizes, threshold * (1 - 1e-15))
    assert largest == max((column.count(key) for column in zip(*keys, strict=True) for key in column), default=0)


@pytest.mark.parametrize("pairs_at_once", [1, 2, 44, 45, 46, 90, 1000])
@pytest.mark.parametrize("keys_at_once", [1, 3, 9, 10, 11, 1000])
def test_one_bucket_of_ten(pairs_at_once: int, keys_at_once: int) -> None:
    pairs, largest = found([[5, 5]] * 10, [3] * 10, 0.5, pairs_at_once, keys_at_once)
    assert sorted(pairs) == list(combinations(range(10), 2))
    assert largest == 10


@pytest.mark.parametrize("slices", [1, 2, 3, 5, 7, 64])
def test_keys_at_the_ends_of_slices_are_in_exactly_one(slices: int) -> None:
    width = (1 << 64) // slices
    borders = sorted({(part * width + step) % (1 << 64) for part in range(slices + 1) for step in (-1, 0, 1)})
    keys = [[key] for key in borders for _ in range(2)]
    pairs, _ = found(keys, [1] * len(keys), 1.0, 1000, -(-len(keys) // slices))
    assert sorted(pairs) == [(at, at + 1) for at in range(0, len(keys), 2)]


def test_sizes_at_the_border_of_the_threshold_stay() -> None:
    """2 of 3 shingles may be alike; 2 of 3.000…1 may not."""
    assert found([[1], [1]], [2, 3], 2 / 3, 10, 10)[0] == [(0, 1)]
    assert found([[1], [1]], [3, 2], 2 / 3, 10, 10)[0] == [(0, 1)]
    assert found([[1], [1]], [2, 3], math.nextafter(2 / 3, 1), 10, 10)[0] == []


def test_keys_in_different_bands_do_not_meet() -> None:
    assert found([[1, 2], [2, 1]], [1, 1], 0.5, 10, 10)[0] == []


def test_no_texts_and_one() -> None:
    assert found([], [], 0.5, 10, 10) == ([], 0)
    assert found([[1, 2]], [1], 0.5, 10, 10) == ([], 1)


def test_largest_bucket_is_raised_and_never_lowered() -> None:
    largest = np.array([9], dtype=np.int64)
    list(candidate_pairs(np.ones((3, 1), np.uint64), np.ones(3, np.int64), 0.5, 10, 10, largest))
    assert largest[0] == 9


def test_more_texts_than_a_pair_can_name() -> None:
    keys = np.broadcast_to(np.zeros((1, 1), np.uint64), (MOST_TEXTS, 1))
    with pytest.raises(ValueError, match="4294967296 distinct texts are more than 4294967295"):
        next(candidate_pairs(keys, np.ones(1, np.int64), 0.5, 10, 10, np.zeros(1, np.int64)))


# ---- bands and rows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "num_perm", "target", "wanted"),
    [
        (0.8, 128, 0.99, (16, 6)),
        (0.8, 128, 0.9, (13, 8)),
        (0.8, 128, 0.999, (18, 5)),
        (0.5, 128, 0.99, (35, 3)),
        (0.9, 128, 0.99, (11, 10)),
        (0.95, 128, 0.99, (8, 16)),
        (0.3, 128, 0.99, (49, 2)),
        (0.7, 256, 0.95, (35, 7)),
        (0.8, 64, 0.99, (12, 5)),
        (0.8, 16, 0.99, (5, 2)),
        (0.8, 1, 0.5, (1, 1)),
        (0.1, 8, 0.99, (8, 1)),
        (1.0, 128, 0.99, (1, 128)),
    ],
)
def test_table_of_choices(threshold: float, num_perm: int, target: float, wanted: tuple[int, int]) -> None:
    assert choose_bands(threshold, num_perm, target) == Bands(*wanted)


SHARE = st.floats(0.01, 1.0)
TARGET = st.floats(0.01, 0.999999)


@LAWS
@given(SHARE, st.integers(1, 256), TARGET)
def test_the_choice_reaches_the_target_and_nothing_narrower_does(
    threshold: float, num_perm: int, target: float
) -> None:
    bands, rows = choose_bands(threshold, num_perm, target)
    assert bands >= 1
    assert rows >= 1
    assert bands * rows <= num_perm
    if candidate_probability(threshold, num_perm, 1) < target:
        assert (bands, rows) == (num_perm, 1)
        return
    assert candidate_probability(threshold, bands, rows) >= target
    assert bands == 1 or candidate_probability(threshold, bands - 1, rows) < target
    assert all(
        candidate_probability(threshold, num_perm // more, more) < target for more in range(rows + 1, num_perm + 1)
    )


@LAWS
@given(SHARE, SHARE, st.integers(1, 200), st.integers(1, 200), TARGET, TARGET)
def test_the_choice_is_monotone(one: float, other: float, few: int, many: int, low: float, high: float) -> None:
    low, high = sorted([low, high])
    one, other = sorted([one, other])
    few, many = sorted([few, many])
    if candidate_probability(one, few, 1) < high:
        return  # out of reach: the last resort is not monotone
    rows = choose_bands(one, few, high).rows
    assert choose_bands(one, few, low).rows >= rows
    assert choose_bands(other, few, high).rows >= rows
    assert choose_bands(one, many, high).rows >= rows


@LAWS
@given(st.fractions(0, 1), st.fractions(0, 1), st.integers(1, 40), st.integers(1, 40))
def test_probability_equals_exact_arithmetic_and_is_monotone(
    one: Fraction, other: Fraction, bands: int, rows: int
) -> None:
    low, high = sorted([one, other])
    chance = candidate_probability(float(high), bands, rows)
    assert chance == pytest.approx(float(1 - (1 - high**rows) ** bands), rel=1e-9, abs=1e-13)
    assert 0.0 <= chance <= 1.0
    slack = 1e-13
    assert candidate_probability(float(low), bands, rows) <= chance + slack
    assert candidate_probability(float(high), bands + 1, rows) >= chance - slack
    assert candidate_probability(float(high), bands, rows + 1) <= chance + slack


def test_probability_at_the_ends() -> None:
    assert candidate_probability(0.0, 16, 6) == 0.0
    assert candidate_probability(1.0, 16, 6) == 1.0
    assert candidate_probability(0.5, 1, 1) == 0.5


@pytest.mark.parametrize(("threshold", "num_perm", "target"), [(0.8, 128, 0.99), (0.5, 128, 0.9), (0.9, 64, 0.95)])
def test_measured_curve(threshold: float, num_perm: int, target: float) -> None:
    """Random sets of a known similarity become candidates as often as the formula says, within 3 sigma."""
    bands, rows = choose_bands(threshold, num_perm, target)
    generator = np.random.default_rng(11)
    pairs, size = 3000, 50
    for shared in (10, 25, 34, 40, 45, 48, 50):
        similarity = shared / (2 * size - shared)
        values = generator.integers(1, 1 << 63, (pairs, 2 * size - shared), dtype=np.uint64)
        content = np.concatenate([values[:, :size], values[:, size - shared :]], axis=1).ravel()
        offsets = np.arange(0, content.size + 1, size, dtype=np.int64)
        keys = band_keys(signatures(content, offsets, bands * rows), bands, rows)
        met, _ = found(keys, [size] * (2 * pairs), 1.0, 1 << 16, 1 << 20)
        own = sum(left % 2 == 0 and right == left + 1 for left, right in met)
        assert len(met) == own, "pairs of unrelated sets met"
        chance = candidate_probability(similarity, bands, rows)
        assert abs(own - chance * pairs) <= 3 * math.sqrt(pairs * chance * (1 - chance)) + 1e-9


# ---- texts and their keys -----------------------------------------------------------------------


@LAWS
@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", None]), st.integers()), max_size=30), st.randoms())
def test_texts_are_numbered_in_priority_order(records: list[tuple[str | None, int]], random: object) -> None:
    """``""`` stands for a text without shingles, None for a record without text."""
    texts = [text for text, _ in records]
    documents = list(range(len(texts)))
    random.shuffle(documents)  # type: ignore[attr-defined]
    groups = [-1 if text is None else texts.index(text) for text in texts]
    sizes = np.zeros(len(texts), dtype=np.int64)
    sizes[documents] = [5 if text else 0 for text in texts]
    numbers, firsts = np.full((2, len(texts)), -7, dtype=np.int64)
    count = number_texts(np.array(groups, np.int64), np.array(documents, np.int64), sizes, numbers, firsts)
    order = list(dict.fromkeys(text for text in texts if text))
    assert count == len(order)
    assert numbers.tolist() == [order.index(text) if text else -1 for text in texts]
    assert firsts[:count].tolist() == [documents[texts.index(text)] for text in order]


def test_keys_are_gathered_by_document() -> None:
    bands = np.arange(20, dtype=np.uint64).reshape(5, 4)
    keys = np.zeros((3, 4), dtype=np.uint64)
    gather_keys(bands, np.array([4, 0, 4], dtype=np.int64), keys)
    assert keys.tolist() == bands[[4, 0, 4]].tolist()
