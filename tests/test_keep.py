"""Keep policies: the order they give equals a plain Python sort, and wrong values are named."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import CommandLine, Runner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_pipeline.engines.relational import Relations
from dedup_pipeline.errors import InputError
from dedup_pipeline.keep import is_reading_order, order_clause, policy_columns, priority_keys
from dedup_pipeline.records import seen_array
from dedup_pipeline.schema import SEEN
from dedup_pipeline.sources.batches import text_array


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> Relations:
    return Relations(1, 256 * 1000**2, tmp_path_factory.mktemp("keep") / "spill")


def keys_of(policy: list[str], rows: pa.RecordBatch, source: str = "s.jsonl", first: int = 0) -> np.ndarray:
    positions = pa.array(range(first, first + rows.num_rows), pa.int64())
    return priority_keys(policy, rows, "text", source, positions)


def order_of(relations: Relations, policy: list[str], rows: pa.RecordBatch) -> list[int]:
    """The row numbers in priority order, through the engine's sort."""
    out = np.full(rows.num_rows, -1, np.int64)
    relations.priority(keys_of(policy, rows), tuple(policy), out)
    return out.tolist()


def rows_of(**columns: list[Any] | pa.Array) -> pa.RecordBatch:
    arrays = {name: values if isinstance(values, pa.Array) else seen_array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


# --- one criterion ------------------------------------------------------------------------------------


def test_first_and_last(relations: Relations) -> None:
    rows = rows_of(text=["a", "b", "c"])
    assert order_of(relations, ["first"], rows) == [0, 1, 2]
    assert order_of(relations, ["last"], rows) == [2, 1, 0]
    assert order_of(relations, [], rows) == [0, 1, 2]


def test_longest_counts_characters_and_null_as_none(relations: Relations) -> None:
    texts = ["ab", None, "世界界", "", "abc", "🌍🌍🌍🌍"]
    for rows in (rows_of(text=texts), rows_of(text=pa.array(texts)), rows_of(text=pa.array(texts, pa.string_view()))):
        assert order_of(relations, ["longest"], rows) == [5, 2, 4, 0, 1, 3]
    assert order_of(relations, ["longest"], rows_of(other=[1, 2])) == [0, 1]


def test_the_length_of_a_text_does_not_depend_on_a_bad_neighbour() -> None:
    parts = ["世界".encode(), b"a\xff"]
    texts = text_array([len(part) for part in parts], parts, None)
    column = pa.StructArray.from_arrays([pa.array([5, 5], pa.uint8()), texts], fields=list(SEEN))
    both = keys_of(["longest"], pa.RecordBatch.from_arrays([column], names=["text"]))
    alone = keys_of(["longest"], rows_of(text=["世界"]))
    assert both[0].tolist() == alone[0].tolist() == [-2.0, 0.0]


NEWEST = [
    # values, the order in which they are kept
    (pa.array([date(2023, 1, 1), None, date(2024, 1, 1)]), [2, 0, 1]),
    (pa.array([1, None, 2], pa.date64()), [2, 0, 1]),
    (pa.array([5, 6, None, -1], pa.timestamp("ns")), [1, 0, 3, 2]),
    (pa.array([10**18, 10**18 + 1], pa.timestamp("ns")), [1, 0]),
    (pa.array([1, None, 2], pa.duration("s")), [2, 0, 1]),
    (pa.array([2**62, 2**62 + 1], pa.timestamp("us", "UTC")), [1, 0]),
    (pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1)]), [1, 0]),
    (["2024-01-01", "2023-12-31", "2024-01-02"], [2, 0, 1]),
    (["2024-01-01T12:00:00Z", "2024-01-01T12:00:00+02:00", "2024-01-01T12:00:00"], [0, 2, 1]),
    (["2024-01-01T00:00:00+14:00", "2023-12-31T12:00:00Z"], [1, 0]),
    (["2024-01-01", "2024-01-01T00:00:00.000001"], [1, 0]),
    (["20240102T000000", "2024-01-01T23:59:59"], [0, 1]),
    (["2024-W02-1", "2024-01-07"], [0, 1]),
    (["0001-01-01", "9999-12-31T23:59:59-12:00"], [1, 0]),
    (["", None, "2024-01-01"], [2, 0, 1]),
    ([" 2024-01-02 ", "2024-01-01"], [0, 1]),
    ([1700000000, 1600000000.5, None, "1650000000"], [0, 3, 1, 2]),
    ([float("nan"), 1.0, None, 2.0], [3, 1, 0, 2]),
    (pa.array([float("nan"), 1.0, None, float("-inf"), float("inf")]), [4, 1, 3, 0, 2]),
]


@pytest.mark.parametrize(("values", "expected"), NEWEST)
def test_newest_and_highest(relations: Relations, values: Any, expected: list[int]) -> None:
    for policy in (["newest:when"], ["highest:when"]):
        assert order_of(relations, policy, rows_of(when=values)) == expected


HUGE = [2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 0, -1]


@pytest.mark.parametrize(
    "values",
    [
        HUGE,
        pa.array(HUGE, pa.int64()),
        pa.array([2**64 - 1, 2**64 - 2, 2**63, 0], pa.uint64()),
        [10**30, 10**30 + 1, -(10**30)],
        pa.array([Decimal("9007199254740993.25"), Decimal("9007199254740993.50"), Decimal("-1")]),
        pa.array([Decimal(10) ** 37 + 1, Decimal(10) ** 37], pa.decimal128(38, 0)),
        pa.array([3, 1, 2], pa.int8()),
        pa.array([0.5, 1.5], pa.float32()),
        ["9007199254740993", "9007199254740992"],
    ],
    ids=lambda values: str(getattr(values, "type", "seen")),
)
def test_highest_is_exact_beyond_what_a_double_holds(relations: Relations, values: Any) -> None:
    numbers = [Fraction(value) for value in (values.to_pylist() if isinstance(values, pa.Array) else values)]
    expected = sorted(range(len(numbers)), key=lambda row: (-numbers[row], row))
    assert order_of(relations, ["highest:n"], rows_of(n=values)) == expected


def test_numbers_beyond_any_double_come_first_and_do_no_harm(relations: Relations) -> None:
    assert order_of(relations, ["highest:n"], rows_of(n=[1, 10**400, -(10**400), None])) == [1, 0, 2, 3]


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (["en", "de", None, "en"], "en", [0, 3, 1, 2]),
        (pa.array(["en", "de", None, "en"]), "en", [0, 3, 1, 2]),
        (pa.array(["en", "de", "en"]).dictionary_encode(), "de", [1, 0, 2]),
        ([1, 2, 2], "2", [1, 2, 0]),
        (pa.array([1, 2, None]), "2", [1, 0, 2]),
        ([1.0, 2.0], "2", [1, 0]),
        (pa.array([1.0, 2.0, None]), "2.0", [1, 0, 2]),
        ([True, False], "false", [1, 0]),
        (pa.array([True, False]), "false", [1, 0]),
        (["a", "x=y"], "x=y", [1, 0]),
        (["x", ""], "", [1, 0]),
        (["EN", "en"], "en", [1, 0]),
        ([["a"], "b"], '["a"]', [0, 1]),
        (["a'b; DROP TABLE documents; --", "b"], "b", [1, 0]),
    ],
)
def test_prefer(relations: Relations, values: Any, wanted: str, expected: list[int]) -> None:
    assert order_of(relations, [f"prefer:lang={wanted}"], rows_of(lang=values)) == expected


def test_a_column_that_the_rows_lack_counts_as_null(relations: Relations) -> None:
    rows = rows_of(text=["a", "b"])
    for policy in (["newest:when"], ["highest:n"], ["prefer:lang=en"]):
        assert order_of(relations, policy, rows) == [0, 1]


# --- wrong values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [None, "last Tuesday"],
        [None, "2024-13-01"],
        [None, "01/02/2024"],
        [None, True],
        [None, "true"],
        [None, [1]],
        [None, {"a": 1}],
        [None, "1_000"],
        [None, "2024_01_02"],
        [None, " "],
        pa.array([None, b"x"]),
        pa.array([None, True]),
        pa.array([None, [1]]),
        pa.array([None, {"a": 1}]),
        pa.array([None, 1], pa.time64("us")),
    ],
    ids=str,
)
def test_a_value_that_has_no_order_is_named(values: Any) -> None:
    for policy in (["newest:when"], ["first", "highest:when"]):
        with pytest.raises(InputError) as caught:
            keys_of(policy, rows_of(when=values), "crawl/a.jsonl", first=41)
        for word in ("crawl/a.jsonl", "record 42", "'when'"):
            assert word in str(caught.value)


def test_text_that_is_no_utf8_is_no_time() -> None:
    parts = [b"2024-01-01", b"2024\xff"]
    texts = text_array([len(part) for part in parts], parts, None)
    column = pa.StructArray.from_arrays([pa.array([5, 5], pa.uint8()), texts], fields=list(SEEN))
    with pytest.raises(InputError, match="record 1"):
        keys_of(["newest:when"], pa.RecordBatch.from_arrays([column], names=["when"]))


@pytest.mark.parametrize(
    "values", [pa.array([["a"]]), pa.array([{"a": 1}]), pa.array([b"a"]), pa.array([b"a"], pa.binary(1))]
)
def test_prefer_refuses_what_is_no_single_text(values: pa.Array) -> None:
    with pytest.raises(InputError) as caught:
        keys_of(["prefer:lang=a"], rows_of(lang=values), "a.parquet", first=7)
    for word in ("a.parquet", "record 7", "'lang'"):
        assert word in str(caught.value)


def test_a_wrong_value_ends_a_run(tmp_path: Path, run_pipeline: Runner) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x", "when": "2024-01-01"}\n{"text": "x", "when": "soon"}\n')
    with pytest.raises(InputError, match="a.jsonl, record 1: column 'when'"):
        run_pipeline([tmp_path / "a.jsonl"], {"keep.policy": ["newest:when"]})


def test_nanoseconds_need_no_pandas(tmp_path: Path, command_line: CommandLine) -> None:
    table = pa.table({"id": ["a", "b"], "text": ["x", "x"], "when": pa.array([1, 2], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a.parquet")
    done = command_line("run", tmp_path / "a.parquet", "-o", tmp_path / "out", "--set", 'keep.policy=["newest:when"]')
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert pq.read_table(tmp_path / "out" / "kept").column("id").to_pylist() == ["b"]


# --- several criteria ---------------------------------------------------------------------------------


def test_criteria_count_in_order_of_weight(relations: Relations) -> None:
    rows = rows_of(text=["aa", "b", "cc", "dd"], lang=["de", "en", "en", "en"], n=[9, 9, 1, 2])
    assert order_of(relations, ["prefer:lang=en", "longest", "highest:n"], rows) == [3, 2, 1, 0]
    assert order_of(relations, ["longest", "highest:n"], rows) == [0, 3, 2, 1]
    assert order_of(relations, ["prefer:lang=en", "last", "highest:n"], rows) == [3, 2, 1, 0]
    assert order_of(relations, ["prefer:lang=en", "first", "highest:n"], rows) == [1, 2, 3, 0]


values = st.sampled_from(
    [None, 0, -1, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.0, 1e300, float("nan")]
) | st.integers(-(2**64), 2**64)
whens = st.none() | st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)) | st.dates()
criteria = st.lists(
    st.sampled_from(["first", "last", "longest", "newest:when", "highest:n", "prefer:lang=en"]),
    min_size=1,
    max_size=4,
    unique=True,
)


@given(
    st.lists(
        st.tuples(values, whens, st.sampled_from([None, "en", "de"]), st.text(max_size=3), st.integers(-720, 720)),
        max_size=12,
    ),
    criteria,
)
@example([(0, None, None, "", 0), (-0.0, None, None, "", 0), (0, None, None, "", 0)], ["highest:n"])
@settings(max_examples=150, deadline=None)
def test_a_policy_is_a_plain_sort(relations: Relations, records: list[Any], policy: list[str]) -> None:
    def stamped(when: Any, minutes: int) -> Any:
        if isinstance(when, datetime) and minutes % 2:
            return when.replace(tzinfo=timezone(timedelta(minutes=minutes))).isoformat()
        return None if when is None else when.isoformat()

    rows = rows_of(
        n=[record[0] for record in records],
        when=[stamped(record[1], record[4]) for record in records],
        lang=[record[2] for record in records],
        text=[record[3] for record in records],
    )

    def sort_key(row: int) -> list[Any]:
        number, when, lang, text, minutes = records[row]
        key: list[Any] = []
        for entry in policy:
            if entry in ("first", "last"):
                return [*key, row if entry == "first" else -row]
            if entry == "longest":
                key.append(-len(text))
            elif entry == "prefer:lang=en":
                key.append(lang != "en")
            elif entry == "highest:n":
                empty = number is None or number != number
                key.append((empty, 0 if empty else -Fraction(number)))
            else:
                key.append((when is None, 0 if when is None else -moment(when, minutes)))
        return [*key, row]

    def moment(when: Any, minutes: int) -> int:
        naive = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day)
        shift = timedelta(minutes=minutes) if isinstance(when, datetime) and minutes % 2 else timedelta()
        return (naive - datetime(1970, 1, 1) - shift) // timedelta(microseconds=1)

    assert order_of(relations, policy, rows) == sorted(range(len(records)), key=sort_key)


@given(st.lists(values, min_size=1, max_size=10), st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_keys_do_not_depend_on_the_borders_of_batches(numbers: list[Any], cut: int) -> None:
    rows = rows_of(n=numbers, text=["x"] * len(numbers))
    policy = ["longest", "highest:n"]
    halves = [keys_of(policy, rows.slice(0, cut)), keys_of(policy, rows.slice(cut))]
    assert np.array_equal(np.concatenate(halves), keys_of(policy, rows))


def test_the_words_of_a_policy() -> None:
    assert policy_columns(["first", "newest:a", "highest:b", "prefer:c=d=e", "longest"]) == ["a", "b", "c"]
    assert policy_columns(["newest:a:b"]) == ["a:b"]
    assert [is_reading_order(policy) for policy in ([], ["first"], ["first", "longest"], ["last"], ["longest"])] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert order_clause(["longest", "last", "highest:x"], "n") == "k0, k1, n DESC"
    assert order_clause(["longest"], "n") == "k0, k1, n"
    assert (
        functools.reduce(lambda text, bad: text.replace(bad, ""), ["x'; --"], order_clause(["prefer:x'; --=1"], "n"))
        == "k0, k1, n"
    )


# --- through a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (["first"], "a"),
        (["last"], "d"),
        (["newest:when"], "c"),
        (["highest:n"], "b"),
        (["prefer:lang=de"], "d"),
        (["prefer:lang=en", "newest:when"], "c"),
        (["longest", "last"], "d"),
    ],
)
def test_a_run_keeps_whom_the_policy_prefers(
    tmp_path: Path, run_pipeline: Runner, policy: list[str], kept: str
) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": "a", "text": "the same words", "when": "2024-01-01", "n": 9007199254740992, "lang": "en"}\n'
        '{"id": "b", "text": "the same words", "when": "2024-01-02", "n": 9007199254740993, "lang": "en"}\n'
        '{"id": "c", "text": "the same words", "when": "2024-01-03T00:00:00Z", "n": 1, "lang": "en"}\n'
        '{"id": "d", "text": "the same words", "when": null, "n": null, "lang": "de"}\n'
    )
    outcome = run_pipeline([tmp_path / "a.jsonl"], {"keep.policy": policy})
    assert outcome.table("kept").column("id").to_pylist() == [kept]
    assert set(outcome.ledger.column("duplicate_of").to_pylist()) == {None, kept}


def test_microseconds_since_1970_in_utc() -> None:
    moment = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    keys = keys_of(["newest:when"], rows_of(when=[moment.isoformat()]))
    assert keys[0, 0] == -moment.timestamp() * 1e6
