"""What a person sees of a run: progress on stderr, a closing summary."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from dedup_pipeline.result import RunResult

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_STAGES = {
    "read": "reading and describing",
    "group": "grouping by URL and fields",
    "near": "comparing near texts",
    "decide": "deciding",
    "write": "writing",
}


def plain(text: str) -> str:
    """Return text with control characters shown as escapes, so that a file name cannot steer a terminal."""
    return "".join(
        character if character == "\n" or character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class Console:
    """Progress of a run: bars on a terminal, a line per stage elsewhere, nothing when quiet or without a stream."""

    def __init__(self, stream: TextIO | None, *, quiet: bool = False) -> None:
        self._stream = None if quiet else stream
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._begun = 0.0

    def __enter__(self) -> Console:
        if self._stream is not None and self._stream.isatty():
            self._bars = _bars(self._stream)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._close_stage()
        if self._bars is not None:
            self._bars.stop()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """A stage begins."""
        self._close_stage()
        self._name, self._begun = name, time.perf_counter()
        if self._bars is not None:
            self._task = self._bars.add_task(_STAGES.get(name, name), total=total, unit=unit)

    def advance(self, amount: int) -> None:
        """The stage has come further."""
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)

    def say(self, message: str) -> None:
        """Show one line."""
        if self._bars is not None:
            self._bars.console.print(plain(message), markup=False, highlight=False)
        else:
            self._write(message)

    def _close_stage(self) -> None:
        if not self._name:
            return
        if self._bars is not None and self._task is not None:
            done = self._bars.tasks[self._task].completed or 1
            self._bars.update(self._task, total=done, completed=done)
        else:
            self._write(f"{_STAGES.get(self._name, self._name)}: {time.perf_counter() - self._begun:.1f} s")
        self._name = ""

    def _write(self, message: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(plain(message) + "\n")
            self._stream.flush()
        except OSError:  # nobody reads on, or the disk is full: no reason to end the run
            self._stream = None


def _bars(stream: TextIO) -> Bars:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(TextColumn):
        """Amount and amount per second, in the stage's unit."""

        def render(self, task: Any) -> Text:
            unit = task.fields.get("unit", "")
            if not unit:
                return Text("")
            if unit == "bytes":
                return Text(f"{task.completed / 1e6:,.0f} MB, {(task.speed or 0) / 1e6:,.1f} MB/s")
            return Text(f"{task.completed:,.0f} {unit}, {task.speed or 0:,.0f}/s")

    columns = [TextColumn("{task.description}"), BarColumn(), Rate(""), TimeElapsedColumn(), TimeRemainingColumn()]
    return Progress(*columns, console=RichConsole(file=stream, stderr=True))


def summary(result: RunResult) -> str:
    """Return the closing words of a run."""
    counts, manifest = result.counts, result.manifest
    read, dropped = counts["read"], counts["dropped"]
    share = f" ({100 * counts['kept'] / read:.1f} %)" if read else ""
    lines = [
        f"Read        {read:>12,} documents from {len(counts['sources']):,} source(s)",
        f"Kept        {counts['kept']:>12,}{share}",
        f"Dropped     {dropped['urls']:>12,} at a known URL, {counts['urls_changed']:,} of them with other content",
        f"            {dropped['records']:>12,} with the same fields",
        f"            {dropped['near']:>12,} with nearly the same text (threshold {manifest['lsh']['threshold']})",
        f"Quarantined {counts['quarantined']:>12,}",
    ]
    seen = manifest["bloom"]
    lost = f"about {seen['expected_lost']:.3g} lost" if seen["kind"] == "bloom" else "none lost"
    lines.append(f"Seen-set    {seen['inserted']:>12,} URLs, {seen['kind']}, {lost}")
    if counts["skipped"]:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts["skipped"].items())
        lines.append(f"Passed over  {kinds}")
    lines += [f"Note: {text}" for text in manifest["warnings"]]
    seconds = manifest["timings"]["total"]
    where = f"Written to {result.output}" if result.published else "Dry run: nothing was written"
    lines.append(f"{where} in {seconds:.1f} s.")
    return plain("\n".join(lines))
