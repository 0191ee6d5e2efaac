"""Who shares a URL: by exact keys, by exact keys behind a filter, or by a filter alone.

- **exact**: every key is grouped in DuckDB, which spills under the memory limit.
- **confirmed**: a Bloom filter goes through all keys first, and only keys that it calls seen are grouped. The
  answer is the same, with the memory of the filter.
- **bloom**: the filter's word is taken. It is fed in priority order, and what it calls seen goes, naming
  nobody. What is new among that is lost; the manifest says how much to expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dedup_pipeline.compiled import Bool, Int64, UInt64
from dedup_pipeline.config import UrlsConfig
from dedup_pipeline.engines import arrays
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.relational import Relations
from dedup_pipeline.errors import ConfigError, FilterFull
from dedup_pipeline.near.cluster import SWALLOWED_URL
from dedup_pipeline.store.key_runs import SortedRuns
from dedup_pipeline.urls.bloom import BloomFilter, ScalableBloomFilter
from dedup_pipeline.urls.protocol import SeenReport
from dedup_pipeline.urls.seen import ExactSet, choose_seen

_ROWS_AT_ONCE = 1 << 16
_FRONT_RATE = 1e-3
"""Share of the new keys that `confirmed` groups for nothing, for 16 bits of filter a key."""


class UrlGroups:
    """The keys of all documents, in priority order.

    Args:
        documents: as read.
        numbers: int64 by rank, the document's number.
        ranks: int64 by number, the document's rank.
        urls: the settings of the stage.
        memory: bytes that keys may take.
    """

    def __init__(self, documents: Gathered, numbers: Int64, ranks: Int64, urls: UrlsConfig, memory: int) -> None:
        self._documents = documents
        self._numbers = numbers
        self._ranks = ranks
        self._urls = urls
        self._memory = memory
        self.expected = arrays.count_true(documents.has_url)

    @property
    def kind(self) -> str:
        """``exact``, ``confirmed`` or ``bloom``; "auto" is exact while the keys fit into the memory."""
        return choose_seen(self.expected, self._memory) if self._urls.seen == "auto" else self._urls.seen

    def write(self, relations: Relations, folder: Path, out: Int64) -> SeenReport:
        """Write for each rank the least rank with the same URL, -1 without a URL; return how the seen-set stands.

        With ``bloom`` it is the rank itself, or `SWALLOWED_URL` where the filter calls the URL seen.

        Args:
            relations: groups keys.
            folder: where keys that do not fit into memory go.
            out: int64 by rank, written.

        Raises:
            ConfigError: the filter is full and may not grow.
        """
        if self.kind == "bloom":
            return self._write_by_filter(out)
        report = SeenReport("exact", None, 0, None, 0.0, 0.0, 0.0, 0)
        present = self._documents.has_url
        if self.kind == "confirmed":
            present, report = self._perhaps_repeated(folder)
        relations.first_of_key(self._documents.url_high, self._documents.url_low, present, self._ranks, out)
        return replace(report, inserted=arrays.stand_alone(self._documents.has_url, self._numbers, out))

    def _keys(self) -> Iterator[tuple[int, Bool, UInt64]]:
        """Yield, in priority order, a first rank, which of the ranks from there on have a URL, and those keys."""
        documents = self._documents
        for start in range(0, len(documents), _ROWS_AT_ONCE):
            numbers = self._numbers[start : start + _ROWS_AT_ONCE]
            wanted = documents.has_url[numbers]
            numbers = numbers[wanted]
            yield start, wanted, np.stack([documents.url_high[numbers], documents.url_low[numbers]], axis=1)

    def _perhaps_repeated(self, folder: Path) -> tuple[Bool, SeenReport]:
        """Return, by number, whose key stands there twice or was called seen by mistake; and how the filter stands."""
        front = ScalableBloomFilter(max(1, self.expected), _FRONT_RATE)
        again = ExactSet(memory_limit=self._memory, runs=SortedRuns(folder))
        for _, _, keys in self._keys():
            again.add(keys[~front.add(keys)])
        report = replace(front.describe(), kind="confirmed", error_rate=0.0, final_error_rate=0.0, expected_lost=0.0)
        del front
        present = np.zeros(len(self._documents), dtype=np.bool_)
        for start, wanted, keys in self._keys():
            present[self._numbers[start : start + len(wanted)][wanted]] = again.contains(keys)
        return present, report

    def _write_by_filter(self, out: Int64) -> SeenReport:
        capacity = max(1, self.expected) if self._urls.capacity == "auto" else int(self._urls.capacity)
        kind = BloomFilter if self._urls.full == "stop" else ScalableBloomFilter
        seen = kind(capacity, self._urls.error_rate)
        for start, wanted, keys in self._keys():
            try:
                new = seen.add(keys)
            except FilterFull:
                raise ConfigError(
                    f"urls.capacity = {capacity:,} URLs are in the filter and more come ({self.expected:,} documents "
                    'have a URL). Raise urls.capacity, leave it at "auto", or set urls.full = "grow".'
                ) from None
            groups = np.full(len(wanted), -1, dtype=np.int64)
            groups[wanted] = np.where(new, start + np.flatnonzero(wanted), SWALLOWED_URL)
            out[start : start + len(wanted)] = groups
        return replace(seen.describe(), kind="bloom")
