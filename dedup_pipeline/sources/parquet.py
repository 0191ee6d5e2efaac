"""Rows of Parquet files, with their own types.

Dictionary, view and large layouts of text and binary columns become the plain ones, run-end encoding
and extension types give way to what they stand for; other types stay. Page checksums are verified where
the file has them, and the sizes a footer may claim are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Bad, Batch
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.options import ReadOptions

_UNIT_BYTES = 8 << 20  # what is decoded at once: never depends on the options, so that a damaged page
_UNIT_ROWS = 16_384  # costs the same rows whatever the batches are
_FOOTER_STRING = 64 << 20
_FOOTER_ITEMS = 4_000_000


def read_parquet(source: Source, options: ReadOptions) -> Iterator[Batch]:
    """The rows of a file, a position per row; at least one batch, so that the columns are known.

    Raises:
        SourceBroken: ``truncated`` (no footer), ``checksum`` (of a page), ``corrupt``, ``duplicate_column`` or
            ``unreadable``.
    """
    try:
        file = pq.ParquetFile(
            source.path,
            page_checksum_verification=True,
            thrift_string_size_limit=_FOOTER_STRING,
            thrift_container_size_limit=_FOOTER_ITEMS,
            pre_buffer=False,
            buffer_size=1 << 20,
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError, UnicodeError) as error:
        raise _broken(source, 0, error) from error
    with file:
        yield from _batches(source, file, options)


def _batches(source: Source, file: pq.ParquetFile, options: ReadOptions) -> Iterator[Batch]:
    done = 0
    share = source.size / max(1, file.metadata.num_rows)
    try:
        schema = _plain_schema(file.schema_arrow)
        if len(set(schema.names)) != len(schema.names):
            raise SourceBroken(source.name, 0, "duplicate_column", "two columns have one name")
        for group in range(file.num_row_groups):
            for unit in file.iter_batches(batch_size=_unit_rows(file, group), row_groups=[group]):
                rows = _plain(unit, schema)
                for piece, bad, keep, repaired in _pieces(rows, done, options):
                    positions = pa.array(keep, pa.int64())
                    size = int(share * (len(keep) + len(bad)))
                    yield Batch(source.name, positions, piece, bad, {}, repaired, size)
                done += rows.num_rows
        if done != file.metadata.num_rows:
            raise SourceBroken(
                source.name, done, "corrupt", f"{done} rows where the footer says {file.metadata.num_rows}"
            )
        if not done:
            yield Batch(source.name, pa.array([], pa.int64()), _none(schema))
    except (pa.ArrowException, OSError, ValueError, MemoryError, UnicodeError) as error:
        raise _broken(source, done, error) from error


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _unit_rows(file: pq.ParquetFile, group: int) -> int:
    metadata = file.metadata.row_group(group)
    each = max(1, metadata.total_byte_size // max(1, metadata.num_rows))
    return int(min(_UNIT_ROWS, max(1, _UNIT_BYTES // each)))


def _broken(source: Source, position: int, error: BaseException) -> SourceBroken:
    words = " ".join(str(error).split())[:300]
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, pa.ArrowException):
        return SourceBroken(source.name, position, "unreadable", f"cannot be read: {error.strerror}")
    lower = words.lower()
    if "crc checksum" in lower:
        reason = "checksum"
    elif "magic bytes not found" in lower or "smaller than the minimum file footer" in lower or "file size is" in lower:
        reason = "truncated"
    else:
        reason = "corrupt"
    return SourceBroken(source.name, position, reason, words)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain_type(field.type), field.nullable) for field in schema])


def _plain(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for column, field in zip(rows.columns, schema, strict=True):
        array = column.storage if isinstance(column, pa.ExtensionArray) else column
        if pa.types.is_dictionary(array.type):
            array.validate(full=True)  # an index out of range would read elsewhere
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array.validate(full=True)
            array = pc.run_end_decode(array)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pieces(
    rows: pa.RecordBatch, first: int, options: ReadOptions
) -> Iterator[tuple[pa.RecordBatch, tuple[Bad, ...], np.ndarray, int]]:
    """``rows`` in slices within the options: rows to use, bad ones, positions used, rows repaired."""
    sizes = _row_sizes(rows)
    start = 0
    while start < rows.num_rows:
        ends = np.cumsum(sizes[start : start + options.batch_rows])
        count = max(1, int(np.searchsorted(ends, options.batch_bytes, side="right")))
        piece = rows.slice(start, min(count, len(ends)))
        positions = np.arange(first + start, first + start + piece.num_rows, dtype=np.int64)
        large = sizes[start : start + piece.num_rows] > options.record_bytes
        bad: tuple[Bad, ...] = ()
        if large.any():
            bad = tuple(
                Bad(int(p), "too_large", f"a row of more than {options.record_bytes} bytes") for p in positions[large]
            )
            piece = piece.filter(pa.array(~large))
        yield piece, bad, positions[~large], _not_utf8(piece)
        start += len(large)


def _row_sizes(rows: pa.RecordBatch) -> np.ndarray:
    """int64 bytes of each row, nested columns taken at their average."""
    sizes = np.zeros(rows.num_rows, np.int64)
    for array in rows.columns:
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            sizes += pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        elif rows.num_rows:
            sizes += array.nbytes // rows.num_rows
    return sizes


def _not_utf8(rows: pa.RecordBatch) -> int:
    """Rows with a text that is no UTF-8 (it stays as it is)."""
    marks = np.zeros(rows.num_rows, bool)
    for array in rows.columns:
        if pa.types.is_string(array.type):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                marks |= np.array([not _is_utf8(value) for value in array.cast(pa.binary()).to_pylist()], bool)
    return int(marks.sum())


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
