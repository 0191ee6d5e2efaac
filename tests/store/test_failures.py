"""Every single operation on the disk fails once: afterwards the old output stands, or none, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from failing_disk import FailingDisk

from dedup_pipeline.errors import ConfigError, OutputError
from dedup_pipeline.store.output import StagedOutput, check_place
from dedup_pipeline.store.parts import Part

SCHEMA = pa.schema([("a", pa.int64()), ("text", pa.string())])


def rows(start: int, end: int) -> Iterator[pa.RecordBatch]:
    numbers = range(start, end)
    yield pa.record_batch({"a": list(numbers), "text": [f"{n} of many" for n in numbers]}, schema=SCHEMA)


def write(place: Path, mark: str, overwrite: bool = True) -> None:
    """Do all that a run does with its output."""
    with StagedOutput(place, overwrite) as staged, staged.scratch as scratch, ThreadPoolExecutor(1) as pool:
        numbers, words, held = scratch.column("n", np.int64), scratch.strings("w"), scratch.batches("b")
        numbers.append(np.arange(5))
        words.append(pa.array(["x", None]))
        held.append(pa.record_batch({"a": [1]}))
        numbers.finish(), words.finish(), held.finish()
        scratch.array("m", np.int64, (7,))
        parts = [Part(0, [(0, 50), (50, 100)]), Part(1, [(100, 120)])]
        for done in staged.write_table("kept", SCHEMA, parts, rows, "zstd", pool):
            done.result()
        staged.write_stream("pairs", SCHEMA, rows(0, 9), 4, "zstd")
        staged.write_text("manifest.json", f'{{"dedup_pipeline": "{mark}"}}')
        staged.publish()


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    disk = FailingDisk(1 << 30)
    with monkeypatch.context() as patch:
        disk.install(patch)
        write(tmp_path / "counted", "x")
        write(tmp_path / "counted", "y")
    return disk.names[len(disk.names) // 2 :]


def test_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(operations(tmp_path, monkeypatch))
    assert {"mkdir", "open", "write", "fsync", "rename", "posix_fallocate", "write manifest.json", "write n"} <= names


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("there", [False, True], ids=["new", "overwritten"])
def test_one_failure_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, there: bool
) -> None:
    out = tmp_path / "place" / "out"
    out.parent.mkdir()
    if there:
        write(out, "old")
    before, nth = content(out), 0
    while True:
        nth += 1
        disk = FailingDisk(nth, code)
        with monkeypatch.context() as patch:
            disk.install(patch)
            try:
                write(out, "new", overwrite=there)
            except OutputError as error:
                assert os.strerror(code) in str(error)  # noqa: PT017 - the last round raises nothing
            else:
                break
        assert disk.failed
        assert content(out) == before, (nth, disk.names[-1])
        assert os.listdir(out.parent) == (["out"] if there else []), (nth, disk.names[-1])
    assert not disk.failed
    assert nth > 40
    assert b"new" in content(out)["manifest.json"]


def test_a_disk_that_stays_broken_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(operations(tmp_path, monkeypatch))
    for nth in range(1, count + 1):
        out = tmp_path / f"{nth}" / "out"
        out.parent.mkdir()
        write(out, "old")
        before = content(out)
        disk = FailingDisk(nth, errno.EIO, lasting=True)
        with monkeypatch.context() as patch:
            disk.install(patch)
            with pytest.raises(OutputError) as raised:
                write(out, "new")
        if content(out) != before:  # between the two renames; then the message says where it stands
            (staged,) = out.parent.glob(".out.staged-*")
            assert content(staged / "replaced") == before
            assert str(staged) in str(raised.value)
            assert disk.names.count("rename") >= 2


@pytest.mark.parametrize("nth", [1, 2])
def test_an_interruption_between_the_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    out = tmp_path / "out"
    write(out, "old")
    before, real, calls = content(out), os.rename, 0

    def rename(*arguments: Path) -> None:
        nonlocal calls
        calls += 1
        real(*arguments)
        if calls == nth:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        write(out, "new")
    assert content(out) == before
    assert os.listdir(tmp_path) == ["out"]


def test_an_interruption_while_clearing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dedup_pipeline.store import output as module

    real, calls = module.shutil.rmtree, 0

    def rmtree(path: Path, *, ignore_errors: bool) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        real(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(module.shutil, "rmtree", rmtree)
    with pytest.raises(KeyboardInterrupt), StagedOutput(tmp_path / "out"):
        pass
    assert os.listdir(tmp_path) == []


class TestNames:
    """Names are judged before anything is read."""

    @pytest.mark.parametrize("name", ["n" * 256, "漢" * 86, "caf\udce9", "a\0b"], ids=["long", "wide", "bytes", "nul"])
    def test_no_file_can_have(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ConfigError, match="--output"):
            check_place(tmp_path / name, True, [])

    def test_a_loop_of_links(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(ConfigError, match="loop"):
            check_place(tmp_path / "loop", True, [])

    @pytest.mark.parametrize("name", ["n" * 255, "漢" * 85, "o'u\"t; --", ".hidden", "a\nb"])
    def test_every_name_that_a_file_can_have(self, tmp_path: Path, name: str) -> None:
        check_place(tmp_path / name, False, [])
        write(tmp_path / name, "new", overwrite=False)
        assert os.listdir(tmp_path) == [name]

    def test_a_link_to_an_output_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        write(tmp_path / "elsewhere" / "old", "old")
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "elsewhere" / "old")
        check_place(link, True, [])
        write(link, "new")
        assert link.is_symlink()
        assert b"new" in content(tmp_path / "elsewhere" / "old")["manifest.json"]
        assert os.listdir(tmp_path / "elsewhere") == ["old"]

    def test_what_a_link_inside_the_old_output_points_to_stays(self, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter").write_text("dear")
        write(tmp_path / "out", "old")
        (tmp_path / "out" / "link").symlink_to(tmp_path / "mine")
        write(tmp_path / "out", "new")
        assert (tmp_path / "mine" / "letter").read_text() == "dear"


@pytest.mark.parametrize(
    "manifest", ["", "{", "[]", '{"name": "a web page"}', '["dedup_pipeline"]', "[" * 100_000, "\xff"]
)
def test_a_folder_with_another_manifest_is_not_ours(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(OutputError, match="not overwritten"):
        check_place(tmp_path / "out", True, [])


def test_an_output_of_ours_may_be_replaced(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    check_place(tmp_path / "out", True, [])
    with pytest.raises(OutputError, match="--overwrite"):
        check_place(tmp_path / "out", False, [])
