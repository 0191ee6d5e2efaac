"""Keep policies: which of several records comes first in priority.

A policy is a list of criteria in order of weight. Each gives a record two float64 keys that are compared
ascending; ties fall through to the next criterion and in the end to (source name, position), so the
order is total. A 64-bit whole number needs both keys: its float64, and what that rounding left over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.columns import decoded, holds_bytes, plain
from dedup_pipeline.compiled import Bool, Float64
from dedup_pipeline.errors import InputError
from dedup_pipeline.schema import SEEN, Kind

_LAST = np.inf
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_reading_order(policy: Sequence[str]) -> bool:
    """Return whether the policy is nothing but (source name, position)."""
    return not policy or policy[0] == "first"


def policy_columns(policy: Sequence[str]) -> list[str]:
    """Return the columns that a policy reads."""
    named = (entry.partition(":")[2] for entry in policy)
    return [name.partition("=")[0] for name in named if name]


def priority_keys(policy: Sequence[str], rows: pa.RecordBatch, text: str, source: str, positions: pa.Array) -> Float64:
    """Return the keys of a batch, float64 of shape (rows, 2 x criteria), to be compared ascending.

    ``first`` and ``last`` have no keys of their own: `order_clause` uses the record's number.

    Values are compared as text for ``prefer``, numbers as numbers. For ``newest`` and ``highest`` null, "" and
    NaN come last; a time without a zone is taken as UTC.

    Raises:
        InputError: ``newest`` or ``highest`` met what is no number, timestamp or ISO 8601 text, or ``prefer``
            a column of lists, objects or bytes.
    """
    keys = np.zeros((rows.num_rows, 2 * len(policy)), dtype=np.float64)
    for index, entry in enumerate(policy):
        name, _, argument = entry.partition(":")
        if name == "longest":
            keys[:, 2 * index] = -_lengths(_column(rows, text), rows.num_rows)
        elif name == "prefer":
            column, _, value = argument.partition("=")
            keys[:, 2 * index] = ~_equals(_column(rows, column), column, value, source, positions)
        elif name in ("newest", "highest"):
            keys[:, 2 * index : 2 * index + 2] = _descending(_column(rows, argument), argument, source, positions)
    return keys


def order_clause(policy: Sequence[str], number: str) -> str:
    """Return the SQL ORDER BY list of a policy over key columns k0, k1, ... and the record's ``number``."""
    terms: list[str] = []
    for index, entry in enumerate(policy):
        if entry in ("first", "last"):
            return ", ".join([*terms, number if entry == "first" else f"{number} DESC"])
        terms += [f"k{2 * index}", f"k{2 * index + 1}"]
    return ", ".join([*terms, number])


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return plain(rows.column(index)) if index >= 0 else None


def _as_text(column: pa.Array) -> pa.Array:
    return column.field("text") if column.type == SEEN else column.cast(pa.string())


def _lengths(column: pa.Array | None, rows: int) -> Float64:
    """Return the number of code points, 0 for null."""
    if column is None:
        return np.zeros(rows)
    # Arrow counts the bytes that start a character, so text that is no UTF-8 has a length too.
    return np.asarray(pc.utf8_length(_as_text(column)).fill_null(0), dtype=np.float64)


def _equals(column: pa.Array | None, name: str, value: str, source: str, positions: pa.Array) -> Bool:
    if column is None or not len(positions):
        return np.zeros(len(positions), dtype=np.bool_)
    if column.type != SEEN and (pa.types.is_nested(column.type) or holds_bytes(column.type)):
        raise InputError(
            f"{source}, record {positions[0]}: column {name!r} of keep.policy is {column.type}, which prefer cannot "
            "compare with a text. Choose another column."
        )
    equal: Bool = pc.equal(_as_text(column), value).fill_null(False).to_numpy(zero_copy_only=False)
    number = _parsed(value)
    if isinstance(number, int | float):
        # 1.0 is written "1" in one format and "1.0" in another.
        floating, values = _floats(column)
        equal = np.where(floating, values == number, equal)
    return equal


def _floats(column: pa.Array) -> tuple[Bool, Float64]:
    """Return which values are floats, and those values; NaN for the others."""
    if column.type != SEEN:
        if not pa.types.is_floating(column.type):
            return np.zeros(len(column), dtype=np.bool_), np.full(len(column), np.nan)
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.ones(len(column), dtype=np.bool_), values
    floating = np.asarray(column.field("kind")) == Kind.FLOAT
    values = np.full(len(column), np.nan)
    values[floating] = np.asarray(column.field("text").filter(pa.array(floating)).cast(pa.float64()))
    return floating, values


def _descending(column: pa.Array | None, name: str, source: str, positions: pa.Array) -> Float64:
    """Return two keys that sort the greatest value first and nulls last."""
    keys = np.full((len(positions), 2), _LAST)
    values = [None] * len(positions) if column is None else _python_values(column)
    for row, value in enumerate(values):
        if value is None:
            continue
        number = _number(value)
        if number is None:
            raise InputError(
                f"{source}, record {positions[row]}: column {name!r} of keep.policy holds {type(value).__name__} "
                "that is no number, timestamp or ISO 8601 text. Clean the column or choose another policy."
            )
        if number == number:  # noqa: PLR0124 - false for NaN, which comes last
            keys[row] = _two_keys(number)
    return keys


def _two_keys(number: int | float | Decimal) -> tuple[float, float]:
    """Return the float64 nearest to a number and what that rounding left over, both negated."""
    try:
        whole = float(number)
    except OverflowError:
        return (-np.inf if number > 0 else np.inf), 0.0
    if not math.isfinite(whole):
        return -whole, 0.0
    rest = number - type(number)(whole) if isinstance(number, int | Decimal) else 0.0
    return -whole, -float(rest)


def _python_values(column: pa.Array) -> list[Any]:
    if column.type == SEEN:
        kinds = column.field("kind").to_pylist()
        return [
            text == "true" if kind == Kind.BOOL else text or None
            for kind, text in zip(kinds, decoded(column.field("text")), strict=True)
        ]
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_duration(column.type):
        # Whole numbers in the column's own unit: Python's datetime has neither nanoseconds nor year 10000.
        return list(column.cast(pa.int32() if column.type == pa.date32() else pa.int64()).to_pylist())
    if pa.types.is_temporal(column.type):
        return list(column.cast(pa.string()).to_pylist())
    return list(column.to_pylist())


def _number(value: Any) -> int | float | Decimal | None:
    """Return a value as a number, times in microseconds since 1970 in UTC; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        return value
    parsed = _parsed(value.strip()) if isinstance(value, str) else None
    if isinstance(parsed, datetime):
        gap = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - _EPOCH
        return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
    return parsed


def _parsed(text: str) -> datetime | int | float | None:
    if "_" in text:  # Python's own way to write numbers, nobody else's
        return None
    for form in (int, float, datetime.fromisoformat):
        try:
            return form(text)
        except (ValueError, OverflowError):
            continue
    return None
