"""Several commands doing one job in turn, round by round, and the table of what they took."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import Measurement, measure

ROOT = Path(__file__).parent.parent


@dataclass(slots=True)
class Contestant:
    """A command of a contest and what its runs took.

    Attributes:
        name: what the table calls it.
        command: gets an output folder that does not exist yet, returns the command.
        timeout_s: the longest a run may take; None for no limit.
        kept: gets the output folder and the measurement of a successful run, returns the number of
            documents kept, None where it cannot be known.
        env: variables to set beside ours.
        repeats: how many rounds it takes part in; None for all.
        rounds: measurements, one a round.
        rows_kept: documents kept in the last successful round.
        failure: why a run did not succeed; such a contestant takes no further part.
    """

    name: str
    command: Callable[[Path], list[str]]
    timeout_s: float | None = None
    kept: Callable[[Path, Measurement], int | None] = lambda output, run: None
    env: Mapping[str, str] = field(default_factory=dict)
    repeats: int | None = None
    rounds: list[Measurement] = field(default_factory=list)
    rows_kept: int | None = None
    failure: str = ""

    def run(self, scratch: Path) -> Measurement:
        """One measured run; its output is counted and removed. Raises nothing for a failing command."""
        output = scratch / "output"
        shutil.rmtree(output, ignore_errors=True)
        env = {**os.environ, **self.env}
        run = measure(self.command(output), scratch=scratch, timeout_s=self.timeout_s, env=env, cwd=ROOT)
        if run.ok:
            self.rows_kept = self.kept(output, run)
        else:
            self.failure = reason_of(run, self.timeout_s)
        shutil.rmtree(output, ignore_errors=True)
        return run

    def median(self, figure: str) -> float:
        """The median of an attribute of `Measurement` over the rounds; NaN without rounds."""
        return median(getattr(run, figure) for run in self.rounds) if self.rounds else float("nan")


def reason_of(run: Measurement, timeout_s: float | None) -> str:
    """Why a run failed, in one line."""
    if run.timed_out:
        return f"ended after {timeout_s:.0f} s, its time limit"
    lines = [line for line in (run.stderr or run.stdout).strip().splitlines() if line.strip()]
    return f"exit code {run.exit_code}: {lines[-1].strip()[:300] if lines else 'no output'}"


def hold(contestants: Sequence[Contestant], rounds: int, scratch: Path, warm_up: Sequence[str] = ()) -> None:
    """Runs all contestants in turn, ``rounds`` times over (A B C A B C ...), and notes what they took.

    Those named in ``warm_up`` run once before, not counted: the files come into the page cache and
    compiled kernels into theirs.
    """
    for contestant in contestants:
        if contestant.name in warm_up and not contestant.failure:
            _say(f"warm-up: {contestant.name}")
            contestant.run(scratch)
    for number in range(rounds):
        for contestant in contestants:
            if contestant.failure or (contestant.repeats is not None and number >= contestant.repeats):
                continue
            run = contestant.run(scratch)
            _say(f"round {number + 1}: {contestant.name} {run.wall_s:.2f} s {contestant.failure}")
            if run.ok:
                contestant.rounds.append(run)


def ratio(one: Contestant, other: Contestant, figure: str = "wall_s") -> float:
    """Median over the rounds of the two's quotient in the same round; NaN when there is none."""
    pairs = zip(one.rounds, other.rounds, strict=False)
    quotients = [getattr(a, figure) / getattr(b, figure) for a, b in pairs]
    return median(quotients) if quotients else float("nan")


def table(contestants: Sequence[Contestant], against: Sequence[Contestant], rows: int) -> str:
    """The medians, and for each of ``against`` how many times its wall time each contestant took."""
    heads = ["", "rounds", "wall s", "CPU s", "anon MB", "RSS MB", "kept", "removed"]
    lines = [heads + [f"/ {other.name}" for other in against]]
    for c in contestants:
        if not c.rounds:
            continue
        kept = ["-", "-"] if c.rows_kept is None else [f"{c.rows_kept:,}", f"{rows - c.rows_kept:,}"]
        figures = [f"{c.median('wall_s'):.2f}", f"{c.median('cpu_s'):.2f}"]
        figures += [f"{c.median(name) / 1e6:.0f}" for name in ("peak_anon", "max_rss")]
        lines.append([c.name, str(len(c.rounds)), *figures, *kept, *(f"{ratio(c, o):.2f}" for o in against)])
    text = aligned(lines)
    for c in contestants:
        if c.failure:
            text += f"\nnot measured: {c.name}: {c.failure}"
    return text


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text: first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def printed_count(output: Path, run: Measurement) -> int | None:
    """``kept`` of the JSON object in the last line the command printed."""
    lines = run.stdout.strip().splitlines()
    return int(json.loads(lines[-1])["kept"]) if lines else None


def parquet_rows(folder: Path) -> int:
    """The rows of all Parquet files below a folder."""
    return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.rglob("*.parquet"))


def as_json(contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Every figure of every round, for a machine to read."""
    figures = ("wall_s", "cpu_s", "peak_anon", "peak_rss", "max_rss")
    return {
        c.name: {
            "rounds": [{figure: getattr(run, figure) for figure in figures} for run in c.rounds],
            "kept": c.rows_kept,
            "failure": c.failure or None,
        }
        for c in contestants
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
