"""The run as a whole: what it publishes, and that a failure anywhere publishes nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner
from failing_disk import FailingDisk
from fates import write_fates

import dedup_pipeline
from dedup_pipeline import DedupError, RunResult, load_config, pipeline
from dedup_pipeline.engines.local import LocalEngine
from dedup_pipeline.errors import ConfigError, InputError, OutputError
from dedup_pipeline.store.output import StagedOutput

Content = dict[str, bytes]


def content(folder: Path) -> Content:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(crawl: Path, out: Path, **options: Any) -> RunResult:
    return dedup_pipeline.run(load_config(inputs=[crawl], output=out, threads=1, **options))


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return write_fates(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """An output of an earlier run, of other content than `crawl` gives."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "old.jsonl").write_text('{"id": "old", "text": "an old text"}\n')
    run(folder / "old.jsonl", folder / "out")
    return content(folder / "out")


def lay_down(files: Content, folder: Path) -> None:
    for name, held in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(held)


# --- a failure anywhere ----------------------------------------------------------------------------------


class Interrupted(Exception):
    """Stands for whatever may go wrong."""


STEPS: list[tuple[Any, str]] = [
    (pipeline, "find_sources"),
    (pipeline, "check_place"),
    (pipeline, "make_plan"),
    (pipeline, "_digest_all"),
    (LocalEngine, "gather"),
    (LocalEngine, "prioritise"),
    (LocalEngine, "group"),
    (LocalEngine, "find_near"),
    (LocalEngine, "decide"),
    (LocalEngine, "pairs"),
    (pipeline.manifest, "counts_of"),
    (pipeline.safety, "check"),
    (pipeline.ledger, "ledger_rows"),
    (pipeline.ledger, "pair_rows"),
    (StagedOutput, "write_table"),
    (StagedOutput, "write_text"),
    (StagedOutput, "files"),
    (StagedOutput, "publish"),
    (pipeline, "render_report"),
    (pipeline, "to_json"),
]


@pytest.mark.parametrize(("home", "name"), STEPS, ids=lambda step: step if isinstance(step, str) else "")
@pytest.mark.parametrize("kind", [Interrupted, KeyboardInterrupt])
def test_a_step_that_fails(
    crawl: Path,
    place: Path,
    earlier: Content,
    monkeypatch: pytest.MonkeyPatch,
    home: Any,
    name: str,
    kind: type[BaseException],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind

    lay_down(earlier, place / "out")
    monkeypatch.setattr(home, name, fail)
    with pytest.raises(kind):
        run(crawl, place / "out", overwrite=True)
    assert content(place / "out") == earlier
    with pytest.raises(kind):
        run(crawl, place / "new")
    assert os.listdir(place) == ["out"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_once_somewhere(
    crawl: Path, place: Path, earlier: Content, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    counting = FailingDisk(1 << 30)
    with monkeypatch.context() as patch:
        counting.install(patch)
        run(crawl, place / "counted")
    count = len(counting.names)
    assert count > 100
    lay_down(earlier, place / "out")
    # Each operation fails in tests/store; here the ones on the way through a run, at strides that meet every kind.
    for nth in [*range(1 + code % 2, count, 13), count - 2, count - 1]:
        disk = FailingDisk(nth, code)
        with monkeypatch.context() as patch:
            disk.install(patch)
            with pytest.raises(OutputError, match=os.strerror(code)):
                run(crawl, place / "out", overwrite=True)
        assert disk.failed
        assert content(place / "out") == earlier, (nth, disk.names[nth - 1])
        assert sorted(os.listdir(place)) == ["counted", "out"], (nth, disk.names[nth - 1])


# --- refusals --------------------------------------------------------------------------------------------


def broken_line(crawl: Path) -> None:
    (crawl / "c.jsonl").write_text("{\n" * 11)


def cut_archive(crawl: Path) -> None:
    (crawl / "c.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00\x00")


def nothing(crawl: Path) -> None:
    pass


REFUSALS: list[tuple[str, Callable[[Path], None], dict[str, Any], type[DedupError]]] = [
    ("bad records", broken_line, {"safety.max_bad_fraction": 0.5}, InputError),
    ("a cut source", cut_archive, {}, InputError),
    ("a missing column", nothing, {"input.text": "body"}, InputError),
    ("a missing policy column", nothing, {"keep.policy": ["newest:seen_at"]}, InputError),
    ("a policy that cannot order", nothing, {"keep.policy": ["newest:id"]}, InputError),
    ("a large cluster", nothing, {"safety.max_cluster": 2}, InputError),
]


@pytest.mark.parametrize(("words", "spoil", "settings", "kind"), REFUSALS, ids=[case[0] for case in REFUSALS])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_refused_changes_nothing(
    crawl: Path,
    place: Path,
    earlier: Content,
    words: str,
    spoil: Callable[[Path], None],
    settings: dict[str, Any],
    kind: type[DedupError],
    overwrite: bool,
) -> None:
    spoil(crawl)
    if overwrite:
        lay_down(earlier, place / "out")
    with pytest.raises(kind) as raised:
        run(crawl, place / "out", set=settings, overwrite=overwrite)
    assert raised.value.exit_code == 3
    assert content(place) == ({f"out/{name}": held for name, held in earlier.items()} if overwrite else {})
    assert os.listdir(place) == (["out"] if overwrite else [])


class TestOverlap:
    """An output that is, holds or lies in an input would be read by the next run, or destroy it."""

    @pytest.mark.parametrize("name", ["crawl", "crawl/out", "crawl/below/out", "crawl/a.jsonl", "."])
    @pytest.mark.parametrize("argument", ["crawl", "crawl/", "craw*", "./crawl/../crawl"])
    def test_a_folder(
        self, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, argument: str
    ) -> None:
        (crawl / "below").mkdir()
        monkeypatch.chdir(tmp_path)
        before = content(tmp_path)
        with pytest.raises(ConfigError, match="--output"):
            dedup_pipeline.run(load_config(inputs=[argument], output=name, overwrite=True))
        assert content(tmp_path) == before

    def test_a_folder_of_folders(self, crawl: Path, tmp_path: Path) -> None:
        (crawl / "deep" / "deeper").mkdir(parents=True)
        (crawl / "a.jsonl").rename(crawl / "deep" / "deeper" / "a.jsonl")
        (crawl / "b.jsonl").unlink()
        with pytest.raises(ConfigError, match="--output"):
            run(crawl, crawl / "out")

    def test_a_link_to_the_input(self, crawl: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(crawl)
        with pytest.raises(ConfigError, match="--output"):
            run(tmp_path / "link", crawl / "out")
        with pytest.raises(ConfigError, match="--output"):
            run(crawl, tmp_path / "link" / "out")

    def test_beside_a_file_is_fine(self, crawl: Path) -> None:
        assert run(crawl / "b.jsonl", crawl / "out").published
        assert sorted(os.listdir(crawl)) == ["a.jsonl", "b.jsonl", "out"]

    def test_last_nights_output_as_input(self, crawl: Path, place: Path) -> None:
        run(crawl, place / "out")
        with pytest.raises(ConfigError, match="--output"):
            run(place / "out" / "kept", place / "out", overwrite=True)
        again = run(place / "out" / "kept", place / "again")
        assert again.counts["kept"] == again.counts["read"] == 4


# --- what is published -----------------------------------------------------------------------------------


def test_overwriting_replaces_every_file(crawl: Path, place: Path, earlier: Content) -> None:
    lay_down(earlier, place / "out")
    (place / "out" / "kept" / "part-00001.parquet").write_bytes(b"of a larger run")
    run(crawl, place / "out", overwrite=True, report=False)
    found = content(place / "out")
    assert set(found) == {
        "manifest.json",
        *(f"{table}/part-00000.parquet" for table in ("kept", "ledger", "pairs", "quarantine")),
    }
    assert os.listdir(place) == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_dry_run_writes_nothing_and_tells_all(
    crawl: Path, place: Path, earlier: Content, overwrite: bool, run_pipeline: Runner
) -> None:
    if overwrite:
        lay_down(earlier, place / "out")
    told = run(crawl, place / "out", dry_run=True, overwrite=overwrite)
    assert not told.published
    assert content(place) == ({f"out/{name}": held for name, held in earlier.items()} if overwrite else {})
    assert os.listdir(place) == (["out"] if overwrite else [])
    real = run_pipeline([crawl])
    assert told.counts == real.manifest["counts"]
    assert told.manifest["run"] == real.manifest["run"]
    assert told.manifest["files"] == real.manifest["files"]


def test_an_input_is_only_read(crawl: Path, place: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in crawl.iterdir()}
    run(crawl, place / "out")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in crawl.iterdir()} == before


def test_equal_runs_write_equal_files(crawl: Path, place: Path) -> None:
    run(crawl, place / "first")
    run(crawl, place / "second", set={"input.batch_rows": 2}, memory_limit="512MB")
    first, second = content(place / "first"), content(place / "second")
    assert first.pop("manifest.json") != second.pop("manifest.json")  # the environment differs
    assert first == second
    assert len(first) == 5


def test_hidden_files_markers_and_links_are_not_read(crawl: Path, tmp_path: Path) -> None:
    (crawl / ".hidden.jsonl").write_text('{"text": "x"}\n')
    (crawl / "_SUCCESS").write_text("")
    (tmp_path / "secret.jsonl").write_text('{"text": "secret"}\n')
    (crawl / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (crawl / "loop").symlink_to(".")
    told = run(crawl, tmp_path / "out")
    assert [source["source"] for source in told.counts["sources"]] == ["crawl/a.jsonl", "crawl/b.jsonl"]


@pytest.mark.parametrize("name", [b"caf\xe9.jsonl", b"a\nb.jsonl", "日本.jsonl".encode()])
def test_any_name_of_an_input(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_text('{"text": "x"}\n')
    told = run(path, tmp_path / "out")
    (source,) = told.counts["sources"]
    assert source["source"] == name.decode("utf-8", "replace").replace("\ufffd", "%E9")
    assert told.ledger().column("source").to_pylist() == [source["source"]]
    assert told.manifest["environment"]["inputs"] == [str(path)]


@pytest.mark.parametrize("name", ["o'u\"t; --", "a b", "漢" * 80, "n" * 250, "%41*?[x]"])
def test_any_name_of_an_output(crawl: Path, place: Path, name: str) -> None:
    assert run(crawl, place / name).ledger().num_rows == 12
    assert os.listdir(place) == [name]


class Watching:
    """Notes what a run tells."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.totals: dict[str, int | None] = {}
        self.amounts: dict[str, int] = {}

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.stages.append(name)
        self.totals[name] = total

    def advance(self, amount: int) -> None:
        self.amounts[self.stages[-1]] = self.amounts.get(self.stages[-1], 0) + amount

    def say(self, message: str) -> None:
        pass


def test_progress_is_told_stage_by_stage(crawl: Path, place: Path) -> None:
    watching = Watching()
    told = dedup_pipeline.run(load_config(inputs=[crawl], output=place / "out"), watching)
    assert watching.stages == ["read", "group", "near", "decide", "write"]
    assert watching.amounts["read"] == watching.totals["read"] == sum(p.stat().st_size for p in crawl.iterdir())
    assert watching.amounts["near"] == told.manifest["lsh"]["candidate_pairs"]
    assert set(told.manifest["timings"]) == {*watching.stages, "total"}


def test_a_source_that_vanishes_during_the_run(crawl: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.check_place

    def check_place(*arguments: Any) -> None:
        real(*arguments)
        (crawl / "b.jsonl").unlink()

    monkeypatch.setattr(pipeline, "check_place", check_place)
    with pytest.raises(InputError, match=r"b\.jsonl"):
        run(crawl, place / "out")
    assert os.listdir(place) == []


# --- rules of a file -----------------------------------------------------------------------------------


def test_a_clearurls_file_decides_and_what_it_lost_is_said(tmp_path: Path) -> None:
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_text('{"url": "http://e.com/?click=1", "text": "a b c"}\n{"url": "http://e.com/", "text": "d e f"}\n')
    rules = Path(__file__).parent / "urls" / "clearurls.json"
    result = run(crawl, tmp_path / "out", set={"urls.clearurls": str(rules)})
    assert result.counts["dropped"]["urls"] == 1
    assert any("look, urlPattern: (?=x)" in text for text in result.manifest["warnings"])
    assert len(result.manifest["config"]["urls"]["clearurls"]) == 32
