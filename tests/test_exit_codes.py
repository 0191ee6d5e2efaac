"""What a user's mistake or a full disk leads to: one plain message, the exit code, nothing changed on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FRUIT = ("apples", "pears", "plums", "quinces", "figs")
TEXTS = [f"page {number} tells of {FRUIT[number % 5]} and more" for number in range(40)]


def run(*arguments: object, shell: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dedup_pipeline", "run", *map(str, arguments)]
    if shell:
        command = ["bash", "-c", f'{shell}; exec "$@"', "bash", *command]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=cwd)


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "dump.jsonl"
    path.parent.mkdir()
    lines = [json.dumps({"id": n, "url": f"https://a.example/{n}", "text": text}) for n, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def assert_refused(ran: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    messages = [line for line in ran.stderr.splitlines() if line.startswith("dedup-pipeline: ")]
    assert len(messages) == 1
    for word in words:
        assert word in ran.stderr


def assert_untouched(folder: Path, names: set[str]) -> None:
    assert {entry.name for entry in folder.iterdir()} == names


def test_a_run_that_is_well_ends_with_0(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert told["counts"] == manifest["counts"]
    assert "reading" in ran.stderr
    assert_untouched(tmp_path, {"in", "out"})


def test_quiet_says_nothing(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out", "-q")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_summary_for_a_person(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out")
    assert "Read                  40 documents from 1 source(s)" in ran.stdout
    assert f"Written to {tmp_path / 'out'}" in ran.stdout


def test_a_missing_file(tmp_path: Path) -> None:
    assert_refused(run(tmp_path / "none.jsonl", "-o", tmp_path / "out"), 3, "none.jsonl")
    assert_untouched(tmp_path, set())


def test_an_unknown_key_names_the_nearest(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out", "--set", "near.treshold=0.5", "--set", "near.n=true")
    assert_refused(ran, 2, "near.treshold is unknown; did you mean threshold?", "near.n")
    assert_untouched(tmp_path, {"in"})


def test_a_config_file_that_is_missing_or_broken(dump: Path, tmp_path: Path) -> None:
    assert_refused(run(dump, "-o", tmp_path / "out", "--config", tmp_path / "no.toml"), 2, "no.toml")
    (tmp_path / "bad.toml").write_text("[near\n")
    assert_refused(run(dump, "-o", tmp_path / "out", "--config", tmp_path / "bad.toml"), 2, "bad.toml")


def test_a_missing_text_column(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out", "--set", "input.text=body")
    assert_refused(ran, 3, "dump.jsonl", "body", "broken_sources")
    assert_untouched(tmp_path, {"in"})


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root reads everything; setpriv is absent"
)
def test_an_unreadable_folder(dump: Path, tmp_path: Path) -> None:
    for parent in [tmp_path, *tmp_path.parents]:
        if parent.owner() == tmp_path.owner() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    dump.parent.chmod(0o000)
    command = [sys.executable, "-m", "dedup_pipeline", "run", str(dump.parent), "-o", str(tmp_path / "out")]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    dump.parent.chmod(0o755)
    if "No module named" in ran.stderr or ran.returncode in (126, 127):
        pytest.skip(f"another user cannot run this checkout: {ran.stderr.strip()[-200:]}")
    assert_refused(ran, 3, str(dump.parent))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_what_stood_there(dump: Path, tmp_path: Path, overwrite: bool) -> None:
    assert run(dump, "-o", tmp_path / "out", "-q").returncode == 0
    before = digests(tmp_path / "out")
    large = tmp_path / "in" / "large.jsonl"
    with open(large, "w", encoding="utf-8") as file:
        for number in range(4000):
            file.write(json.dumps({"id": f"x{number}", "text": f"{number} and a text of its own " * 20}) + "\n")
    target = tmp_path / ("out" if overwrite else "other")
    options = ["--overwrite"] if overwrite else []
    ran = run(dump.parent, "-o", target, *options, shell="ulimit -f 500")
    assert_refused(ran, 5, "--output")
    assert digests(tmp_path / "out") == before
    assert_untouched(tmp_path, {"in", "out"})


def test_an_output_that_exists(dump: Path, tmp_path: Path) -> None:
    assert run(dump, "-o", tmp_path / "out", "-q").returncode == 0
    before = digests(tmp_path / "out")
    assert_refused(run(dump, "-o", tmp_path / "out"), 5, "--overwrite")
    assert digests(tmp_path / "out") == before
    assert run(dump, "-o", tmp_path / "out", "-q", "--overwrite", "--no-report").returncode == 0
    assert not (tmp_path / "out" / "report.html").exists()
    assert_untouched(tmp_path, {"in", "out"})


def test_a_foreign_folder_is_not_overwritten(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    assert_refused(run(dump, "-o", tmp_path / "home", "--overwrite"), 5, "home")
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("place", ["in", "in/out", "in/dump.jsonl", "."])
def test_output_and_input_must_not_overlap(dump: Path, tmp_path: Path, place: str) -> None:
    before = digests(tmp_path)
    ran = run(dump.parent, "-o", tmp_path / place, "--overwrite")
    assert ran.returncode in (2, 5)
    assert_refused(ran, ran.returncode, "--output")
    assert digests(tmp_path) == before


def test_a_parent_that_does_not_exist(dump: Path, tmp_path: Path) -> None:
    assert_refused(run(dump, "-o", tmp_path / "no" / "out"), 5, "does not exist")


def test_a_dry_run_publishes_nothing(dump: Path, tmp_path: Path) -> None:
    ran = run(dump, "-o", tmp_path / "out", "--dry-run")
    assert ran.returncode == 0
    assert "nothing was written" in ran.stdout
    assert_untouched(tmp_path, {"in"})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "pipe")
    table = pa.table(
        {"id": [str(n) for n in range(60_000)], "text": [f"{n} words {n * 7} and more {n * n}" for n in range(60_000)]}
    )
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    command = [sys.executable, "-m", "dedup_pipeline", "run", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    command += ["--set", "input.batch_rows=50"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as started:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.staged-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        started.send_signal(number)
        _, errors = started.communicate(timeout=120)
    assert started.returncode == 130, errors
    assert "Traceback" not in errors
    assert_untouched(tmp_path, {"in", "pipe"})


def test_a_closed_pipe_does_no_harm(dump: Path, tmp_path: Path) -> None:
    command = (
        f'{sys.executable} -m dedup_pipeline run {dump} -o {tmp_path / "out"} | head -c 0; exit "${{PIPESTATUS[0]}}"'
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out" / "manifest.json").exists()
    assert "Traceback" not in ran.stderr


def test_control_characters_of_a_name_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\x1b[31m.jsonl").write_text("{broken\n" * 20)
    ran = run(tmp_path / "in", "-o", tmp_path / "out")
    assert ran.returncode == 3
    assert "\x1b" not in ran.stderr


def test_a_truncated_source_stops_or_is_quarantined(dump: Path, tmp_path: Path) -> None:
    import gzip

    whole = gzip.compress(dump.read_bytes())
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "dump.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    assert_refused(run(tmp_path / "cut", "-o", tmp_path / "out"), 3, "truncated", "dump.jsonl.gz", "quarantine")
    ran = run(tmp_path / "cut", "-o", tmp_path / "out", "--set", "safety.broken_sources=quarantine", "--json")
    assert ran.returncode == 0, ran.stderr
    counts = json.loads(ran.stdout)["counts"]
    assert counts["quarantined"] == 1
    assert counts["read"] == counts["kept"] + sum(counts["dropped"].values()) + 1
    (row,) = pq.read_table(tmp_path / "out" / "quarantine").to_pylist()
    assert (row["source"], row["reason"]) == ("cut/dump.jsonl.gz", "truncated")


def test_too_many_bad_records(tmp_path: Path) -> None:
    good, bad = [json.dumps({"text": text}) for text in TEXTS], ["{no"] * 11
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(good + bad[:10]) + "\n")
    assert run(path, "-o", tmp_path / "ten", "-q").returncode == 0
    path.write_text("\n".join(good + bad) + "\n")
    assert_refused(run(path, "-o", tmp_path / "eleven"), 3, "11", "max_bad_fraction")
    assert not (tmp_path / "eleven").exists()
    assert run(path, "-o", tmp_path / "all", "-q", "--set", "safety.max_bad_fraction=1").returncode == 0


def test_safety_stops_name_the_source_and_the_cluster(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    path = tmp_path / "same.jsonl"
    path.write_text("".join(json.dumps({"text": f"{words} {number}"}) + "\n" for number in range(1200)))
    assert_refused(run(path, "-o", tmp_path / "out"), 3, "same.jsonl", "1,199 of 1,200", "max_dropped_fraction")
    settings = ["--set", "safety.max_dropped_fraction=1", "--set", "safety.max_cluster=1000"]
    assert_refused(run(path, "-o", tmp_path / "out", *settings), 3, "same.jsonl", "1,200", "max_cluster")
    assert_untouched(tmp_path, {"same.jsonl"})


def test_two_sources_with_other_types_are_both_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a"], "year": [1]}), tmp_path / "in" / "a.parquet")
    pq.write_table(pa.table({"text": ["b"], "year": ["1"]}), tmp_path / "in" / "b.parquet")
    assert_refused(run(tmp_path / "in", "-o", tmp_path / "out"), 3, "in/a.parquet", "in/b.parquet", "year")


def test_an_engine_of_another_version(dump: Path, tmp_path: Path) -> None:
    assert_refused(run(dump, "-o", tmp_path / "out", "--engine", "spark"), 2, "spark")
