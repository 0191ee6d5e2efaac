"""The three things that are measured: speed beside others, memory and growth, extraction from archives."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks import corpus, venvs, warc
from benchmarks.contest import Contestant, aligned, as_json, hold, parquet_rows, printed_count, ratio, table
from benchmarks.measure import Measurement
from benchmarks.peers import PEERS

HERE = Path(__file__).parent
OURS = "dedup_pipeline"
COPY = "plain copy"
EXTRACTION = "plain extraction"
READING = "our reading alone"


def inputs_of(options: argparse.Namespace, copies: int) -> list[Path]:
    """The input files, or the files of the corpus ``copies`` times as large (made in the work folder)."""
    if copies == 1:
        return list(options.inputs)
    folder = options.work / f"corpus-x{copies}"
    print(f"corpus of {copies} copies in {folder}", file=sys.stderr, flush=True)
    return corpus.enlarge(options.inputs, folder, copies)


def ours(files: list[Path], options: argparse.Namespace, *more: str, name: str = OURS) -> Contestant:
    """Our ``run`` without a report over ``files``."""

    def command(output: Path) -> list[str]:
        run = [sys.executable, "-m", "dedup_pipeline", "run", *map(str, files), "--output", str(output)]
        return [*run, "--no-report", "--quiet", "--threads", str(options.threads), *options.set, *more]

    def kept(output: Path, run: Measurement) -> int:
        return parquet_rows(output / "kept")

    return Contestant(name, command, options.timeout, kept)


def plain_copy(files: list[Path], options: argparse.Namespace) -> Contestant:
    """The same files read and written by pyarrow alone."""
    level = [] if options.level is None else ["--level", str(options.level)]

    def command(output: Path) -> list[str]:
        script = [sys.executable, str(HERE / "plain_copy.py"), *map(str, files), "--output", str(output)]
        return [*script, "--threads", str(options.threads), *level]

    return Contestant(COPY, command, options.timeout, lambda output, run: parquet_rows(output))


def peer(name: str, files: list[Path], options: argparse.Namespace) -> Contestant:
    """A peer; where its virtualenv cannot be made, a contestant that has failed already."""
    try:
        python = venvs.python_of(name, options.venvs)
    except venvs.PeerUnavailable as reason:
        return Contestant(name, lambda output: [], failure=str(reason))
    return Contestant(
        name,
        lambda output: venvs.peer_command(name, python, files, output, options.threads),
        options.peer_timeout,
        printed_count,
        # Arrow's pool would not keep to the threads asked for; the rest is no part of another virtualenv.
        {"OMP_NUM_THREADS": str(options.threads), "RAYON_NUM_THREADS": str(options.threads), "PYTHONPATH": ""},
        options.peer_repeats,
    )


def speed(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Whole-process times of the plain copy, ours and the peers over the same files, in turn."""
    results: dict[str, Any] = {}
    for copies in options.copies or [1]:
        files = inputs_of(options, copies)
        rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
        first = [plain_copy(files, options)] + ([] if options.no_ours else [ours(files, options)])
        contestants = first + [peer(name, files, options) for name in options.peers]
        hold(contestants, options.repeats, scratch, warm_up=[c.name for c in first])
        print(f"\n{len(files)} files, {rows:,} documents, {options.threads} threads; medians, ratios by round")
        print(table(contestants, first, rows))
        for name in options.peers:
            print(f"{name} {PEERS[name].requirements[0].split('==')[1]}: {PEERS[name].note}")
        results[f"x{copies}"] = as_json(contestants)
    return results


def memory(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Ours under a memory limit on growing corpora: peak memory, and time per document without start-up.

    Start-up is the time of a run over ten rows.
    """
    few = scratch / "ten-rows.parquet"
    pq.write_table(pq.read_table(options.inputs[0]).slice(0, 10), few)
    limit = ["--memory-limit", options.memory_limit]
    contestants = [ours([few], options, *limit, name="start-up (10 rows)")]
    rows: dict[str, int] = {}
    for copies in options.copies or [1, 10]:
        files = inputs_of(options, copies)
        contestants.append(ours(files, options, *limit, name=f"{copies} x"))
        rows[f"{copies} x"] = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    hold(contestants, options.repeats, scratch, warm_up=[contestants[0].name])
    lines = [["", "documents", "wall s", "CPU s", "anon MB", "RSS MB", "kept", "us/document", "/ first"]]
    first: list[float] = []
    for c in contestants:
        count = rows.get(c.name, 10)
        line = [c.name, f"{count:,}", f"{c.median('wall_s'):.2f}", f"{c.median('cpu_s'):.2f}"]
        line += [f"{max((r.peak_anon for r in c.rounds), default=0) / 1e6:.0f}", f"{c.median('max_rss') / 1e6:.0f}"]
        line.append("-" if c.rows_kept is None else f"{c.rows_kept:,}")
        if c is contestants[0]:
            line += ["", ""]
        else:
            each = [
                (run.wall_s - start.wall_s) / count * 1e6
                for run, start in zip(c.rounds, contestants[0].rounds, strict=False)
            ]
            first = first or each
            line += [f"{_median(each):.2f}", f"{_median([a / b for a, b in zip(each, first, strict=False)]):.2f}"]
        lines.append(line)
    print(f"\n--memory-limit {options.memory_limit}, {options.threads} threads; anon MB: the largest of all rounds")
    print(aligned(lines))
    _print_failures(contestants)
    return {"memory": as_json(contestants)}


def _median(figures: list[float]) -> float:
    return median(figures) if figures else float("nan")


def extraction(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Ours over a generated WARC, and our reading of it alone, beside FastWARC and Resiliparse on one thread."""
    archive = _archive(options)
    script = [sys.executable, str(HERE / "plain_extract.py"), str(archive)]
    plain = Contestant(EXTRACTION, lambda output: script, options.timeout, printed_count)
    module = [sys.executable, "-m", "benchmarks.read_archive", str(archive), "--threads", str(options.threads)]
    reading = Contestant(READING, lambda output: module, options.timeout, printed_count)
    we = ours([archive], options)
    hold([plain, reading, we], options.repeats, scratch, warm_up=[EXTRACTION, OURS])
    print(f"\n{archive.name}: {archive.stat().st_size / 1e6:.0f} MB, {options.threads} threads, medians")
    print(table([plain, reading, we], [plain], plain.rows_kept or 0))
    for contestant in (reading, we):
        print(f"{contestant.name}: {ratio(plain, contestant):.2f} times as fast as the plain extraction on one thread")
    return {"warc": as_json([plain, reading, we])}


def _archive(options: argparse.Namespace) -> Path:
    """The generated archive, made where it is not there yet."""
    name = f"crawl-{options.warc_megabytes:g}-{warc.VERSION}.warc" + (".gz" if options.warc_gzip else "")
    archive: Path = options.work / name
    if not archive.exists():
        print(f"making {archive}", file=sys.stderr, flush=True)
        options.work.mkdir(parents=True, exist_ok=True)
        staged = archive.with_name("staged-" + name)
        warc.write_warc(staged, int(options.warc_megabytes * 1e6))
        staged.replace(archive)
    return archive


def _print_failures(contestants: list[Contestant]) -> None:
    for c in contestants:
        if c.failure:
            print(f"not measured: {c.name}: {c.failure}")


def default_inputs() -> list[Path]:
    """The corpus of ``DEDUP_SHARED_DATA``; without the variable, of ``../shared/data`` beside the repository."""
    shared = Path(os.environ.get("DEDUP_SHARED_DATA", HERE.parent.parent / "shared" / "data"))
    return sorted((shared / "corpus").glob("part-*.parquet"))
