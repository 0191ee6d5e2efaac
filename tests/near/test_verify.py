"""The true Jaccard similarity against Python's sets, above all where a threshold is met exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.near.verify import jaccard_of_pairs

from .oracle_shingles import jaccard

LAWS = settings(deadline=None, max_examples=300)
FULL = (1 << 64) - 1
# Values that fall on one place of the table, on its last place, and anywhere.
VALUES = (
    st.integers(1, 30)
    | st.integers(1, 30).map(lambda n: n << 40)
    | st.integers(1, 30).map(lambda n: (n << 40) | 0xFFFFF)
)
SETS = st.lists(st.lists(VALUES | st.integers(1, FULL), min_size=1, max_size=40, unique=True), min_size=2, max_size=7)
THRESHOLDS = (
    st.sampled_from([1 / 3, 0.1 + 0.2, 0.3, 0.1, 0.7, 0.8, 2 / 3, 1.0, 5e-324, 1e-9, math.nextafter(1.0, 0.0)])
    | st.floats(0, 1, exclude_min=True)
    | st.builds(lambda shared, more: shared / (shared + more), st.integers(1, 30), st.integers(0, 30))
)


def verified(sets: list[list[int]], pairs: list[tuple[int, int]], threshold: float) -> list[float]:
    """The similarities of ``pairs``, for sets that lie in the buffer in reverse order and with gaps."""
    hashes: list[int] = []
    offsets = [0] * len(sets)
    for text in reversed(range(len(sets))):
        hashes += [12345]
        offsets[text] = len(hashes)
        hashes += sets[text]
    packed = np.array([left << 32 | right for left, right in pairs], dtype=np.uint64)
    sizes = np.array([len(found) for found in sets], dtype=np.int64)
    got = jaccard_of_pairs(packed, np.array(hashes, np.uint64), np.array(offsets, np.int64), sizes, threshold)
    assert got.dtype == np.float64
    return got.tolist()


def wanted(sets: list[list[int]], pairs: list[tuple[int, int]], threshold: float) -> list[float]:
    exact = [jaccard(sets[left], sets[right]) for left, right in pairs]
    return [similarity if similarity >= threshold else -1.0 for similarity in exact]


def every_pair(count: int) -> list[tuple[int, int]]:
    return [(left, right) for left in range(count) for right in range(left + 1, count)]


@LAWS
@given(SETS, THRESHOLDS)
def test_equals_sets(sets: list[list[int]], threshold: float) -> None:
    pairs = every_pair(len(sets))
    assert verified(sets, pairs, threshold) == wanted(sets, pairs, threshold)


@LAWS
@given(SETS, THRESHOLDS)
def test_the_order_of_a_set_has_no_say(sets: list[list[int]], threshold: float) -> None:
    pairs = every_pair(len(sets))
    assert verified([found[::-1] for found in sets], pairs, threshold) == verified(sets, pairs, threshold)


def test_every_small_quotient_at_its_own_border() -> None:
    """Shared and union up to 40: the float64 quotient itself, and the numbers just above and below it."""
    for union in range(1, 41):
        for shared in range(1, union + 1):
            apart = union - shared
            left = list(range(1, shared + apart // 2 + 1))
            right = [*range(1, shared + 1), *range(1000, 1000 + apart - apart // 2)]
            exact = shared / union
            for threshold in (exact, math.nextafter(exact, 0.0), math.nextafter(exact, 2.0)):
                similarity = exact if exact >= threshold else -1.0
                assert verified([left, right], [(0, 1)], threshold) == [similarity]
                assert verified([right, left], [(0, 1)], threshold) == [similarity]


@pytest.mark.parametrize(
    ("shared", "union", "threshold", "passes"),
    [
        (1, 3, 1 / 3, True),
        (3, 10, 0.3, True),
        (3, 10, 0.1 + 0.2, False),  # 0.30000000000000004
        (7, 10, 0.7, True),
        (8, 10, 0.8, True),
        (80, 100, 0.8, True),
        (799_999, 1_000_000, 0.8, False),
        (800_000, 1_000_000, 0.8, True),
        (1, 1, 1.0, True),
        (999_999, 1_000_000, 1.0, False),
    ],
)
def test_borders(shared: int, union: int, threshold: float, passes: bool) -> None:
    sets = [list(range(1, shared + 1)), list(range(1, union + 1))]
    assert verified(sets, [(0, 1)], threshold) == [shared / union if passes else -1.0]


def test_a_pair_far_below_is_given_up_and_the_next_one_is_not_touched_by_it() -> None:
    sets = [list(range(1, 101)), list(range(500, 600)), list(range(1, 101)), list(range(51, 151))]
    assert verified(sets, every_pair(4), 0.3) == [-1.0, 1.0, 50 / 150, -1.0, -1.0, 50 / 150]


def test_sets_of_all_sizes_in_turn_share_one_table() -> None:
    """The table is emptied for the next set, grows for a large one, and is no smaller than it must be."""
    sizes = [1, 700, 3, 511, 512, 513, 2, 20_000, 1, 5000, 8, 9]
    sets = [[(value * 0x9E3779B97F4A7C15) & FULL for value in range(1, size + 1)] for size in sizes]
    pairs = every_pair(len(sets))
    assert verified(sets, pairs, 1e-9) == wanted(sets, pairs, 1e-9)


def test_a_table_that_wraps() -> None:
    last = [(value << 32) | 0xFFFFFFFF for value in range(1, 9)]
    sets = [last, last[4:] + [1, 2, 3, 4], [16, 32, 48]]
    assert verified(sets, every_pair(3), 0.01) == [4 / 12, -1.0, -1.0]


def test_one_text_on_the_left_of_many() -> None:
    sets = [list(range(1, 51)), *[list(range(start, start + 50)) for start in range(1, 60)]]
    pairs = [(0, right) for right in range(1, 60)]
    assert verified(sets, pairs, 0.2) == wanted(sets, pairs, 0.2)


def test_no_pairs() -> None:
    assert verified([[1], [2]], [], 0.5) == []
