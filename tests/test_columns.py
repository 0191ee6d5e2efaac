"""One type for each column: what is guessed, what is not, and who is named when sources disagree."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Runner
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.columns import ColumnTypes, conform, decoded, json_texts, plain, plain_rows, plain_type, typed
from dedup_pipeline.errors import SchemaMismatch
from dedup_pipeline.records import seen_array
from dedup_pipeline.schema import SEEN
from dedup_pipeline.sources.batches import text_array


def rows_of(**columns: list[Any] | pa.Array) -> pa.RecordBatch:
    arrays = {name: values if isinstance(values, pa.Array) else seen_array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def settled(*batches: pa.RecordBatch) -> pa.Schema:
    types = ColumnTypes()
    for index, batch in enumerate(batches):
        types.add(f"source{index}", batch)
    return types.settle()


def written(values: list[Any]) -> pa.Array:
    """The values as they stand among the kept rows."""
    batch = rows_of(v=values)
    return conform(batch, settled(batch)).column("v")


INT, REAL, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["007", "7"], TEXT, ["007", "7"]),
        (["1", "2"], TEXT, ["1", "2"]),
        (["2024-05-01"], TEXT, ["2024-05-01"]),
        ([1, 2, None], INT, [1, 2, None]),
        ([2**63 - 1, -(2**63)], INT, [2**63 - 1, -(2**63)]),
        ([2**63], TEXT, ["9223372036854775808"]),
        ([1, -(2**63) - 1], TEXT, ["1", "-9223372036854775809"]),
        ([1, 0.5], REAL, [1.0, 0.5]),
        ([2**53, 0.5], REAL, [float(2**53), 0.5]),
        ([2**53 + 1, 0.5], TEXT, ["9007199254740993", "0.5"]),
        ([-(2**53) - 1, 0.5], TEXT, ["-9007199254740993", "0.5"]),
        ([2**64, 0.5], TEXT, ["18446744073709551616", "0.5"]),
        ([0.1, 5e-324, 1.7976931348623157e308, -0.0], REAL, [0.1, 5e-324, 1.7976931348623157e308, -0.0]),
        ([True, False, None], BOOL, [True, False, None]),
        ([True, 1], TEXT, ["true", "1"]),
        ([True, "true"], TEXT, ["true", "true"]),
        ([1, "1"], TEXT, ["1", "1"]),
        ([1.0, "x"], TEXT, ["1.0", "x"]),
        ([["a", "é"], []], pa.list_(TEXT), [["a", "é"], []]),
        ([[1, None], [2]], pa.list_(INT), [[1, None], [2]]),
        ([[1], [0.5]], pa.list_(REAL), [[1.0], [0.5]]),
        ([[2**53 + 1], [0.5]], TEXT, ["[9007199254740993]", "[0.5]"]),
        ([[2**63]], TEXT, ["[9223372036854775808]"]),
        ([[True]], pa.list_(BOOL), [[True]]),
        ([[], None], pa.list_(TEXT), [[], None]),
        ([[None]], pa.list_(TEXT), [[None]]),
        ([["a", 1]], TEXT, ['["a",1]']),
        ([[True, 1]], TEXT, ["[true,1]"]),
        ([["a"], "a"], TEXT, ['["a"]', "a"]),
        ([[["a"]]], TEXT, ['[["a"]]']),
        ([{"a": 1}], TEXT, ['{"a":1}']),
        ([["a"], {"a": 1}], TEXT, ['["a"]', '{"a":1}']),
        ([{"a": 1}, ["a"]], TEXT, ['{"a":1}', '["a"]']),
        ([None, None], TEXT, [None, None]),
        (["", None], TEXT, ["", None]),
    ],
)
def test_the_type_of_untyped_values(values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    made = written(values)
    assert made.type == kind
    assert [repr(value) for value in made.to_pylist()] == [repr(value) for value in expected]
    made.validate(full=True)


cells = st.sampled_from(
    [None, "", "007", 0, 1, 2**53, 2**53 + 1, 2**63, 0.5, 1e300, True, ["a"], [1], [0.5], [], {"k": 1}]
)


@given(st.lists(cells, max_size=8), st.integers(0, 8))
@settings(max_examples=200, deadline=None)
def test_types_do_not_depend_on_the_borders_of_batches(values: list[Any], cut: int) -> None:
    whole = rows_of(v=values)
    halves = [whole.slice(0, cut), whole.slice(cut)]
    schema = settled(whole)
    assert settled(*halves) == schema
    together = pa.Table.from_batches([conform(half, schema) for half in halves])
    assert together.column("v").to_pylist() == conform(whole, schema).column("v").to_pylist()


@given(st.lists(cells, min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_no_value_is_lost_or_changed(values: list[Any]) -> None:
    for value, made in zip(values, written(values).to_pylist(), strict=True):
        if made is None:
            assert value is None
        elif isinstance(made, str):
            assert made == value or json.loads(made) == value
        else:
            assert made == value


def test_columns_stand_in_order_of_first_appearance_and_lacking_ones_are_null() -> None:
    first, second = rows_of(b=[1], a=["x"]), rows_of(c=[True], a=["y"])
    schema = settled(first, second)
    assert schema.names == ["b", "a", "c"]
    assert conform(second, schema).to_pylist() == [{"b": None, "a": "y", "c": True}]


@pytest.mark.parametrize("name", ['a"b', "a; DROP TABLE x", "", "ä ö", "select", "a\nb", "kind"])
def test_column_names_may_be_anything(name: str) -> None:
    batch = pa.RecordBatch.from_arrays([seen_array([1])], names=[name])
    assert conform(batch, settled(batch)).to_pylist() == [{name: 1}]


# --- typed sources ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.large_string(), TEXT),
        (pa.string_view(), TEXT),
        (pa.dictionary(pa.int32(), pa.string()), TEXT),
        (pa.dictionary(pa.int32(), pa.large_string()), TEXT),
        (pa.dictionary(pa.int8(), INT), INT),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.large_list(pa.large_string()), pa.list_(TEXT)),
        (pa.list_(pa.list_(pa.large_string())), pa.list_(pa.list_(TEXT))),
        (pa.uuid(), pa.binary(16)),
        (pa.int32(), pa.int32()),
        (pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.decimal128(5, 2), pa.decimal128(5, 2)),
        (pa.struct([("a", INT)]), pa.struct([("a", INT)])),
    ],
    ids=str,
)
def test_plain_types(kind: pa.DataType, expected: pa.DataType) -> None:
    assert plain_type(kind) == expected
    assert plain(pa.nulls(2, kind)).type == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b" * 20]),
        pa.array(["a", None], pa.large_string()),
        pa.array(["a", None, "b" * 20], pa.string_view()),
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array([7, None, 7]).dictionary_encode(),
        pa.array([["a"], None, []], pa.large_list(pa.large_string())),
    ],
    ids=lambda column: str(column.type),
)
def test_plain_keeps_the_values(column: pa.Array) -> None:
    assert plain(column).to_pylist() == column.to_pylist()
    assert plain(column[1:]).to_pylist() == column.to_pylist()[1:]
    rows = pa.RecordBatch.from_arrays([column, seen_array([1] * len(column))], names=["a", "b"])
    assert conform(rows, settled(rows)).column("a").to_pylist() == column.to_pylist()
    assert plain_rows(rows).schema.types == [plain_type(column.type), SEEN]


def test_string_forms_of_typed_sources_agree() -> None:
    forms = [pa.array(["x"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())]
    assert settled(*(rows_of(v=form) for form in forms)).types == [TEXT]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (pa.array([1]), pa.array(["x"]), ("int64", "string")),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64()), ("int32", "int64")),
        (pa.array([1]), ["x"], ("int64", "string")),
        (["x"], pa.array([1]), ("string", "int64")),
        (pa.array(["x"]), [1], ("string", "int64")),
        (pa.array([[1]]), [["x"]], ("list<item: int64>", "list<item: string>")),
    ],
)
def test_a_mismatch_names_both_sources_and_both_types(first: Any, second: Any, words: tuple[str, str]) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        settled(rows_of(price=first), rows_of(price=second))
    for word in ("'price'", "source0", "source1", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (INT, [1, None]),
        (REAL, [0.5, 1]),
        (BOOL, [True]),
        (TEXT, ["x", 1]),
        (pa.list_(TEXT), [["x"], []]),
        (pa.list_(pa.field("element", TEXT)), [["x"]]),
        (pa.large_list(pa.large_string()), [["x"]]),
        (pa.int32(), [None, None]),
        (pa.timestamp("us"), [None]),
    ],
    ids=str,
)
def test_typed_and_untyped_sources_agree_where_the_values_do(kind: pa.DataType, values: list[Any]) -> None:
    batches = [rows_of(v=pa.nulls(1, kind)), rows_of(v=values)]
    schema = settled(*batches)
    assert schema == settled(*reversed(batches))
    assert schema.types == [plain_type(kind)]
    table = pa.Table.from_batches([conform(batch, schema) for batch in batches])
    assert table.column("v").to_pylist()[1:] == conform(batches[1], schema).column("v").to_pylist()


# --- values as text -----------------------------------------------------------------------------------


def test_typed_reads_a_slice_of_values() -> None:
    values = seen_array([1, 2.5, "x"])
    assert typed(values[1:], TEXT).to_pylist() == ["2.5", "x"]
    assert typed(seen_array([0, 1, 2])[1:2], INT).to_pylist() == [1]


def test_lists_with_bytes_that_are_no_utf8_are_written_with_the_replacement_character() -> None:
    parts = [b'["a\xff"]', b'["b"]']
    texts = text_array([len(part) for part in parts], parts, None)
    column = pa.StructArray.from_arrays([pa.array([6, 6], pa.uint8()), texts], fields=list(SEEN))
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    assert conform(batch, settled(batch)).column("v").to_pylist() == [["a\ufffd"], ["b"]]
    assert decoded(texts) == ['["a\ufffd"]', '["b"]']


def test_nested_values_as_json() -> None:
    column = pa.array([{"a": Decimal("1.50"), "b": [1.0, None], "c": "é"}, None])
    assert json_texts(column) == ['{"a":"1.50","b":[1.0,null],"c":"é"}', None]
    times = pa.array([[1], []], pa.list_(pa.timestamp("ns")))
    assert json_texts(times) == ['["1970-01-01 00:00:00.000000001"]', "[]"]


# --- through a run ------------------------------------------------------------------------------------


def test_kept_rows_have_the_types_of_the_whole_input(tmp_path: Path, run_pipeline: Runner) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three", "zip": "007", "n": 1, "tags": ["x"]}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "four five six", "n": 0.5, "extra": null}\n')
    pq.write_table(
        pa.table({"text": ["seven eight"], "tags": pa.array([["y"]], pa.large_list(pa.string()))}),
        tmp_path / "c.parquet",
    )
    kept = run_pipeline([tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.parquet")]).table("kept")
    assert kept.schema == pa.schema(
        [("text", TEXT), ("zip", TEXT), ("n", REAL), ("tags", pa.list_(TEXT)), ("extra", TEXT)]
    )
    assert kept.column("zip").to_pylist() == ["007", None, None]
    assert kept.column("tags").to_pylist() == [["x"], None, ["y"]]


def test_every_type_of_parquet_passes_through_a_run(tmp_path: Path, run_pipeline: Runner) -> None:
    table = pa.table(
        {
            "text": ["one two three", "four five six"],
            "decimal": pa.array([Decimal("1.50"), None]),
            "dictionary": pa.array([7, 7]).dictionary_encode(),
            "nanoseconds": pa.array([[1], None], pa.list_(pa.timestamp("ns"))),
            "fixed": pa.array([b"ab", b"\xff\x00"], pa.binary(2)),
            "struct": pa.array([{"a": None}, None], pa.struct([("a", pa.time64("ns"))])),
            "nothing": pa.nulls(2),
            "uuid": pa.array([b"0123456789abcdef", None], pa.uuid()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    kept = run_pipeline([tmp_path / "a.parquet"]).table("kept")
    for name in ("text", "decimal", "dictionary", "nanoseconds", "fixed", "struct", "nothing"):
        assert (
            kept.column(name)
            .cast(plain_type(table.schema.field(name).type))
            .equals(table.column(name).cast(plain_type(table.schema.field(name).type)))
        )


def test_two_files_that_disagree_end_the_run_naming_both(tmp_path: Path, run_pipeline: Runner) -> None:
    pq.write_table(pa.table({"text": ["x"], "price": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"text": "y", "price": "2 EUR"}\n')
    with pytest.raises(SchemaMismatch, match=r"'price' is int64 in a\.parquet but string in b\.jsonl"):
        run_pipeline([tmp_path / "a.parquet", tmp_path / "b.jsonl"])
