"""Stage two: fingerprints of selected fields, for exact duplicates.

The fingerprint of a record is the XXH3 128-bit hash of its selected fields in their order, each framed
so that no two different records share their bytes::

    kind (1 byte)                        MISSING or NULL: nothing follows
    kind (1 byte) length (8 bytes, little-endian) value

so null, missing and "" differ, ``1`` and ``"1"`` differ, and ("ab", "c") differs from ("a", "bc"). The
value of a whole number is its decimal digits, of a float its 8 bytes (IEEE 754, little-endian), of a
list or object its compact JSON, of a text its UTF-8 bytes as they stood in the source.

A record whose selected fields are all null, missing or empty says nothing: it is fingerprinted by its
payload digest where there is one, else it has no fingerprint and never falls in this stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.arrow import string_buffers
from dedup_pipeline.columns import compact_json, decoded, holds_bytes, json_texts, plain
from dedup_pipeline.compiled import Bytes, Int64, UInt64, kernel
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.hashing import xxh3_128
from dedup_pipeline.schema import SEEN, Kind

FINGERPRINT_SCHEME = "xxh3_128-framed/1"
"""Name of the framing above; it changes when any fingerprint does."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair: no character, and no UTF-8. Readers of JSON make it U+FFFD too."""
_OTHER = 7
"""Kind of a typed value that JSON has not (dates, decimals): its text in Arrow's rendering."""
_BINARY = 8
_PAYLOAD = 9
"""Kind of a payload digest that stands in for empty fields."""

_SPACE = r"[\s\x0b\x85\p{Z}]"
"""White space as Unicode has it (property White_Space)."""
_AGO = (
    rf"(?i)\b(?:(?:(?:about|over|almost){_SPACE}+)?"
    rf"(?:\d+(?:[.,]\d+)*{_SPACE}*|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|few|a{_SPACE}+few){_SPACE}+)"
    rf"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?|y|yrs?|years?){_SPACE}+ago"
    rf"|just{_SPACE}+now|(?:a{_SPACE}+)?moments?{_SPACE}+ago|yesterday)\b"
)
"""Relative times in English as pages print them; masked because they change with every visit."""


class Fingerprints(NamedTuple):
    """Fingerprints of some records.

    Attributes:
        hashes: uint64 of shape (n, 2), upper and lower half.
        present: bool of shape (n,), false where a record has none.
    """

    hashes: UInt64
    present: npt.NDArray[np.bool_]


class _Framed(NamedTuple):
    kinds: npt.NDArray[np.uint8]
    data: Bytes
    offsets: Int64


def normalise(texts: pa.Array, names: Iterable[str]) -> pa.Array:
    """Return texts with the named normalisations applied, in their fixed order.

    - ``nfc``: Unicode normalisation form C (UAX #15).
    - ``case``: lower case, character by character.
    - ``relative_time``: "3 minutes ago", "yesterday", "just now" become "[time]".
    - ``whitespace``: runs of Unicode white space become one space, none at the ends.

    Args:
        texts: Arrow strings (not their large or view forms); parts that are no UTF-8 become U+FFFD first.
        names: which to apply.
    """
    chosen = frozenset(names)
    if not chosen:
        return texts
    texts = repaired(texts)
    if "nfc" in chosen:
        texts = pc.utf8_normalize(texts, form="NFC")
    if "case" in chosen:
        texts = pc.utf8_lower(texts)
    if "relative_time" in chosen:
        texts = pc.replace_substring_regex(texts, pattern=_AGO, replacement="[time]")
    if "whitespace" in chosen:
        texts = pc.utf8_trim(pc.replace_substring_regex(texts, pattern=f"{_SPACE}+", replacement=" "), characters=" ")
    return texts


def repaired(texts: pa.Array) -> pa.Array:
    """Return the strings with every maximal invalid part replaced by U+FFFD; unchanged where all is valid."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(decoded(texts), type=texts.type)
    return texts


def fingerprints(
    columns: Sequence[pa.Array | None],
    rows: int,
    normalisers: Sequence[Sequence[str]] = (),
    payload_digests: pa.Array | None = None,
) -> Fingerprints:
    """Return the fingerprints of ``rows`` records.

    Args:
        columns: the selected fields, `SEEN` or typed; None for a field that the source lacks.
        rows: number of records.
        normalisers: for each field the names of its normalisations; empty for none at all.
        payload_digests: strings that stand in where all fields are empty.
    """
    framed = []
    empty = np.ones(rows, dtype=np.bool_)
    for index, column in enumerate(columns):
        names = normalisers[index] if normalisers else ()
        field = _frame_of(column, rows, names)
        empty &= (field.kinds <= Kind.NULL) | ((field.kinds == Kind.TEXT) & (np.diff(field.offsets) == 0))
        framed.append(field)
    hashes, present = _hash(framed, rows), ~empty
    if payload_digests is not None and empty.any():
        digests = _texts(payload_digests, np.full(rows, _PAYLOAD))
        instead = empty & (np.diff(digests.offsets) > 0)
        hashes[instead] = _hash([digests], rows)[instead]
        present |= instead
    return Fingerprints(hashes, present)


def record_fingerprint(record: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """Return the fingerprint of one record as 32 hex digits, or None where it has none.

    Args:
        record: values as JSON knows them (None, bool, int, float, str, list, dict).
        fields: the selected fields, in order.

    >>> record_fingerprint({"title": "A"}, ["title", "text"]) == record_fingerprint({"title": "A"}, ["title"])
    False
    >>> record_fingerprint({"title": ""}, ["title"]) is None
    True
    """
    if isinstance(fields, str):
        raise ConfigError(f"fields = {fields!r} is one text: give a list of field names")
    columns = [seen_array([record.get(name, _MISSING)]) for name in fields]
    hashes, present = fingerprints(columns, 1)
    return f"{int(hashes[0, 0]):016x}{int(hashes[0, 1]):016x}" if present[0] else None


_MISSING = object()


def seen_array(values: Iterable[Any]) -> pa.StructArray:
    """Return Python values as a `SEEN` array."""
    kinds, texts = [], []
    for value in values:
        kind, text = _seen(value)
        kinds.append(kind)
        texts.append(text)
    return pa.StructArray.from_arrays([pa.array(kinds, pa.uint8()), pa.array(texts, pa.string())], fields=list(SEEN))


def _seen(value: Any) -> tuple[int, str | None]:
    if value is _MISSING:
        return Kind.MISSING, None
    if value is None:
        return Kind.NULL, None
    if isinstance(value, bool):
        return Kind.BOOL, "true" if value else "false"
    if isinstance(value, int):
        return Kind.INT, str(value)
    if isinstance(value, float):
        return Kind.FLOAT, repr(value)
    if isinstance(value, str):
        return Kind.TEXT, _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    return Kind.JSON, _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", compact_json(value))


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _frame_of(column: pa.Array | None, rows: int, names: Sequence[str]) -> _Framed:
    """Return kinds and value bytes of one field."""
    if column is None:
        return _Framed(np.zeros(rows, np.uint8), np.zeros(0, np.uint8), np.zeros(rows + 1, np.int64))
    column = plain(column)
    if column.type == SEEN:
        kinds = np.asarray(column.field("kind"))
        texts = column.field("text")
        if names:
            texts = pc.if_else(pa.array(kinds == Kind.TEXT), normalise(texts, names), texts)
        if (kinds == Kind.FLOAT).any():
            return _with_floats(kinds, texts)
        return _texts(texts, kinds)
    return _typed_frame(column, names)


def _typed_frame(column: pa.Array, names: Sequence[str]) -> _Framed:
    kind, valid = column.type, _valid(column)
    if kind == pa.string():
        return _texts(normalise(column, names), np.where(valid, Kind.TEXT, Kind.NULL))
    if pa.types.is_boolean(kind):
        return _texts(column.cast(pa.string()), np.where(valid, Kind.BOOL, Kind.NULL))
    if pa.types.is_integer(kind):
        return _texts(column.cast(pa.string()), np.where(valid, Kind.INT, Kind.NULL))
    if pa.types.is_floating(kind):
        return _floats(column.cast(pa.float64()), valid)
    if holds_bytes(kind):
        return _texts(column, np.where(valid, _BINARY, Kind.NULL))
    if pa.types.is_nested(kind):
        return _texts(pa.array(json_texts(column), pa.string()), np.where(valid, Kind.JSON, Kind.NULL))
    return _texts(column.cast(pa.string()), np.where(valid, _OTHER, Kind.NULL))


def _texts(texts: pa.Array, kinds: npt.NDArray[Any]) -> _Framed:
    data, offsets = string_buffers(texts)
    return _Framed(kinds.astype(np.uint8), data, offsets)


def _floats(column: pa.Array, valid: npt.NDArray[np.bool_]) -> _Framed:
    values = np.where(valid, column.to_numpy(zero_copy_only=False), 0.0).astype("<f8")
    values[np.isnan(values)] = np.nan
    return _Framed(
        np.where(valid, Kind.FLOAT, Kind.NULL).astype(np.uint8),
        values.view(np.uint8),
        np.arange(len(values) + 1, dtype=np.int64) * 8,
    )


def _with_floats(kinds: npt.NDArray[np.uint8], texts: pa.Array) -> _Framed:
    """Return the frame of a column as seen with the floats among its values in their 8 bytes."""
    values = texts.cast(pa.large_binary()).to_pylist()
    for index in np.flatnonzero(kinds == Kind.FLOAT).tolist():
        values[index] = np.float64(float(values[index])).astype("<f8").tobytes()
    return _texts(pa.array(values, pa.large_binary()), kinds)


def _hash(fields: Sequence[_Framed], rows: int) -> UInt64:
    sizes = np.zeros(rows, dtype=np.int64)
    for field in fields:
        sizes += 1 + np.where(field.kinds > Kind.NULL, 8 + np.diff(field.offsets), 0)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    cursors = offsets[:-1].copy()
    for field in fields:
        _frame(field.kinds, field.data, field.offsets, cursors, out)
    hashes: UInt64 = xxh3_128(out, offsets)
    return hashes


@kernel
def _frame(kinds: Bytes, data: Bytes, offsets: Int64, cursors: Int64, out: Bytes) -> None:
    """Append one framed field to each record; ``cursors`` says where and is moved on."""
    for row in range(len(cursors)):
        at = cursors[row]
        out[at] = kinds[row]
        at += 1
        if kinds[row] > 1:
            start = offsets[row]
            size = offsets[row + 1] - start
            for byte in range(8):
                out[at + byte] = (size >> (8 * byte)) & 0xFF
            at += 8
            out[at : at + size] = data[start : start + size]
            at += size
        cursors[row] = at
