"""What a person sees: lines or bars on stderr, a summary, and no control character of anybody else's."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner
from fates import write_fates
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline import RunResult
from dedup_pipeline.console import Console, plain, summary


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """A stream that fails after ``lines`` lines: its reader has gone, or its disk is full."""

    def __init__(self, lines: int, error: type[OSError]) -> None:
        super().__init__()
        self.left, self.error = lines, error

    def write(self, text: str) -> int:
        if not self.left:
            raise self.error
        self.left -= 1
        return super().write(text)


def go_through(console: Console) -> None:
    with console:
        console.stage("read", 100, "bytes")
        console.advance(60)
        console.say("a word \x1b[31m [bold]on[/bold] the way")
        console.advance(40)
        console.stage("near", None, "pairs")
        console.advance(5)


@given(st.text())
def test_plain_text_steers_no_terminal_and_says_all(text: str) -> None:
    shown = plain(text)
    assert all(character == "\n" or character.isprintable() for character in shown)
    if all(character == "\n" or character.isprintable() for character in text):
        assert shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\rb\tc\x00", "a\\rb\\tc\\x00"),
        ("\x9b31m", "\\x9b31m"),
        ("right \u202e left", "right \\u202e left"),
        ("\ud800", "\\ud800"),
        ("äöü 漢字 \U0001f600\nnext", "äöü 漢字 \U0001f600\nnext"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_line_per_stage_where_no_terminal_is() -> None:
    stream = io.StringIO()
    go_through(Console(stream))
    first, second, third = stream.getvalue().splitlines()
    assert first == "a word \\x1b[31m [bold]on[/bold] the way"
    assert second.startswith("reading and describing: ")
    assert second.endswith(" s")
    assert third.startswith("comparing near texts: ")


def test_nothing_when_quiet() -> None:
    for stream in (io.StringIO(), Terminal()):
        go_through(Console(stream, quiet=True))
        assert stream.getvalue() == ""


def test_no_stream_at_all_does_no_harm() -> None:
    go_through(Console(None))


def test_bars_on_a_terminal() -> None:
    stream = Terminal()
    go_through(Console(stream))
    shown = stream.getvalue()
    assert "reading and describing" in shown
    assert "comparing near texts" in shown
    assert "100%" in shown or "MB" in shown
    assert "a word \\x1b[31m [bold]on[/bold] the way" in shown


@pytest.mark.parametrize("lines", [0, 1, 2])
@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_a_stream_that_fails_does_no_harm(lines: int, error: type[OSError]) -> None:
    stream = Gone(lines, error)
    go_through(Console(stream))
    assert stream.getvalue().count("\n") == lines


def test_a_stage_that_failed_is_not_told_as_done() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError), Console(stream) as console:
        console.stage("read", 1, "bytes")
        raise RuntimeError
    assert stream.getvalue() == ""


# --- the summary -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, run_pipeline: Runner) -> Outcome:
    return run_pipeline([write_fates(tmp_path_factory.mktemp("fates"))])


@pytest.fixture
def manifest(outcome: Outcome) -> dict[str, Any]:
    described = copy.deepcopy(outcome.manifest)
    described["timings"]["total"] = 1.26
    return described


def test_the_summary_tells_what_became_of_all(manifest: dict[str, Any]) -> None:
    lines = summary(RunResult(Path("some/out"), manifest)).splitlines()
    assert [" ".join(line.split()) for line in lines[:7]] == [
        "Read 12 documents from 2 source(s)",
        "Kept 4 (33.3 %)",
        "Dropped 3 at a known URL, 1 of them with other content",
        "2 with the same fields",
        "2 with nearly the same text (threshold 0.8)",
        "Quarantined 1",
        "Seen-set 6 URLs, exact, none lost",
    ]
    assert [line.removeprefix("Note: ") for line in lines[7:-1]] == manifest["warnings"]
    assert lines[-1] == "Written to some/out in 1.3 s."


def test_the_summary_of_a_dry_run(manifest: dict[str, Any]) -> None:
    lines = summary(RunResult(Path("out"), manifest, published=False)).splitlines()
    assert lines[-1] == "Dry run: nothing was written in 1.3 s."


def test_the_summary_names_what_was_passed_over(manifest: dict[str, Any]) -> None:
    manifest["counts"]["skipped"] = {"request": 1200, "status_404": 3}
    assert "1,200 request, 3 status_404" in summary(RunResult(Path("out"), manifest))


def test_the_summary_of_nothing(manifest: dict[str, Any]) -> None:
    manifest["counts"] |= {"read": 0, "kept": 0}
    assert "%" not in summary(RunResult(Path("out"), manifest))


def test_the_summary_steers_no_terminal(manifest: dict[str, Any]) -> None:
    manifest["warnings"] = ["\x1b[2J"]
    assert "\x1b" not in summary(RunResult(Path("o\x1but"), manifest))
