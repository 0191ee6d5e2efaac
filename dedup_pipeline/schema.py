"""Every table and batch that crosses a border between stages, in the order of the run.

1. `Batch`: what a source hands on.
2. `SEEN`: a value of an untyped format (JSON, CSV) as it was seen, before the column has a type.
3. `LEDGER`, `PAIRS`, `QUARANTINE`: what a run writes beside the kept rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa


class Kind(IntEnum):
    """What a value of an untyped format was. Stable: the numbers take part in fingerprints."""

    MISSING = 0
    NULL = 1
    BOOL = 2
    INT = 3
    FLOAT = 4
    TEXT = 5
    JSON = 6


SEEN = pa.struct([pa.field("kind", pa.uint8(), nullable=False), pa.field("text", pa.string())])
"""A value as seen: its `Kind` and its text.

``text`` is null for MISSING and NULL; ``true``/``false``; the decimal digits of an integer; Python's
``repr`` of a float; the string itself (its own bytes, even where they are no UTF-8); for lists and
objects compact JSON (no spaces, keys in their order, non-ASCII unescaped).
"""


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be used.

    Attributes:
        position: its position in the source.
        reason: short stable word (``truncated``, ``not_json``, ``too_large``, ...).
        detail: one sentence for a person; never document text.
    """

    position: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of documents of one source.

    Attributes:
        source: name of the source.
        positions: int64, strictly increasing, also from batch to batch; one per row.
        rows: the source's own columns, typed (Parquet, archives) or `SEEN` (JSON, CSV).
        bad: records that cannot be used; their positions occur in no ``positions``.
        skipped: how many records that are no documents were passed over, by kind.
        repaired: records in which a reader met text that is no UTF-8: a lone surrogate, which became
            U+FFFD, or raw bytes, which a feed keeps as they are and an archive replaces by U+FFFD.
        bytes_read: bytes of the file consumed since the batch before (for progress only).
    """

    source: str
    positions: pa.Array
    rows: pa.RecordBatch
    bad: tuple[Bad, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    repaired: int = 0
    bytes_read: int = 0


ARCHIVE = pa.schema(
    [
        ("url", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("date", pa.timestamp("us", tz="UTC")),
        ("status", pa.int32()),
        ("content_type", pa.string()),
        ("charset", pa.string()),
        ("record_id", pa.string()),
        ("payload_digest", pa.string()),
        ("offset", pa.int64()),
    ]
)
"""The columns that archives (WARC, WET, ARC) give."""

LEDGER = pa.schema(
    [
        ("source", pa.string()),
        ("position", pa.int64()),
        ("id", pa.string()),
        ("url", pa.string()),
        ("canonical_url", pa.string()),
        ("status", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("duplicate_of", pa.string()),
        ("duplicate_of_run", pa.string()),
        ("duplicate_of_source", pa.string()),
        ("duplicate_of_position", pa.int64()),
        ("similarity", pa.float64()),
        ("same_content", pa.bool_()),
        ("cluster_size", pa.int64()),
    ]
)
"""One row per document read, in (source, position) order."""

PAIRS = pa.schema(
    [
        ("run_a", pa.string()),
        ("source_a", pa.string()),
        ("position_a", pa.int64()),
        ("id_a", pa.string()),
        ("run_b", pa.string()),
        ("source_b", pa.string()),
        ("position_b", pa.int64()),
        ("id_b", pa.string()),
        ("similarity", pa.float64()),
    ]
)
"""Verified near-duplicate pairs; side a stands before side b in (source, position) order."""

QUARANTINE = pa.schema(
    [
        ("source", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)
"""One row per document that could not be used."""
