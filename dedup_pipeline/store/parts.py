"""Parquet parts whose borders depend on rows and bytes alone.

Whoever writes the same rows gets the same files, whatever the batches, threads or memory limit were:
row groups end after `GROUP_BYTES` of values or `GROUP_ROWS` rows, parts after `PART_BYTES` or
`PART_ROWS`, all counted by the values of the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_pipeline.compiled import Int64, kernel
from dedup_pipeline.store.scratch import writing

GROUP_BYTES = 16 << 20
GROUP_ROWS = 1 << 17
PART_BYTES = 64 << 20
PART_ROWS = 1 << 20


class Part(NamedTuple):
    """One file: its number and the row groups in it, each a range of documents."""

    number: int
    groups: list[tuple[int, int]]


class RowSource(Protocol):
    """Gives the rows of a range of documents, ready to be written."""

    def __call__(self, start: int, end: int, /) -> Iterable[pa.RecordBatch]:
        """Return the rows of the documents from ``start`` to ``end``."""


def plan_parts(weights: Int64, chosen: npt.NDArray[np.bool_]) -> list[Part]:
    """Return the parts in which the chosen documents are written.

    Args:
        weights: int64, bytes that each document counts for.
        chosen: bool, which documents are written.
    """
    borders = _borders(weights, chosen, GROUP_BYTES, GROUP_ROWS, PART_BYTES, PART_ROWS)
    parts: list[Part] = []
    for start, end, part in borders.tolist():
        if part == len(parts):
            parts.append(Part(part, []))
        parts[part].groups.append((start, end))
    return parts


@kernel
def _borders(
    weights: Int64, chosen: npt.NDArray[np.bool_], group_bytes: int, group_rows: int, part_bytes: int, part_rows: int
) -> Int64:
    """Return rows (start, end, part) of the row groups."""
    out = np.empty((16, 3), dtype=np.int64)
    count, part, start = 0, 0, 0
    in_group, rows, in_part, part_count = 0, 0, 0, 0
    for at in range(len(chosen)):
        if not chosen[at]:
            continue
        in_group += weights[at]
        rows += 1
        if in_group >= group_bytes or rows >= group_rows:
            if count == len(out):
                wider = np.empty((2 * count, 3), dtype=np.int64)
                wider[:count] = out
                out = wider
            out[count, 0], out[count, 1], out[count, 2] = start, at + 1, part
            count += 1
            start = at + 1
            in_part += in_group
            part_count += rows
            in_group, rows = 0, 0
            if in_part >= part_bytes or part_count >= part_rows:
                part += 1
                in_part, part_count = 0, 0
    if rows:
        if count == len(out):
            wider = np.empty((count + 1, 3), dtype=np.int64)
            wider[:count] = out
            out = wider
        out[count, 0], out[count, 1], out[count, 2] = start, len(chosen), part
        count += 1
    return out[:count]


def write_parts(
    folder: Path, schema: pa.Schema, parts: list[Part], rows: RowSource, compression: str, pool: Executor
) -> list[Future[None]]:
    """Begin to write the parts into ``folder``, as many at once as the pool has threads; at least one, empty, part."""
    planned = parts or [Part(0, [])]
    return [pool.submit(write_part, folder, schema, part, rows, compression) for part in planned]


def write_part(folder: Path, schema: pa.Schema, part: Part, rows: RowSource, compression: str) -> None:
    """Write one part.

    Raises:
        OutputError: the disk refused.
    """
    path = folder / f"part-{part.number:05d}.parquet"
    with writing(path), open(path, "xb") as file:
        with open_writer(file, schema, compression) as writer:
            for start, end in part.groups:
                table = pa.Table.from_batches(rows(start, end), schema).combine_chunks()
                writer.write_table(table, row_group_size=max(1, table.num_rows))
        file.flush()


def open_writer(file: object, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    """Return a Parquet writer with page checksums; long free text is not tried for a dictionary."""
    plain = {"text", "title", "id", "url", "canonical_url", "duplicate_of", "record_id", "payload_digest"}
    dictionary = [entry.name for entry in schema if entry.name not in plain and pa.types.is_string(entry.type)]
    return pq.ParquetWriter(
        file,
        schema,
        compression=compression,
        use_dictionary=dictionary or False,
        write_page_checksum=True,
        write_statistics=[entry.name for entry in schema if entry.name not in plain],
    )
