"""One type for each column of all inputs together.

Typed sources (Parquet, archives) must agree. Columns of untyped sources (JSON, CSV) get a type from
every value seen in the whole input: whole numbers, numbers, true and false, and lists of one of these
or of texts keep their type; whatever is mixed or in doubt becomes text, so "007" stays "007".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.errors import SchemaMismatch
from dedup_pipeline.schema import SEEN, Kind

_EXACT_IN_FLOAT = 1 << 53
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 63) - 1
_LISTS = (pa.types.is_list, pa.types.is_large_list)
_LIST_TYPES: dict[frozenset[type], pa.DataType] = {
    frozenset([str]): pa.string(),
    frozenset([bool]): pa.bool_(),
    frozenset([int]): pa.int64(),
    frozenset([float]): pa.float64(),
    frozenset([int, float]): pa.float64(),
}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without its encoding: ``string``, ``binary`` and ``list`` for their large and view
    forms, the values' type for a dictionary, the storage of an extension type; others unchanged.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if any(holds(kind) for holds in _LISTS):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def holds_bytes(kind: pa.DataType) -> bool:
    """Return whether a plain type holds raw bytes, which are no text."""
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def plain(column: pa.Array) -> pa.Array:
    """Return a typed column in its `plain_type`, without a copy where it has it already; `SEEN` unchanged."""
    kind = plain_type(column.type)
    if column.type == kind:
        return column
    if isinstance(column, pa.ExtensionArray):
        return plain(column.storage)
    if isinstance(column, pa.DictionaryArray):
        return plain(column.dictionary_decode())
    return column.cast(kind)


def plain_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with every column `plain`."""
    columns = [plain(column) for column in rows.columns]
    names = rows.schema.names
    return pa.RecordBatch.from_arrays(columns, names=names) if names else rows


def json_texts(column: pa.Array) -> list[str | None]:
    """Return nested values as compact JSON; what JSON has not (dates, decimals) as text in Arrow's rendering."""
    values = column.cast(_json_type(column.type)).to_pylist()
    return [None if value is None else compact_json(value) for value in values]


def compact_json(value: Any) -> str:
    """Return a value as compact JSON: no spaces, keys in their order, non-ASCII unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def decoded(texts: pa.Array) -> list[str | None]:
    """Return strings as Python's, every maximal part that is no UTF-8 as U+FFFD."""
    raw = texts.cast(pa.large_binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in raw]


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Return a nested type with text in place of what JSON has not, so that no Python type is met."""
    if any(holds(kind) for holds in (*_LISTS, pa.types.is_fixed_size_list)):
        return pa.list_(_json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(entry.name, _json_type(entry.type)) for entry in kind])
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return pa.string()
    return kind


@dataclass(slots=True)
class _Seen:
    """What was seen of one untyped column."""

    kinds: set[int] = field(default_factory=set)
    whole_fits: bool = True
    whole_exact: bool = True
    elements: set[type] = field(default_factory=set)
    lists_only: bool = True
    elements_exact: bool = True

    def add(self, column: pa.StructArray) -> None:
        kinds = np.asarray(column.field("kind"))
        found = set(np.flatnonzero(np.bincount(kinds, minlength=8)).tolist())
        self.kinds |= found
        if Kind.INT in found and self.whole_fits:
            self._add_whole(column.field("text").filter(pa.array(kinds == Kind.INT)))
        if Kind.JSON in found and self.lists_only:
            self._add_lists(column.field("text").filter(pa.array(kinds == Kind.JSON)))

    def _add_whole(self, texts: pa.Array) -> None:
        try:
            limits = pc.min_max(texts.cast(pa.int64()))
            low, high = limits["min"].as_py(), limits["max"].as_py()
        except pa.ArrowInvalid:
            self.whole_fits = self.whole_exact = False
            return
        self.whole_exact &= low >= -_EXACT_IN_FLOAT and high <= _EXACT_IN_FLOAT

    def _add_lists(self, texts: pa.Array) -> None:
        for text in decoded(texts):
            value = json.loads(text or "null")
            if not isinstance(value, list):
                self.lists_only = False
                return
            for element in value:
                if element is not None:
                    self.elements.add(type(element))
                if type(element) is int:
                    self.elements_exact &= abs(element) <= _EXACT_IN_FLOAT
                    self.lists_only &= _LEAST_INT <= element <= _MOST_INT

    def settle(self) -> pa.DataType:
        kinds = self.kinds - {Kind.MISSING, Kind.NULL}
        if kinds == {Kind.BOOL}:
            return pa.bool_()
        if kinds == {Kind.INT} and self.whole_fits:
            return pa.int64()
        if kinds == {Kind.FLOAT} or (kinds == {Kind.INT, Kind.FLOAT} and self.whole_exact):
            return pa.float64()
        if kinds == {Kind.JSON} and self.lists_only:
            element = _LIST_TYPES.get(frozenset(self.elements)) if self.elements else pa.string()
            if element is not None and (element != pa.float64() or self.elements_exact):
                return pa.list_(element)
        return pa.string()


class ColumnTypes:
    """Collects the columns of all sources, then says the one type of each.

    Columns stand in the order in which they first appear. Feed batches in (source, position) order.
    """

    def __init__(self) -> None:
        self._order: list[str] = []
        self._typed: dict[str, tuple[pa.DataType, str]] = {}
        self._untyped: dict[str, tuple[_Seen, str]] = {}

    def add(self, source: str, rows: pa.RecordBatch) -> None:
        """Take note of one batch.

        Raises:
            SchemaMismatch: two typed sources disagree.
        """
        for entry, column in zip(rows.schema, rows.columns, strict=True):
            if entry.name not in self._typed and entry.name not in self._untyped:
                self._order.append(entry.name)
            if entry.type == SEEN:
                self._untyped.setdefault(entry.name, (_Seen(), source))[0].add(column)
                continue
            kind = plain_type(entry.type)
            known, first = self._typed.setdefault(entry.name, (kind, source))
            if known != kind:
                raise _mismatch(entry.name, first, known, source, kind)

    def settle(self) -> pa.Schema:
        """Return the schema of the kept rows.

        Raises:
            SchemaMismatch: a typed and an untyped source disagree.
        """
        entries = []
        for name in self._order:
            kind = self._typed[name][0] if name in self._typed else None
            if name in self._untyped:
                seen, source = self._untyped[name]
                settled = seen.settle()
                empty = not seen.kinds - {Kind.MISSING, Kind.NULL}
                if kind is not None and kind != settled and not empty:
                    raise _mismatch(name, self._typed[name][1], kind, source, settled)
                kind = kind or settled
            entries.append(pa.field(name, kind))
        return pa.schema(entries)


def _mismatch(name: str, first: str, one: pa.DataType, second: str, other: pa.DataType) -> SchemaMismatch:
    return SchemaMismatch(
        f"column {name!r} is {one} in {first} but {other} in {second}. Give it one type in all inputs, "
        "rename it in one of them, or run them apart."
    )


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with exactly the columns and types of ``schema``; what they lack is null."""
    columns = []
    for entry in schema:
        index = rows.schema.get_field_index(entry.name)
        if index < 0:
            columns.append(pa.nulls(rows.num_rows, entry.type))
            continue
        column = rows.column(index)
        columns.append(typed(column, entry.type) if column.type == SEEN else plain(column))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def typed(column: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """Return values as seen in the settled type of their column; missing and null are both null."""
    texts = column.field("text")
    if kind == pa.string():
        return texts
    if pa.types.is_list(kind):
        return pa.array([None if text is None else _as_list(text, kind) for text in decoded(texts)], kind)
    return texts.cast(kind)


def _as_list(text: str, kind: pa.ListType) -> list[Any]:
    value: list[Any] = json.loads(text)
    if kind.value_type == pa.float64():
        return [None if element is None else float(element) for element in value]
    return value
