"""Keep policies: which of several records comes first in priority.

A policy is a list of criteria in order of weight. Each gives a record two float64 keys that are compared
ascending; ties fall through to the next criterion and in the end to (source name, position), so the
order is total. A 64-bit whole number needs both keys: its float64, and what that rounding left over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.compiled import Float64
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

    Raises:
        InputError: ``newest`` or ``highest`` met what is no number, timestamp or ISO 8601 text.
    """
    keys = np.zeros((rows.num_rows, 2 * len(policy)), dtype=np.float64)
    for index, entry in enumerate(policy):
        name, _, argument = entry.partition(":")
        if name == "longest":
            keys[:, 2 * index] = -_lengths(_column(rows, text), rows.num_rows)
        elif name == "prefer":
            column, _, value = argument.partition("=")
            keys[:, 2 * index] = ~_equals(_column(rows, column), value, rows.num_rows)
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
    return rows.column(index) if index >= 0 else None


def _as_text(column: pa.Array) -> pa.Array:
    return column.field("text") if column.type == SEEN else column.cast(pa.string())


def _lengths(column: pa.Array | None, rows: int) -> Float64:
    """Return the number of code points, 0 for null."""
    if column is None:
        return np.zeros(rows)
    # Counted over bytes that start a character, so that text that is no UTF-8 has a length too.
    lengths = pc.binary_length(_as_text(column)).fill_null(0)
    with suppress(pa.ArrowInvalid):
        lengths = pc.utf8_length(_as_text(column)).fill_null(0)
    return np.asarray(lengths, dtype=np.float64)


def _equals(column: pa.Array | None, value: str, rows: int) -> Any:
    if column is None:
        return np.zeros(rows, dtype=np.bool_)
    return pc.equal(_as_text(column), value).fill_null(False).to_numpy(zero_copy_only=False)


def _descending(column: pa.Array | None, name: str, source: str, positions: pa.Array) -> Float64:
    """Return two keys that sort the greatest value first and nulls last."""
    keys = np.zeros((len(positions), 2), dtype=np.float64)
    keys[:, 0] = _LAST
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
        if isinstance(number, float) and math.isnan(number):
            continue
        whole = float(number)
        keys[row] = -whole, -float(number - int(whole)) if isinstance(number, int) else 0.0
    return keys


def _python_values(column: pa.Array) -> list[Any]:
    if column.type != SEEN:
        return list(column.to_pylist())
    values = []
    kinds = column.field("kind").to_pylist()
    for kind, text in zip(kinds, column.field("text").to_pylist(), strict=True):
        values.append(int(text) if kind == Kind.INT else float(text) if kind == Kind.FLOAT else text or None)
    return values


def _number(value: Any) -> int | float | None:
    """Return a value as a number, times in microseconds since 1970 in UTC; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, str):
        value = _parsed(value.strip())
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        gap = aware - _EPOCH
        return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
    return value if isinstance(value, int | float) else None


def _parsed(text: str) -> datetime | int | float | None:
    for form in (int, float, datetime.fromisoformat):
        try:
            return form(text)
        except (ValueError, OverflowError):
            continue
    return None
