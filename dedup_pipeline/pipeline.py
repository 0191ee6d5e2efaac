"""The run, top to bottom.

1. find and digest the sources, make sure the output can be written
2. read every source once, and describe each document: URL key, fingerprint, text, shingles, band keys
3. put the documents in priority order
4. group by URL, by fingerprint, by text
5. find candidate pairs of texts by LSH and verify each by its true Jaccard similarity
6. take the documents in priority order and decide, by the one rule across all stages
7. count, check that every document is accounted for, and stop if too much would go
8. write kept rows, ledger, pairs, quarantine, manifest and report beside the output's place
9. rename them into it
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from dedup_pipeline import __version__, ledger, manifest, safety
from dedup_pipeline.compiled import Bool
from dedup_pipeline.config import Config
from dedup_pipeline.documents import make_plan
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.local import Groups, LocalEngine, Near, Priority
from dedup_pipeline.ledger import Outcome
from dedup_pipeline.near.cluster import KEPT, Verdicts
from dedup_pipeline.progress import Progress, Silent
from dedup_pipeline.report import render_report
from dedup_pipeline.result import RunResult
from dedup_pipeline.schema import LEDGER, PAIRS, QUARANTINE
from dedup_pipeline.sources import Source, digest_source, find_sources
from dedup_pipeline.store.output import StagedOutput, check_place, to_json
from dedup_pipeline.store.parts import GROUP_ROWS, RowSource, plan_parts
from dedup_pipeline.store.scratch import Scratch

_LEDGER_WEIGHT = 64
"""Bytes a ledger row counts for: its row groups and parts are counted in rows."""


@dataclass(slots=True)
class _Clock:
    """Seconds of wall time by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, progress: Progress, name: str, total: int | None = None, unit: str = "") -> Iterator[None]:
        progress.stage(name, total, unit)
        start = time.perf_counter()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)


def run(config: Config, progress: Progress | None = None) -> RunResult:
    """Deduplicate the inputs of ``config`` and write its output folder.

    Returns:
        what was counted, and where the tables stand; with ``dry_run`` nothing stands there.

    Raises:
        DedupError: one of its branches; then nothing was published and what stood there stands still.
    """
    progress = progress or Silent()
    clock = _Clock()
    begun = time.perf_counter()
    sources = find_sources(config.inputs)
    check_place(config.output, config.overwrite, {_root(source) for source in sources})
    plan = make_plan(config)
    with (
        StagedOutput(config.output, config.overwrite) as staged,
        staged.scratch as scratch,
        LocalEngine(config, plan, scratch) as engine,
    ):
        for left in staged.leftovers:
            progress.say(f"{left} was left by a run that was killed, or belongs to one that goes on; else delete it.")
        digests = _digest_all(sources)
        with clock.stage(progress, "read", sum(source.size for source in sources), "bytes"):
            documents = engine.gather(sources, progress)
        with clock.stage(progress, "group"):
            priority = engine.prioritise(documents)
            groups = engine.group(documents, priority, progress)
        with clock.stage(progress, "near", None, "pairs"):
            near = engine.find_near(documents, priority, groups, progress)
        with clock.stage(progress, "decide"):
            verdicts = engine.decide(documents, priority, groups, near)
            outcome = _outcome(documents, priority, groups, verdicts, scratch)
            counts = manifest.counts_of(documents, outcome)
            safety.check(counts, outcome, documents, config.safety)
        seen = manifest.seen_of(config, groups, outcome)
        inputs = manifest.inputs_of(sources, [digest.result() for digest in digests])
        run_id = _run_id(inputs, config)
        with clock.stage(progress, "write", len(documents), "documents"):
            _write_tables(staged, engine, documents, priority, near, verdicts, outcome, run_id, config)
        described: dict[str, Any] = {
            "dedup_pipeline": __version__,
            "run": run_id,
            "counts": counts,
            "config": config.sections(),
            "config_fingerprint": config.fingerprint(),
            "schemes": manifest.schemes(),
            "inputs": inputs,
            "bloom": seen,
            "lsh": manifest.lsh_of(config, plan, near),
            "warnings": safety.warnings(counts, seen, config, plan),
            "environment": manifest.environment_of(config),
        }
        if config.report:
            staged.write_text("report.html", render_report(described))
        described["files"] = [entry for entry in staged.files() if entry["name"] != "report.html"]
        described["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        described["timings"] = clock.seconds | {"total": round(time.perf_counter() - begun, 4)}
        written = to_json(described)
        staged.write_text("manifest.json", written)
        if not config.dry_run:
            staged.publish()
    return RunResult(config.output, json.loads(written), published=not config.dry_run)


def _root(source: Source) -> Path:
    """Return the file or folder of the input that a source belongs to."""
    path, depth = Path(source.path), source.name.count("/")
    return path.parents[depth - 1] if depth else path


def _digest_all(sources: list[Source]) -> list[Future[str]]:
    """Return the digests of all sources, in the making beside the reading."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="digest")
    digests = [pool.submit(digest_source, source) for source in sources]
    pool.shutdown(wait=False)
    return digests


def _run_id(inputs: list[dict[str, Any]], config: Config) -> str:
    """Return 32 hex digits that are the same for the same inputs and settings."""
    return xxhash.xxh3_128_hexdigest(f"{to_json({'inputs': inputs})}{config.fingerprint()}".encode())


def _outcome(documents: Gathered, priority: Priority, groups: Groups, verdicts: Verdicts, scratch: Scratch) -> Outcome:
    count = len(documents)
    empty = Outcome(
        scratch.array("outcome_fates", np.uint8, (count,)),
        scratch.array("outcome_keepers", np.int64, (count,)),
        scratch.array("outcome_similarities", np.float64, (count,)),
        scratch.array("outcome_same", np.bool_, (count,)),
        scratch.array("outcome_sizes", np.int64, (count,)),
    )
    return ledger.outcome_by_number(priority, groups, verdicts, empty)


def _write_tables(
    staged: StagedOutput,
    engine: LocalEngine,
    documents: Gathered,
    priority: Priority,
    near: Near,
    verdicts: Verdicts,
    outcome: Outcome,
    run_id: str,
    config: Config,
) -> None:
    """Write all tables of the output."""
    compression = config.output_options.compression
    everything = np.ones(len(documents), dtype=np.bool_)
    kept = outcome.fates == KEPT

    writing: list[Future[None]] = []

    def write(table: str, schema: pa.Schema, chosen: Bool, rows: RowSource) -> None:
        weights = documents.weights if table == "kept" else np.broadcast_to(np.int64(_LEDGER_WEIGHT), len(documents))
        parts = plan_parts(weights, chosen)
        writing.extend(staged.write_table(table, schema, parts, rows, compression, engine.pool))

    write("kept", documents.schema, kept, lambda start, end: documents.rows(start, end, kept))
    write("ledger", LEDGER, everything, lambda s, e: ledger.ledger_rows(documents, outcome, run_id, s, e))
    write("quarantine", QUARANTINE, ~documents.usable, lambda s, e: ledger.quarantine_rows(documents, s, e))
    numbered = engine.pairs(near, priority, verdicts)
    batches = (ledger.pair_rows(documents, batch, run_id) for batch in numbered)
    staged.write_stream("pairs", PAIRS, batches, GROUP_ROWS, compression)
    for part in writing:
        part.result()
