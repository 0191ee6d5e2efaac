"""Tables and sorted arrays of keys, against Python sets of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.urls.key_table import KeyTable, find_sorted, merge_sorted, slots_for, sort_keys

Keys = np.ndarray[Any, Any]

# Few values, extreme ones among them, so that halves repeat, slots collide and zero occurs.
half = st.sampled_from([0, 1, 2, 1023, 1024, 2**63, 2**64 - 2, 2**64 - 1])
pairs = st.lists(st.tuples(half, half), max_size=80)


def as_keys(values: list[tuple[int, int]]) -> Keys:
    """Return pairs as an array."""
    return np.array(values, dtype=np.uint64).reshape(-1, 2)


def as_pairs(keys: Keys) -> list[tuple[int, int]]:
    """Return an array as pairs."""
    return [(int(high), int(low)) for high, low in keys]


def everything(count: int) -> Keys:
    """Want all."""
    return np.ones(count, dtype=np.bool_)


@given(pairs, pairs)
def test_a_table_is_a_set(values: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    table, new = KeyTable(), np.zeros(len(values), np.bool_)
    assert table.add(as_keys(values), everything(len(values)), new, 0) == len(values)
    assert new.tolist() == [values.index(value) == at for at, value in enumerate(values)]
    assert len(table) == len(set(values))
    found = np.zeros(len(others), np.bool_)
    table.find(as_keys(others), everything(len(others)), found)
    assert found.tolist() == [other in values for other in others]
    assert as_pairs(table.keys()) == sorted(set(values))


@given(pairs)
def test_growing_keeps_every_key(values: list[tuple[int, int]]) -> None:
    table = KeyTable()
    table.add(as_keys(values), everything(len(values)), np.zeros(len(values), np.bool_), 0)
    before = table.nbytes
    table.grow()
    assert table.nbytes == 2 * before
    assert as_pairs(table.keys()) == sorted(set(values))
    assert len(table) == len(set(values))


def test_a_full_table_says_where_it_stopped() -> None:
    table = KeyTable()
    keys = np.random.default_rng(1).integers(1, 2**64, (2000, 2), dtype=np.uint64)
    new = np.zeros(2000, np.bool_)
    room = table.room
    stopped = table.add(keys, everything(2000), new, 0)
    assert stopped == room == len(table) < 2000
    assert table.room == 0
    assert new[:stopped].all()
    assert not new[stopped:].any()
    assert table.add(keys[:stopped], everything(stopped), np.zeros(stopped, np.bool_), 0) == stopped
    table.grow()
    assert table.add(keys, everything(2000), new, stopped) > stopped


def test_crafted_keys_of_one_slot_are_all_kept() -> None:
    keys = as_keys([(1024 * n, n) for n in range(1, 500)])
    table, found = KeyTable(), np.zeros(499, np.bool_)
    assert table.add(keys, everything(499), np.zeros(499, np.bool_), 0) == 499
    table.find(keys, everything(499), found)
    assert found.all()


@pytest.mark.parametrize("count", [0, 1, 716, 717, 100_000, 10**9])
def test_slots_for_leaves_room(count: int) -> None:
    slots = slots_for(count)
    assert slots & (slots - 1) == 0
    assert count <= slots * 0.7 <= max(1024, 2.1 * count)


@given(pairs)
def test_sorting_is_by_both_halves(values: list[tuple[int, int]]) -> None:
    assert as_pairs(sort_keys(as_keys(values))) == sorted(values)


@given(pairs, pairs, st.integers(1, 100))
def test_merging_gives_one_ascending_array_in_pieces(
    left: list[tuple[int, int]], right: list[tuple[int, int]], piece: int
) -> None:
    places, out, merged = np.zeros(2, np.int64), np.zeros((piece, 2), np.uint64), []
    one, other = as_keys(sorted(left)), as_keys(sorted(right))
    while count := merge_sorted(one, other, places, out):
        merged += as_pairs(out[:count])
    assert merged == sorted(left + right)


@given(pairs, pairs)
def test_finding_in_a_sorted_array(values: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    run, found = as_keys(sorted(set(values))), np.zeros(len(others), np.bool_)
    find_sorted(run, as_keys(others), everything(len(others)), found)
    assert found.tolist() == [other in values for other in others]


def test_finding_leaves_what_is_not_wanted_and_what_is_found() -> None:
    run, keys = as_keys([(1, 1), (2, 2)]), as_keys([(1, 1), (2, 2), (3, 3)])
    found = np.array([False, False, True])
    find_sorted(run, keys, np.array([False, True, True]), found)
    assert found.tolist() == [False, True, True]


@pytest.mark.parametrize("shape", ["even", "crowded low", "crowded high", "one value", "exponential"])
def test_finding_works_for_any_spread_of_the_keys(shape: str) -> None:
    chosen = np.random.default_rng(7)
    high = {
        "even": chosen.integers(0, 2**64, 5000, dtype=np.uint64),
        "crowded low": np.append(np.arange(4999, dtype=np.uint64), np.uint64(2**64 - 1)),
        "crowded high": np.append(np.uint64(0), np.uint64(2**64 - 1) - np.arange(4999, dtype=np.uint64)),
        "one value": np.full(5000, 12345, dtype=np.uint64),
        "exponential": np.uint64(1) << (np.arange(5000) % 64).astype(np.uint64),
    }[shape]
    keys = sort_keys(np.stack([high, chosen.integers(0, 2**64, 5000, dtype=np.uint64)], axis=1))
    found = np.zeros(5000, np.bool_)
    find_sorted(keys, keys, everything(5000), found)
    assert found.all()
    absent = keys ^ np.uint64(1 << 33)
    truth = {*as_pairs(keys)}
    found[:] = False
    find_sorted(keys, absent, everything(5000), found)
    assert found.tolist() == [key in truth for key in as_pairs(absent)]
