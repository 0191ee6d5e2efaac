"""The documents of a run as the local engine keeps them: one place per document in columns on disk."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.columns import ColumnTypes, conform
from dedup_pipeline.compiled import Float64, Int32, Int64, UInt64
from dedup_pipeline.documents import Described, Plan
from dedup_pipeline.records import repaired
from dedup_pipeline.schema import Batch
from dedup_pipeline.store.scratch import GrowingBatches, Scratch


@dataclass(frozen=True, slots=True)
class Gathered:
    """Every document read, in (source, position) order; a document's place is its number.

    Attributes:
        sources: names, in order; ``source`` holds indices into them.
        schema: the columns of the kept rows.
        read_of: documents of each source, as counted while they came.
        skipped: records that are no documents, by kind; and the same for each source.
        repaired: records whose text was no UTF-8.
        reasons, details: why a document is quarantined; null for the others.

    The other attributes are the columns of `documents.Described`, halves of keys apart.
    """

    sources: list[str]
    schema: pa.Schema
    read_of: list[int]
    skipped: Counter[str]
    skipped_of: list[Counter[str]]
    repaired: int
    source: Int32
    positions: Int64
    usable: npt.NDArray[np.bool_]
    ids: pa.Array
    urls: pa.Array
    canonical: pa.Array
    reasons: pa.Array
    details: pa.Array
    url_high: UInt64
    url_low: UInt64
    has_url: npt.NDArray[np.bool_]
    print_high: UInt64
    print_low: UInt64
    has_print: npt.NDArray[np.bool_]
    text_high: UInt64
    text_low: UInt64
    has_text: npt.NDArray[np.bool_]
    sizes: Int64
    hashes: UInt64
    bands: UInt64
    priority: Float64
    weights: Int64
    batches: GrowingBatches
    starts: list[int]
    broken_text: list[bool]

    def __len__(self) -> int:
        return len(self.positions)

    def forget_shingles(self) -> None:
        """Let go of the two columns that only the near stage reads, by far the largest beside the rows."""
        object.__setattr__(self, "hashes", self.hashes[:0].copy())
        object.__setattr__(self, "bands", self.bands[:0].copy())

    def rows(self, start: int, end: int, chosen: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Yield the chosen rows among the documents from ``start`` to ``end`` in the settled schema.

        Args:
            start: number of the first document.
            end: number after the last one.
            chosen: bool over all documents; only usable ones may be chosen.
        """
        index = bisect_right(self.starts, start) - 1
        while index < len(self.batches) and self.starts[index] < end:
            first, last = self.starts[index], self.starts[index + 1]
            inside = np.zeros(last - first, dtype=np.bool_)
            low, high = max(start, first), min(end, last)
            inside[low - first : high - first] = chosen[low:high]
            mask = inside[self.usable[first:last]]
            if mask.any():
                batch = self.batches[index]
                rows = conform(batch if mask.all() else batch.filter(pa.array(mask)), self.schema)
                yield _repaired_rows(rows) if self.broken_text[index] else rows
            index += 1


def _repaired_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [repaired(column) if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


class Gatherer:
    """Appends described batches, in (source, position) order."""

    _NUMBERS = (
        ("source", np.int32),
        ("positions", np.int64),
        ("usable", np.bool_),
        ("url_high", np.uint64),
        ("url_low", np.uint64),
        ("has_url", np.bool_),
        ("print_high", np.uint64),
        ("print_low", np.uint64),
        ("has_print", np.bool_),
        ("text_high", np.uint64),
        ("text_low", np.uint64),
        ("has_text", np.bool_),
        ("sizes", np.int64),
        ("hashes", np.uint64),
        ("weights", np.int64),
    )
    _STRINGS = ("ids", "urls", "canonical", "reasons", "details")

    def __init__(self, scratch: Scratch, plan: Plan, sources: list[str]) -> None:
        self._sources = sources
        self._plan = plan
        self._numbers = {name: scratch.column(name, dtype) for name, dtype in self._NUMBERS}
        self._strings = {name: scratch.strings(name) for name in self._STRINGS}
        self._bands = scratch.column("bands", np.uint64, max(1, plan.bands.bands if plan.near else 1))
        self._priority = scratch.column("priority", np.float64, max(1, 2 * len(plan.policy)))
        self._batches = scratch.batches("rows")
        self._starts = [0]
        self._broken: list[bool] = []
        self._types = ColumnTypes()
        self._skipped = [Counter[str]() for _ in sources]
        self._read = [0] * len(sources)
        self._repaired = 0
        self.documents = 0
        self.unusable = 0
        self.last_position = -1

    def append(self, source: int, batch: Batch, described: Described) -> None:
        """Append one batch of the source with this index."""
        count = len(described.positions)
        self._skipped[source].update(batch.skipped)
        self._repaired += batch.repaired
        if not count:
            return
        self._types.add(self._sources[source], described.rows)
        halves = {
            "url": described.url_keys,
            "print": described.fingerprints,
            "text": described.texts,
        }
        values: dict[str, npt.NDArray[Any]] = {
            "source": np.full(count, source, dtype=np.int32),
            "positions": described.positions,
            "usable": described.usable,
            "has_url": described.has_url,
            "has_print": described.has_fingerprint,
            "has_text": described.has_text,
            "sizes": described.sizes,
            "hashes": described.hashes,
            "weights": described.weights,
        }
        for name, pair in halves.items():
            values[f"{name}_high"], values[f"{name}_low"] = pair[:, 0], pair[:, 1]
        for name, column in values.items():
            self._numbers[name].append(column)
        mend = repaired if batch.repaired else _same
        for name, strings in (("ids", described.ids), ("urls", described.urls), ("canonical", described.canonical)):
            self._strings[name].append(mend(strings))
        self._append_reasons(described, count)
        if self._plan.near:
            self._bands.append(described.bands)
        if self._plan.policy:
            self._priority.append(described.priority)
        self._batches.append(described.rows)
        self._broken.append(bool(batch.repaired))
        self.documents += count
        self._read[source] += count
        self.unusable += len(described.bad)
        self._starts.append(self.documents)
        self.last_position = int(described.positions[-1])

    def _append_reasons(self, described: Described, count: int) -> None:
        for name, words in (
            ("reasons", [entry.reason for entry in described.bad]),
            ("details", [entry.detail for entry in described.bad]),
        ):
            if not words:
                self._strings[name].append(pa.nulls(count, pa.string()))
                continue
            indices = np.zeros(count, dtype=np.int64)
            indices[~described.usable] = np.arange(len(words))
            self._strings[name].append(pa.array(words).take(pa.array(indices, mask=described.usable)))

    def finish(self) -> Gathered:
        """Return everything appended, mapped.

        Raises:
            SchemaMismatch: a typed and an untyped source disagree on a column.
        """
        self._batches.finish()
        numbers = {name: column.finish() for name, column in self._numbers.items()}
        strings = {name: column.finish() for name, column in self._strings.items()}
        return Gathered(
            sources=self._sources,
            schema=self._types.settle(),
            read_of=self._read,
            skipped=sum(self._skipped, Counter()),
            skipped_of=self._skipped,
            repaired=self._repaired,
            bands=self._bands.finish().reshape(-1, self._plan.bands.bands),
            priority=self._priority.finish().reshape(-1, max(1, 2 * len(self._plan.policy))),
            batches=self._batches,
            starts=self._starts,
            broken_text=self._broken,
            **numbers,
            **strings,
        )


def _same(strings: pa.Array) -> pa.Array:
    return strings
