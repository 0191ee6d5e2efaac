"""The output folder: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from dedup_pipeline.errors import ConfigError, DedupError, OutputError
from dedup_pipeline.store import output as module
from dedup_pipeline.store.output import StagedOutput, check_place, to_json

SCHEMA = pa.schema([("a", pa.int64())])


def fill(staged: StagedOutput, text: str = "new") -> None:
    staged.write_text("manifest.json", text)
    staged.write_stream("pairs", SCHEMA, [pa.record_batch({"a": [1, 2, 3]})], 2, "zstd")


def test_published_whole(tmp_path: Path) -> None:
    with StagedOutput(tmp_path / "out") as staged:
        fill(staged)
        assert not (tmp_path / "out").exists()
        listed = staged.files()
        staged.publish()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {
        "kept",
        "ledger",
        "pairs",
        "quarantine",
        "manifest.json",
    }
    for entry in listed:
        content = (tmp_path / "out" / entry["name"]).read_bytes()
        assert (len(content), xxhash.xxh3_128_hexdigest(content)) == (entry["bytes"], entry["xxh3_128"])
    part = pq.ParquetFile(tmp_path / "out" / "pairs" / "part-00000.parquet")
    assert (part.read()["a"].to_pylist(), part.num_row_groups) == ([1, 2, 3], 2)


def test_not_published_leaves_nothing(tmp_path: Path) -> None:
    with StagedOutput(tmp_path / "out") as staged:
        fill(staged)
    assert not list(tmp_path.iterdir())


def test_the_staging_folder_is_private(tmp_path: Path) -> None:
    with StagedOutput(tmp_path / "out"):
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith(".out.staged-")
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("function", ["rename", "fsync"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_failure_while_publishing_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, nth: int
) -> None:
    with StagedOutput(tmp_path / "out", overwrite=True) as staged:
        fill(staged, "old")
        staged.publish()
    calls = 0
    real: Callable[..., object] = getattr(os, function)

    def failing(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(module.os, function, failing)
    failed = False
    with StagedOutput(tmp_path / "out", overwrite=True) as staged:
        fill(staged, "new")
        try:
            staged.publish()
        except DedupError:
            failed = True
    monkeypatch.undo()
    assert failed == (calls >= nth)
    assert (tmp_path / "out" / "manifest.json").read_text() == ("old" if failed else "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_overwriting_replaces_all_of_it(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with StagedOutput(tmp_path / "out", overwrite=True) as staged:
            fill(staged, text)
            staged.publish()
    assert (tmp_path / "out" / "manifest.json").read_text() == "new"


def test_what_came_to_stand_there_meanwhile_stays(tmp_path: Path) -> None:
    with StagedOutput(tmp_path / "out") as staged:
        fill(staged)
        (tmp_path / "out").mkdir()
        with pytest.raises(OutputError, match="come to exist"):
            staged.publish()
    assert not list((tmp_path / "out").iterdir())


class TestPlaces:
    def test_free(self, tmp_path: Path) -> None:
        check_place(tmp_path / "out", False, [tmp_path / "in"])

    @pytest.mark.parametrize("place", ["in", "in/below", "."])
    def test_in_an_input(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "in").mkdir()
        with pytest.raises(ConfigError, match="--output"):
            check_place(tmp_path / place, True, [tmp_path / "in"])

    def test_in_an_input_by_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "in")
        with pytest.raises(ConfigError, match="--output"):
            check_place(tmp_path / "link" / "out", True, [tmp_path / "in"])

    def test_beside_an_input_of_a_like_name(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        check_place(tmp_path / "in-out", False, [tmp_path / "in"])

    def test_without_a_parent(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="does not exist"):
            check_place(tmp_path / "no" / "out", False, [])

    def test_taken(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with pytest.raises(OutputError, match="--overwrite"):
            check_place(tmp_path / "out", False, [])
        check_place(tmp_path / "out", True, [])

    def test_taken_by_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("a letter")
        with pytest.raises(OutputError, match="not overwritten"):
            check_place(tmp_path / "out", True, [])

    def test_a_file_of_the_user_beside_ours_is_not_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "manifest.json").write_text('{"dedup_pipeline": "0.1.0"}')
        check_place(tmp_path / "out", True, [])
        (tmp_path / "out" / "notes.txt").write_text("mine")
        with pytest.raises(OutputError, match="something else"):
            check_place(tmp_path / "out", True, [])

    def test_a_dangling_link_is_something(self, tmp_path: Path) -> None:
        (tmp_path / "out").symlink_to(tmp_path / "nowhere")
        with pytest.raises(OutputError):
            check_place(tmp_path / "out", False, [])


def test_json_is_stable_and_has_no_nan() -> None:
    assert to_json({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": float("nan")})


def test_what_a_killed_run_left_is_named(tmp_path: Path) -> None:
    (tmp_path / ".out.staged-abc").mkdir()
    (tmp_path / ".other.staged-abc").mkdir()
    with StagedOutput(tmp_path / "out") as staged:
        assert staged.leftovers == [tmp_path / ".out.staged-abc"]
