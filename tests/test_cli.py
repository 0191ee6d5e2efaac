"""The command in a process of its own: streams that are closed or full, signals, terminals, names, usage.

What a user's mistakes lead to stands in test_exit_codes.py.
"""

from __future__ import annotations

import gc
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import REPOSITORY, CommandLine
from fates import write_fates
from typer.testing import CliRunner

import dedup_pipeline
from dedup_pipeline.cli import app

PYTHON = sys.executable


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return write_fates(tmp_path)


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in ``folder``, where ``dedup`` is the command."""
    function = f'dedup() {{ {PYTHON} -m dedup_pipeline "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", function + line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=300,
    )


def no_trace(text: str) -> None:
    assert "Traceback" not in text
    assert "Exception ignored" not in text
    assert "Warning" not in text


@contextmanager
def signals_as_they_were() -> Iterator[None]:
    """The command takes some signals over; a test that runs it in this process gives them back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


# --- usage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run"], "INPUT"),
        (["run", "in.jsonl"], "--output"),
        (["run", "in.jsonl", "-o", ""], "--output is empty"),
        (["run", "in.jsonl", "-o", "out", "--thread", "2"], "--thread"),
        (["run", "in.jsonl", "-o", "out", "--threads", "two"], "--threads"),
        (["dedup"], "dedup"),
        (["run", "in.jsonl", "-o", "out", "--threads", "0"], "threads"),
        (["run", "in.jsonl", "-o", "out", "--memory-limit", "1MB"], "256MB"),
        (["run", "in.jsonl", "-o", "out", "--memory-limit", "much"], "memory_limit"),
        (["run", "in.jsonl", "-o", "out", "--set", "near.threshold"], "SECTION.KEY=VALUE"),
        (["run", "in.jsonl", "-o", "out", "--set", "near.threshold=nan"], "near.threshold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_ends_with_2(arguments: list[str], word: str) -> None:
    with signals_as_they_were():
        ran = CliRunner().invoke(app, arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert word in ran.stderr
    assert isinstance(ran.exception, SystemExit)


def test_all_problems_of_a_configuration_stand_in_one_message(tmp_path: Path, command_line: CommandLine) -> None:
    (tmp_path / "c.toml").write_text(
        '[near]\ntreshold = 0.5\nthreshold = 1.5\nnum_perm = "many"\n[neer]\nn = 3\n[input]\nformat = "exotic"\n'
    )
    ran = command_line("run", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--config", tmp_path / "c.toml")
    assert ran.returncode == 2
    assert ran.stderr.count("dedup-pipeline: ") == 1
    for words in ("did you mean threshold", "1.5", "num_perm", "[neer]", "did you mean near", "exotic", "c.toml"):
        assert words in ran.stderr
    assert os.listdir(tmp_path) == ["c.toml"]
    no_trace(ran.stderr)


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_collector_of_a_caller_is_given_back(crawl: Path, tmp_path: Path, ends_well: bool) -> None:
    before = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    with signals_as_they_were():
        ran = CliRunner().invoke(
            app, ["run", str(crawl if ends_well else tmp_path / "none"), "-o", str(tmp_path / "o")]
        )
    assert (ran.exit_code == 0) is ends_well
    assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_the_version_is_the_one_of_the_package(command_line: CommandLine) -> None:
    told = command_line("--version")
    assert (told.returncode, told.stdout) == (0, f"dedup-pipeline {dedup_pipeline.__version__}\n")


def test_help_names_every_option(command_line: CommandLine) -> None:
    assert "run" in command_line("--help").stdout
    told = command_line("run", "--help", COLUMNS="200")
    assert told.returncode == 0
    options = "output config set engine threads memory-limit overwrite dry-run no-report json quiet"
    for option in options.split():
        assert f"--{option}" in told.stdout


def test_help_imports_nothing_heavy() -> None:
    for arguments in (["--help"], ["run", "--help"]):
        command = [PYTHON, "-X", "importtime", "-m", "dedup_pipeline", *arguments]
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60)
        imported = {line.split("|")[-1].strip().split(".")[0] for line in ran.stderr.splitlines()}
        assert "typer" in imported
        heavy = {"pandas", "matplotlib", "pyspark", "redis", "scrapy", "numba", "duckdb", "pyarrow", "numpy", "xxhash"}
        assert not imported & heavy


# --- streams ---------------------------------------------------------------------------------------------


def test_json_on_stdout_and_progress_lines_on_stderr(crawl: Path, tmp_path: Path, command_line: CommandLine) -> None:
    out = tmp_path / "sörted"
    ran = command_line("run", crawl, "-o", out, "--json", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    (line,) = ran.stdout.splitlines()
    told, written = json.loads(line), json.loads((out / "manifest.json").read_bytes())
    assert told.pop("output") == str(out)
    assert told.pop("published") is True
    assert told == {key: written[key] for key in told}
    assert set(told) == {"run", "counts", "config_fingerprint", "bloom", "lsh", "warnings", "timings"}
    stages = ["reading and describing", "grouping by URL and fields", "comparing near texts", "deciding", "writing"]
    timed = [line for line in ran.stderr.splitlines() if re.fullmatch(r"[\w ]+: \d+\.\d s", line)]
    assert [line.split(":")[0] for line in timed] == stages
    assert not re.search(r"[^\n -~]", ran.stderr)


def test_quiet_says_nothing_but_what_went_wrong(crawl: Path, tmp_path: Path, command_line: CommandLine) -> None:
    ran = command_line("run", crawl, "-o", tmp_path / "out", "-q", "--set", "input.text=body")
    assert (ran.returncode, ran.stdout) == (3, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("dedup-pipeline: crawl/a.jsonl: missing_column")


STREAMS = [
    # what is done with the streams, the exit code that remains
    ("dedup run crawl -o out 2>&1 | head -c0; exit ${PIPESTATUS[0]}", 0),
    ("dedup run missing -o out 2>&1 | head -c0; exit ${PIPESTATUS[0]}", 3),
    ("dedup run missing -o out >&- 2>&-", 3),
    ("dedup run crawl -o out <&- >&- 2>&-", 0),
]


@pytest.mark.parametrize(("line", "code"), STREAMS, ids=[line for line, _ in STREAMS])
def test_streams_that_nobody_reads_do_no_harm(crawl: Path, tmp_path: Path, line: str, code: int) -> None:
    ran = shell(line, tmp_path)
    assert ran.returncode == code, ran.stderr
    no_trace(ran.stderr)
    assert (tmp_path / "out" / "manifest.json").exists() == (code == 0)
    assert sorted(os.listdir(tmp_path)) == (["crawl", "out"] if code == 0 else ["crawl"])


PRINTING = "from dedup_pipeline.cli import _exit_codes, _print\nwith _exit_codes():\n    _print('sö 漢 \\udce9')"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_summary_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    # Exit is the command's own exception, which typer turns into the exit code.
    ran = shell(f'{PYTHON} -c "{PRINTING}" >/dev/full', tmp_path)
    assert "dedup-pipeline: stdout cannot be written: No space left on device" in ran.stderr
    assert ran.stderr.rstrip().endswith("Exit: 5")
    assert "Exception ignored" not in ran.stderr


def test_a_stream_of_another_encoding(tmp_path: Path) -> None:
    ran = shell(f'{PYTHON} -c "{PRINTING}"', tmp_path, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stdout) == (0, "s\\xf6 \\u6f22 \\udce9\n")


def test_bars_on_a_terminal_show_no_control_characters_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\x1b]0;mine\x07.jsonl").write_text("{\n" * 11)
    terminal, end = pty.openpty()
    command = [PYTHON, "-m", "dedup_pipeline", "run", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    with subprocess.Popen(
        [*command, "--set", "input.text=no"], cwd=REPOSITORY, stdin=end, stdout=end, stderr=end
    ) as started:
        os.close(end)
        shown = b"".join(iter(lambda: _read(terminal), b""))
    os.close(terminal)
    assert started.returncode == 3
    assert b"reading and describing" in shown
    assert b"\x1b]0;" not in shown
    assert b"Traceback" not in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so at the end of a pseudo-terminal
        return b""


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [("n" * 256, 2), ("caf$'\\xe9'", 2), ("no/out", 5)],
    ids=["too long", "no UTF-8", "no parent"],
)
def test_names_that_no_output_can_have(crawl: Path, tmp_path: Path, name: str, code: int) -> None:
    ran = shell(f"dedup run crawl -o {name}", tmp_path)
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.startswith("dedup-pipeline: --output")
    assert ran.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["crawl"]


def test_a_file_whose_name_is_no_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\x1b[31m.jsonl")
    (tmp_path / name).write_text('{"text": "a"}\n')
    ran = shell("dedup run caf* -o out --set input.text=x", tmp_path)
    assert ran.returncode == 3
    assert "dedup-pipeline: caf%E9\\x1b[31m.jsonl: missing_column" in ran.stderr
    assert "\x1b" not in ran.stderr


# --- rights ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def powerless() -> str:
    """Words before a command that make it obey the rights of files, which root does not."""
    if os.geteuid() != 0:
        return ""
    if shutil.which("setpriv") is None:
        pytest.skip("root may read and write everything, and setpriv is not installed")
    return "setpriv --bounding-set=-dac_override,-dac_read_search "


def test_an_output_folder_that_may_not_be_written(crawl: Path, tmp_path: Path, powerless: str) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    ran = shell(f"{powerless}{PYTHON} -m dedup_pipeline run crawl -o closed/out", tmp_path)
    assert ran.returncode == 5, ran.stderr
    assert "no permission to write" in ran.stderr
    no_trace(ran.stderr)
    assert os.listdir(tmp_path / "closed") == []


def test_an_output_folder_that_may_not_be_entered(crawl: Path, tmp_path: Path, powerless: str) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    ran = shell(f"{powerless}{PYTHON} -m dedup_pipeline run crawl -o closed/below/out", tmp_path)
    assert ran.returncode == 5, ran.stderr
    no_trace(ran.stderr)
    assert ran.stderr.count("dedup-pipeline: ") == 1


def test_an_input_folder_that_may_not_be_read(crawl: Path, tmp_path: Path, powerless: str) -> None:
    crawl.chmod(0o000)
    ran = shell(f"{powerless}{PYTHON} -m dedup_pipeline run crawl -o out", tmp_path)
    crawl.chmod(0o755)
    assert ran.returncode == 3, ran.stderr
    assert "crawl" in ran.stderr
    no_trace(ran.stderr)
    assert ran.stderr.count("dedup-pipeline: ") == 1
    assert os.listdir(tmp_path) == ["crawl"]


# --- signals ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of distinct texts that takes some seconds to read in small batches."""
    path = tmp_path_factory.mktemp("long") / "long.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for number in range(40_000):
            file.write(json.dumps({"text": " ".join(f"{number}w{word}" for word in range(40))}) + "\n")
    return path


def begin(source: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run and wait until it has staged its output; ``SIGINT`` and ``SIGHUP`` are as on a terminal."""
    command = [PYTHON, "-m", "dedup_pipeline", "run", str(source), "-o", str(out), *options]
    started = subprocess.Popen(
        [*command, "--set", "input.batch_rows=50"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(f".{out.name}.staged-*")):
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)
    return started


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 3), (signal.SIGHUP, 1)])
def test_a_signal_ends_the_run_with_130(long_crawl: Path, tmp_path: Path, number: signal.Signals, times: int) -> None:
    (tmp_path / "old.jsonl").write_text('{"text": "old"}\n')
    dedup_pipeline.run(dedup_pipeline.load_config(inputs=[tmp_path / "old.jsonl"], output=tmp_path / "out"))
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with begin(long_crawl, tmp_path / "out", "--overwrite") as started:
        for _ in range(times):
            started.send_signal(number)
            time.sleep(0.02)
        printed, errors = started.communicate(timeout=60)
    assert started.returncode == 130, errors
    assert printed == ""
    (line,) = [line for line in errors.splitlines() if line.startswith("dedup-pipeline: ")]
    assert line.startswith("dedup-pipeline: Interrupted")
    no_trace(errors)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    assert sorted(os.listdir(tmp_path)) == ["old.jsonl", "out"]


def test_a_signal_that_was_to_be_ignored_is_ignored(crawl: Path, tmp_path: Path) -> None:
    """As under nohup, and for jobs that a script puts into the background."""
    line = "trap '' HUP INT; dedup run crawl -o out -q & "
    wait = "until ls -d .out.staged-* >/dev/null 2>&1 || test -e out; do sleep 0.1; done; kill -HUP $!; kill -INT $!; "
    ran = shell(line + wait + "wait $!", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out" / "manifest.json").exists()


def test_a_library_that_makes_its_own_error_of_an_interruption(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from dedup_pipeline import pipeline
def find_sources(_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None
pipeline.find_sources = find_sources
from dedup_pipeline.cli import main
sys.argv = ["dedup-pipeline", "run", "in.jsonl", "-o", "out", "-q"]
main()
"""
    command = [PYTHON, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 130, ran.stderr
    assert ran.stderr.startswith("dedup-pipeline: Interrupted")
    no_trace(ran.stderr)


def test_memory_that_runs_out_is_said_plainly(crawl: Path, tmp_path: Path) -> None:
    code = """
import sys
from dedup_pipeline.engines.local import LocalEngine
def gather(*_):
    raise MemoryError
LocalEngine.gather = gather
from dedup_pipeline.cli import main
sys.argv = ["dedup-pipeline", "run", "crawl", "-o", "out", "-q"]
main()
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(
        [PYTHON, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 5, ran.stderr
    (line,) = ran.stderr.splitlines()
    assert "--memory-limit" in line
    assert os.listdir(tmp_path) == ["crawl"]
