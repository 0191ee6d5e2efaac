"""One file for all seen-sets: what holds for one holds for every other, fresh and saved and loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.protocol import SeenReport
from protocols.seen_sets import CASES, Case, reopened

Open = Callable[[Any], Any]

HOSTS = ["example.com", "www.example.com", "example.org", "notexample.com"]


def urls(count: int, seed: int = 0, of: int = 10_000) -> list[str]:
    """Return URLs with repeats."""
    chosen = random.Random(seed)
    return [f"http://{chosen.choice(HOSTS)}/{chosen.randrange(of)}?q=\u00e9" for _ in range(count)]


def first_of_each(items: list[Any]) -> list[bool]:
    """Return what a Python set says."""
    seen: set[Any] = {None}
    return [not (item in seen or seen.add(item)) for item in items]  # type: ignore[func-returns-value]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """One kind of seen-set."""
    found: Case = request.param
    return found


@pytest.fixture(params=["fresh", "saved and loaded"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, case: Case) -> Open:
    """Give a seen-set back as it is, or as its file says."""
    return (lambda seen: seen) if request.param == "fresh" else (lambda seen: reopened(seen, tmp_path, case.secret))


@pytest.fixture
def seen(case: Case, tmp_path: Path, opened: Open) -> Any:
    """An empty seen-set."""
    return opened(case.make(tmp_path))


def test_a_batch_is_answered_as_a_python_set_answers(seen: Any, opened: Open) -> None:
    items = urls(3000)
    expected = first_of_each(items)
    assert seen.add(items[:1700]).tolist() == expected[:1700]
    seen = opened(seen)
    assert seen.add(items[1700:]).tolist() == expected[1700:]
    assert len(seen) == sum(expected)


def test_one_by_one_is_as_all_at_once(case: Case, tmp_path: Path) -> None:
    items = urls(300, of=100)
    alone, together = case.make(tmp_path / "a"), case.make(tmp_path / "b")
    assert [bool(alone.add(item)[0]) for item in items] == together.add(items).tolist()


def test_what_was_added_is_contained_for_ever(seen: Any, opened: Open) -> None:
    items = urls(2000)
    seen.add(items)
    seen = opened(seen)
    assert seen.contains(items).all()
    seen.add(urls(2000, seed=1))
    assert seen.contains(items).all()


def test_looking_changes_nothing(seen: Any) -> None:
    items = urls(100)
    assert not seen.contains(items).any()
    assert not seen.contains(items).any()
    assert len(seen) == 0
    assert seen.add(items).tolist() == first_of_each(items)


def test_what_was_never_added_is_not_contained(seen: Any, opened: Open) -> None:
    seen.add(urls(1000))
    absent = [f"http://example.net/{n}" for n in range(1000)]
    assert opened(seen).contains(absent).sum() == 0


def test_text_and_its_bytes_are_one_key(seen: Any) -> None:
    text = "http://example.com/\u00e9\u4e2d"
    assert seen.add([text, text.encode()]).tolist() == [True, False]
    assert text in seen
    assert text.encode() in seen
    assert "http://example.com/e" not in seen


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
def test_every_arrow_form_gives_the_same_keys(seen: Any, kind: pa.DataType) -> None:
    items = ["http://example.com/a", None, "http://example.com/\u00e9", "http://example.com/a"]
    padded = pa.array(["x", *items, "y"], pa.string()).cast(kind)
    assert seen.add(padded[1:-1]).tolist() == [True, False, True, False]
    assert seen.contains([item for item in items if item]).all()


def test_dictionaries_and_chunks_are_taken(seen: Any) -> None:
    items = ["http://example.com/a", "http://example.com/b", None, "http://example.com/a"]
    assert seen.add(pa.array(items).dictionary_encode()).tolist() == [True, True, False, False]
    chunked = pa.chunked_array([["http://example.com/b"], ["http://example.com/c", None], []], pa.string())
    assert seen.add(chunked).tolist() == [False, True, False]


def test_null_is_never_new_and_never_seen(seen: Any) -> None:
    assert seen.add([None, "http://example.com/", None]).tolist() == [False, True, False]
    assert seen.contains([None]).tolist() == [False]
    assert seen.add([None]).tolist() == [False]
    assert len(seen) == 1


def test_the_empty_text_is_a_key_of_its_own(seen: Any) -> None:
    assert seen.add([None, ""]).tolist() == [False, True]
    assert seen.add([""]).tolist() == [False]


def test_nothing_in_nothing_out(seen: Any, opened: Open) -> None:
    for nothing in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert seen.add(nothing).tolist() == []
        assert seen.contains(nothing).tolist() == []
    assert len(opened(seen)) == 0


def test_broken_bytes_and_lone_surrogates_are_keys(seen: Any) -> None:
    items: list[str | bytes] = [b"http://example.com/\xff", "http://example.com/\ud800", b"http://example.com/\xfe"]
    assert seen.add(items).tolist() == [True, True, True]
    assert seen.add(items).tolist() == [False, False, False]


@pytest.mark.parametrize("wrong", [[1], [b"a", 2.0], pa.array([1, 2])])
def test_what_is_no_text_is_refused(seen: Any, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="text|str or bytes"):
        seen.add(wrong)


def test_union_has_seen_what_either_has(case: Case, tmp_path: Path, opened: Open) -> None:
    left, right, whole = case.make(tmp_path / "l"), case.make(tmp_path / "r"), case.make(tmp_path / "w")
    one, two = urls(800, seed=1, of=2000), urls(800, seed=2, of=2000)
    left.add(one)
    right.add(two)
    whole.add(one + two)
    merged = opened(opened(left).union(opened(right)))
    assert merged.contains(one + two).all()
    absent = [f"http://example.net/{n}" for n in range(500)]
    assert (merged.contains(absent) == whole.contains(absent)).all()
    # The count of a filter's union is read off its bits.
    assert len(merged) == pytest.approx(len(whole), rel=0.02 if case.lossy else 0) or case.name == "scalable"
    assert not left.contains([item for item in two if item not in one]).any()


def test_a_union_goes_on_as_any_other_set(case: Case, tmp_path: Path) -> None:
    left, right = case.make(tmp_path / "l"), case.make(tmp_path / "r")
    left.add(urls(100, seed=1))
    right.add(urls(100, seed=2))
    merged = left.union(right)
    fresh = [f"http://example.net/{n}" for n in range(100)]
    assert merged.add(fresh).all()
    assert not merged.add(fresh).any()


def test_a_union_with_another_kind_or_shape_names_what_differs(case: Case, tmp_path: Path) -> None:
    seen = case.make(tmp_path)
    other = next(each for each in CASES if each.name == ("bloom" if case.name != "bloom" else "exact"))
    with pytest.raises(ConfigError, match="cannot be merged") as caught:
        seen.union(other.make(tmp_path / "other"))
    assert ("_rate" if seen.kind == "bloom" != case.name else "kind") in str(caught.value) or "capacity" in str(caught)


def test_describe_counts_and_promises(seen: Any, case: Case) -> None:
    empty = seen.describe()
    assert isinstance(empty, SeenReport)
    assert empty.inserted == 0
    assert empty.error_rate == 0.0
    assert empty.expected_lost == 0.0
    seen.add(urls(500))
    report = seen.describe()
    assert report.kind == seen.kind
    assert report.inserted == len(seen)
    assert report.bytes > 0
    assert (report.error_rate > 0) == (case.lossy and case.name != "nothing")
    assert report.error_rate <= report.final_error_rate or report.capacity is None
    assert report.expected_lost <= len(seen) * report.error_rate + 1e-9 or report.kind in ("exact", "confirmed")


@settings(max_examples=20)
@given(st.lists(st.one_of(st.none(), st.text(max_size=12), st.binary(max_size=12)), max_size=60), st.integers(0, 60))
def test_no_key_is_ever_forgotten(items: list[str | bytes | None], cut: int) -> None:
    # Over all kinds at once: Hypothesis and function-scoped fixtures do not go together.
    def key(item: str | bytes | None) -> bytes | None:
        return item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item

    expected = first_of_each([key(item) for item in items])
    for case in CASES:
        if "spills" in case.name:
            continue
        seen = case.make(Path())
        masks = np.concatenate([seen.add(items[:cut]), seen.add(items[cut:])])
        assert masks.tolist() == expected, case.name
        assert seen.contains(items).tolist() == [item is not None for item in items]
