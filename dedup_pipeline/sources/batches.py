"""Rows gathered one by one into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dedup_pipeline.schema import ARCHIVE, SEEN, Bad, Batch, Kind
from dedup_pipeline.sources.options import ReadOptions

MAX_COLUMNS = 4096
"""Columns a source of an untyped format may have; a record that would add more cannot be used."""

_CELL = 6  # bytes of an absent value: a kind, an offset, a bit
_SEEN_FIELDS = [SEEN.field(0), SEEN.field(1)]

Value = tuple[int, bytes | None]
"""A kind and the bytes of its text."""


def text_array(lengths: Sequence[int], parts: Sequence[bytes], valid: np.ndarray | None) -> pa.Array:
    """A string array over the joined ``parts``, not checked to be UTF-8.

    Args:
        lengths: bytes of each of the n values.
        parts: the bytes of those values that have any, in order.
        valid: bool, length n: which values are not null; None for all.
    """
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.asarray(lengths, np.int64), out=offsets[1:])
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


class _Gathering:
    """What all batches have: positions, what was bad, what was skipped."""

    def __init__(self, source: str, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._consumed = 0
        self._clear()

    def _clear(self) -> None:
        self.positions: list[int] = []
        self.bad: list[Bad] = []
        self.skipped: Counter[str] = Counter()
        self.repaired = 0
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether the batch must be taken before more is added."""
        options = self._options
        return len(self.positions) + len(self.bad) >= options.batch_rows or self.size >= options.batch_bytes

    def __bool__(self) -> bool:
        return bool(self.positions or self.bad or self.skipped)

    def refuse(self, position: int, reason: str, detail: str) -> None:
        """Notes a record that cannot be used."""
        self.bad.append(Bad(position, reason, detail))
        self.size += 200

    def take(self, consumed: int) -> Batch:
        """The batch so far; the next one begins. ``consumed``: bytes of the file read up to now."""
        batch = Batch(
            source=self._source,
            positions=pa.array(self.positions, pa.int64()),
            rows=self._rows(),
            bad=tuple(self.bad),
            skipped=dict(sorted(self.skipped.items())),
            repaired=self.repaired,
            bytes_read=consumed - self._consumed,
        )
        self._consumed = consumed
        self._clear()
        return batch

    def _rows(self) -> pa.RecordBatch:
        raise NotImplementedError


class _Column:
    __slots__ = ("kinds", "lengths", "parts")

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.lengths: list[int] = []
        self.parts: list[bytes] = []

    def pad(self, rows: int) -> None:
        missing = rows - len(self.kinds)
        if missing:
            self.kinds.extend(bytes(missing))
            self.lengths.extend([0] * missing)

    def array(self) -> pa.Array:
        kinds = np.frombuffer(bytes(self.kinds), np.uint8)
        texts = text_array(self.lengths, self.parts, kinds > Kind.NULL)
        return pa.StructArray.from_arrays([pa.array(kinds), texts], fields=_SEEN_FIELDS)


class SeenRows(_Gathering):
    """Rows of an untyped format; the columns of a batch are those met in it, in order of appearance.

    Args:
        source: name of the source.
        columns: columns that every batch has, first and in this order (the header of a CSV).
    """

    def __init__(self, source: str, options: ReadOptions, columns: Sequence[str] = ()) -> None:
        self._fixed = list(columns)
        self._known = set(columns)
        super().__init__(source, options)

    def _clear(self) -> None:
        super()._clear()
        self._columns = {name: _Column() for name in self._fixed}

    def add(self, position: int, row: dict[str, Value]) -> bool:
        """Adds a row; False where it was noted as bad, for it would bring the source above `MAX_COLUMNS`."""
        if not row.keys() <= self._known:
            if len(self._known | row.keys()) > MAX_COLUMNS:
                self.refuse(position, "too_many_columns", f"the source would have more than {MAX_COLUMNS} columns")
                return False
            self._known.update(row)
        rows = len(self.positions)
        columns = self._columns
        for name, (kind, text) in row.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = _Column()
                self.size += _CELL * rows
            if len(column.kinds) != rows:
                column.pad(rows)
            column.kinds.append(kind)
            if text is None:
                column.lengths.append(0)
            else:
                column.lengths.append(len(text))
                column.parts.append(text)
                self.size += len(text)
        self.positions.append(position)
        self.size += _CELL * len(columns)
        return True

    def _rows(self) -> pa.RecordBatch:
        rows = len(self.positions)
        for column in self._columns.values():
            column.pad(rows)
        arrays = [column.array() for column in self._columns.values()]
        fields = [pa.field(name, SEEN, nullable=False) for name in self._columns]
        if not fields:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class ArchiveRows(_Gathering):
    """Rows with the columns of `dedup_pipeline.schema.ARCHIVE`."""

    def _clear(self) -> None:
        super()._clear()
        self._values: list[tuple[object, ...]] = []

    def add(self, position: int, row: tuple[object, ...], size: int) -> None:
        """Adds a row in the order of `ARCHIVE`; text as UTF-8 ``bytes`` or None; ``size`` is its bytes."""
        self.positions.append(position)
        self._values.append(row)
        self.size += size + 100

    def _rows(self) -> pa.RecordBatch:
        columns = list(zip(*self._values, strict=True)) if self._values else [()] * len(ARCHIVE)
        arrays = [
            _utf8_array(values) if field.type == pa.string() else pa.array(values, field.type)
            for field, values in zip(ARCHIVE, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ARCHIVE)


def _utf8_array(values: Sequence[object]) -> pa.Array:
    parts = [value for value in values if isinstance(value, bytes)]
    lengths = [len(value) if isinstance(value, bytes) else 0 for value in values]
    return text_array(lengths, parts, np.array([value is not None for value in values], bool))
