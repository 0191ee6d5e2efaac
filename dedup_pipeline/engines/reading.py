"""The first pass of the local engine: read every source once, describe its batches on all threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

import pyarrow as pa

from dedup_pipeline.config import Config
from dedup_pipeline.documents import Described, Plan, describe, ready
from dedup_pipeline.engines.gathered import Gathered, Gatherer
from dedup_pipeline.errors import SourceBroken, TooManyBadRecords
from dedup_pipeline.progress import Progress
from dedup_pipeline.schema import Bad, Batch
from dedup_pipeline.sources import Extraction, ReadOptions, Source, read_source
from dedup_pipeline.store.scratch import Scratch

_BAD_ALWAYS_ALLOWED = 10
_PATIENCE = 2.0
"""Seconds before a first batch that is still being described calls for a word."""
_LEAST_BATCH, _MOST_BATCH = 2 << 20, 8 << 20


def batch_bytes(memory_limit: int, threads: int) -> int:
    """Return the bytes of rows in a batch: a batch in work takes about ten times as much."""
    return max(_LEAST_BATCH, min(_MOST_BATCH, memory_limit // (40 * (threads + 2))))


def read_options(config: Config) -> ReadOptions:
    """Return how the sources are read."""
    return ReadOptions(
        format=config.input.format,
        status=config.input.status,
        record_bytes=config.limits.record_bytes,
        decompression_ratio=config.limits.decompression_ratio,
        batch_rows=config.input.batch_rows,
        batch_bytes=batch_bytes(config.memory_limit, config.threads),
        extractors=config.threads,
    )


def gather(
    sources: list[Source], config: Config, plan: Plan, scratch: Scratch, pool: Executor, progress: Progress
) -> Gathered:
    """Return every document of the sources, described.

    Raises:
        SourceBroken: a source cannot be read to its end, or lacks a configured column, and
            ``safety.broken_sources`` is ``stop``.
        TooManyBadRecords: more records are unusable than ``safety.max_bad_fraction`` allows.
    """
    gatherer = Gatherer(scratch, plan, [source.name for source in sources])
    waiting: deque[tuple[int, Batch, Future[Described]]] = deque()
    options = read_options(config)
    in_flight = min(16 << 20, config.memory_limit // 32)
    with Extraction(options.extractors, in_flight_bytes=in_flight) as extraction:
        for index, source in enumerate(sources):
            for batch in _whole(source, options, extraction, plan, config.safety.broken_sources == "stop"):
                waiting.append((index, batch, pool.submit(describe, batch, plan)))
                progress.advance(batch.bytes_read)
                while len(waiting) > config.threads:
                    _append(gatherer, progress, *waiting.popleft())
    while waiting:
        _append(gatherer, progress, *waiting.popleft())
    _check_bad(gatherer, config)
    return gatherer.finish()


def _append(gatherer: Gatherer, progress: Progress, index: int, batch: Batch, described: Future[Described]) -> None:
    try:
        done = described.result(timeout=None if ready() else _PATIENCE)
    except TimeoutError:
        if not ready():
            progress.say("Compiling the kernels for this machine; it takes about half a minute, once.")
        done = described.result()
    gatherer.append(index, batch, done)


def _whole(source: Source, options: ReadOptions, extraction: Extraction, plan: Plan, stop: bool) -> Iterator[Batch]:
    """Yield the batches of a source; where it breaks off, raise or end with one unusable document."""
    lacking = set(plan.required)
    names: dict[str, None] = {}
    after = 0
    rows = 0
    try:
        for batch in read_source(source, options, extraction):
            lacking.difference_update(batch.rows.schema.names)
            names |= dict.fromkeys(batch.rows.schema.names)
            rows += batch.rows.num_rows
            if len(batch.positions):
                after = batch.positions[-1].as_py() + 1
            if batch.bad:
                after = max(after, batch.bad[-1].position + 1)
            yield batch
        if lacking and rows:
            detail = f"the configured column {', '.join(sorted(lacking))} stands in no record"
            remedy = (
                f"The columns there are {', '.join(list(names)[:50]) or 'none'}: mend [input], [records] or "
                '[keep], or leave the file out (safety.broken_sources = "quarantine" uses its records without it).'
            )
            raise SourceBroken(source.name, after, "missing_column", detail, remedy)
    except SourceBroken as broken:
        if stop:
            raise
        bad = Bad(max(broken.position, after), broken.reason, broken.detail)
        yield Batch(source.name, pa.array([], pa.int64()), _no_rows(), (bad,))


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], schema=pa.schema([]))


def _check_bad(gatherer: Gatherer, config: Config) -> None:
    allowed = config.safety.max_bad_fraction
    bad, read = gatherer.unusable, gatherer.documents
    if bad > _BAD_ALWAYS_ALLOWED and bad > allowed * read:
        raise TooManyBadRecords(
            f"{bad:,} of {read:,} documents cannot be used, more than safety.max_bad_fraction = {allowed} allows. "
            "Run with --set safety.max_bad_fraction=1 to see each of them in OUT/quarantine, or mend the input."
        )
