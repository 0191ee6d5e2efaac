"""One machine: threads for the kernels, DuckDB for the relational steps, scratch files for the columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa

from dedup_pipeline.compiled import Bool, Float64, Int64, UInt64
from dedup_pipeline.config import Config
from dedup_pipeline.documents import Plan
from dedup_pipeline.engines import arrays
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.reading import gather
from dedup_pipeline.engines.relational import Relations
from dedup_pipeline.engines.url_groups import UrlGroups
from dedup_pipeline.near.cluster import NEAR, Neighbours, Verdicts, count_degrees, decide, place_pairs, sort_rows
from dedup_pipeline.near.lsh import candidate_pairs, gather_keys, number_texts
from dedup_pipeline.near.verify import jaccard_of_pairs
from dedup_pipeline.progress import Progress
from dedup_pipeline.sources import Source
from dedup_pipeline.store.scratch import Scratch
from dedup_pipeline.urls.protocol import SeenReport

_PAIRS_AT_ONCE = 1 << 18
_BYTES_PER_SORTED_KEY = 48


@dataclass(frozen=True, slots=True)
class Priority:
    """The order in which records are taken.

    Attributes:
        numbers: int64 by rank, the document's number.
        ranks: int64 by number, the document's rank.
    """

    numbers: Int64
    ranks: Int64


@dataclass(frozen=True, slots=True)
class Groups:
    """For each rank the least rank with the same key, -1 where there is none.

    ``urls`` holds `SWALLOWED_URL` where a lossy filter calls a URL seen; ``seen`` is how the seen-set stands.
    """

    urls: Int64
    records: Int64
    texts: Int64
    seen: SeenReport


@dataclass(frozen=True, slots=True)
class Near:
    """Distinct texts and the verified pairs among them.

    Attributes:
        texts: int64 by rank, the number of the text, -1 without one.
        numbers: int64 by text, number of its first document in priority.
        neighbours: verified pairs.
        candidates: pairs compared.
        largest_bucket: most texts in one bucket.
    """

    texts: Int64
    numbers: Int64
    neighbours: Neighbours
    candidates: int
    largest_bucket: int


class LocalEngine:
    """Runs the steps of a run on this machine, within the memory limit."""

    def __init__(self, config: Config, plan: Plan, scratch: Scratch) -> None:
        self._config = config
        self._plan = plan
        self._scratch = scratch
        self._pool = ThreadPoolExecutor(config.threads, thread_name_prefix="dedup")
        self._relations = Relations(config.threads, config.memory_limit // 2, scratch.folder / "spill")

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._relations.close()

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads of this engine."""
        return self._pool

    def gather(self, sources: list[Source], progress: Progress) -> Gathered:
        """Read every source once; return its documents described."""
        return gather(sources, self._config, self._plan, self._scratch, self._pool, progress)

    def prioritise(self, documents: Gathered) -> Priority:
        """Return the priority order of the keep policy."""
        count = len(documents)
        numbers = self._scratch.array("numbers", np.int64, (count,))
        if not self._plan.policy:
            arrays.count_up(numbers)
            return Priority(numbers, numbers)
        self._relations.priority(documents.priority, self._plan.policy, numbers)
        ranks = self._scratch.array("ranks", np.int64, (count,))
        arrays.invert(numbers, ranks)
        return Priority(numbers, ranks)

    def group(self, documents: Gathered, priority: Priority, progress: Progress) -> Groups:
        """Return who shares a URL, a fingerprint, a text.

        Raises:
            ConfigError: a filter of URLs is full and may not grow.
        """
        config, scratch = self._config, self._scratch
        grouping = UrlGroups(documents, priority.numbers, priority.ranks, config.urls, config.memory_limit // 2)
        if grouping.kind != "exact":
            progress.say(f"Seen-set of URLs: {grouping.kind}, for {grouping.expected:,} documents with a URL.")
        urls = scratch.array("url_groups", np.int64, (len(documents),))
        seen = grouping.write(self._relations, scratch.folder / "repeated", urls)
        prints = self._first("record_groups", documents.print_high, documents.print_low, documents.has_print, priority)
        if config.urls.changed == "keep":
            # Then the stage's test is the same URL *and* the same content.
            urls = self._both("url_records", urls, prints)
        texts = prints
        if config.near.enabled and not self._plan.text_is_record:
            has_text = documents.sizes > 0
            texts = self._first("text_groups", documents.text_high, documents.text_low, has_text, priority)
        return Groups(urls, prints, texts, seen)

    def _first(self, name: str, high: UInt64, low: UInt64, present: Bool, priority: Priority) -> Int64:
        out = self._scratch.array(name, np.int64, (len(high),))
        self._relations.first_of_key(high, low, present, priority.ranks, out)
        return out

    def _both(self, name: str, first: Int64, second: Int64) -> Int64:
        """Return groups that share both keys; a missing second key counts as a key of its own."""
        present = first >= 0
        out = self._scratch.array(name, np.int64, (len(first),))
        ranks = self._scratch.array(f"{name}_ranks", np.int64, (len(first),))
        arrays.count_up(ranks)
        self._relations.first_of_key(first.view(np.uint64), second.view(np.uint64), present, ranks, out)
        return out

    def find_near(self, documents: Gathered, priority: Priority, groups: Groups, progress: Progress) -> Near:
        """Return the distinct texts and every pair of them that passes the near stage's test."""
        scratch = self._scratch
        texts = scratch.array("texts", np.int64, (len(documents),))
        numbers = scratch.array("text_numbers", np.int64, (len(documents),))
        if not self._config.near.enabled:
            texts[:] = -1
            return Near(texts, numbers[:0], _no_neighbours(), 0, 0)
        count = number_texts(groups.texts, priority.numbers, documents.sizes, texts, numbers)
        numbers = numbers[:count]
        keys = scratch.array("keys", np.uint64, (count, documents.bands.shape[1]))
        gather_keys(documents.bands, numbers, keys)
        sizes = scratch.array("text_sizes", np.int64, (count,))
        arrays.pick(documents.sizes, numbers, sizes)
        offsets = scratch.array("text_offsets", np.int64, (count,))
        begins = scratch.array("begins", np.int64, (len(documents),))
        arrays.starts_of(documents.sizes, begins)
        arrays.pick(begins, numbers, offsets)
        largest = np.zeros(1, dtype=np.int64)
        pairs, similarities, candidates = self._verified(keys, documents.hashes, offsets, sizes, largest, progress)
        del keys
        documents.forget_shingles()
        for name in ("hashes", "bands", "keys"):  # gigabytes, whose removal takes seconds once the disk works on them
            self._pool.submit(scratch.discard, name)
        return Near(texts, numbers, self._neighbours(pairs, similarities, count), candidates, int(largest[0]))

    def _verified(
        self, keys: UInt64, hashes: UInt64, offsets: Int64, sizes: Int64, largest: Int64, progress: Progress
    ) -> tuple[UInt64, Float64, int]:
        """Return the candidate pairs that pass, their similarities, and how many were compared."""
        threshold = self._config.near.threshold
        pairs_file = self._scratch.column("pairs", np.uint64)
        similarities_file = self._scratch.column("similarities", np.float64)
        compared = 0
        for pairs, similarities in self._compared(keys, hashes, offsets, sizes, largest):
            passed = similarities >= threshold
            pairs_file.append(pairs[passed])
            similarities_file.append(similarities[passed])
            compared += len(pairs)
            progress.advance(len(pairs))
        return pairs_file.finish(), similarities_file.finish(), compared

    def _compared(
        self, keys: UInt64, hashes: UInt64, offsets: Int64, sizes: Int64, largest: Int64
    ) -> Iterator[tuple[UInt64, Float64]]:
        threshold = self._config.near.threshold
        keys_at_once = max(1 << 16, self._config.memory_limit // 4 // _BYTES_PER_SORTED_KEY)
        waiting: deque[tuple[UInt64, Future[Float64]]] = deque()
        for pairs in candidate_pairs(keys, sizes, threshold, _PAIRS_AT_ONCE, keys_at_once, largest):
            pairs.sort()
            waiting.append((pairs, self._pool.submit(jaccard_of_pairs, pairs, hashes, offsets, sizes, threshold)))
            while len(waiting) > 2 * self._config.threads:
                done, similarities = waiting.popleft()
                yield done, similarities.result()
        while waiting:
            done, similarities = waiting.popleft()
            yield done, similarities.result()

    def _neighbours(self, pairs: UInt64, similarities: Float64, texts: int) -> Neighbours:
        scratch = self._scratch
        starts = scratch.array("starts", np.int64, (texts + 1,))
        count_degrees(pairs, starts)
        arrays.running_sum(starts)
        others = scratch.array("others", np.uint32, (2 * len(pairs),))
        values = scratch.array("other_similarities", np.float64, (2 * len(pairs),))
        cursors = scratch.array("cursors", np.int64, (texts + 1,))
        cursors[:] = starts
        place_pairs(pairs, similarities, cursors, others, values)
        sort_rows(starts, others, values)
        return Neighbours(starts, others, values)

    def decide(self, documents: Gathered, priority: Priority, groups: Groups, near: Near) -> Verdicts:
        """Return what becomes of each document, by rank, by the rule across all stages."""
        count, scratch = len(documents), self._scratch
        verdicts = Verdicts(
            scratch.array("fates", np.uint8, (count,)),
            scratch.array("keepers", np.int64, (count,), fill=-1),
            scratch.array("fate_similarities", np.float64, (count,), fill=np.nan),
        )
        arrays.set_aside(documents.usable, priority.numbers, groups.urls, verdicts.fates)
        records = groups.records
        if not self._config.records.enabled:
            records = scratch.array("no_records", np.int64, (count,), fill=-1)
        decide(
            groups.urls,
            records,
            near.texts,
            near.neighbours,
            (
                scratch.array("kept_of_url", np.int64, (count,), fill=-1),
                scratch.array("kept_of_record", np.int64, (count,), fill=-1),
                scratch.array("kept_of_text", np.int64, (len(near.numbers),), fill=-1),
            ),
            verdicts,
        )
        return verdicts

    def pairs(self, near: Near, priority: Priority, verdicts: Verdicts) -> Iterator[pa.RecordBatch]:
        """Yield every verified pair of documents once, as columns a, b (numbers) and similarity, in order.

        These are the pairs between the first documents of two texts, and each near-duplicate with its keeper.
        """
        scratch, found = self._scratch, len(near.neighbours.others) // 2
        total = found + arrays.count_fate(verdicts.fates, NEAR)
        left = scratch.array("pairs_left", np.int64, (total,))
        right = scratch.array("pairs_right", np.int64, (total,))
        values = scratch.array("pairs_similarity", np.float64, (total,))
        arrays.text_pairs(near.numbers, *near.neighbours, left[:found], right[:found], values[:found])
        arrays.keeper_pairs(*verdicts, priority.numbers, left[found:], right[found:], values[found:])
        yield from self._relations.distinct_pairs(left, right, values)


def _no_neighbours() -> Neighbours:
    return Neighbours(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float64))
