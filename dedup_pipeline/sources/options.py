"""How sources are read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader may take and how much of it at once.

    Attributes:
        format: ``auto`` (recognised by content), or one of ``jsonl``, ``json``, ``csv``, ``parquet``,
            ``warc``, ``arc`` to read every source as that.
        status: HTTP statuses whose responses are documents.
        record_bytes: a line, row, payload or extracted text above this many bytes is too large.
        decompression_ratio: bytes out per byte in of a compressed file, beyond its first 16 MiB, above
            which the file is refused.
        batch_rows: rows of a batch at most.
        batch_bytes: bytes of the rows of a batch after which it is closed.
        extractors: number of processes that extract text from archives.
    """

    format: str = "auto"
    status: tuple[int, ...] = (200,)
    record_bytes: int = 64_000_000
    decompression_ratio: int = 2000
    batch_rows: int = 10_000
    batch_bytes: int = 16 << 20
    extractors: int = 1
