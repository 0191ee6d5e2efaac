from __future__ import annotations

import os
from pathlib import Path

import pytest
import xxhash

from dedup_pipeline.errors import ConfigError, InputError
from dedup_pipeline.sources import Source, digest_source, find_sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "dump"
    for name in ("b.jsonl", "a.jsonl", "deep/er/c.csv", ".hidden.jsonl", "_SUCCESS", ".git/x", "_tmp/y", "é.jl"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def names(inputs: list[str]) -> list[str]:
    return [source.name for source in find_sources(inputs)]


def test_folder_is_searched_to_the_bottom_and_sorted_by_bytes(tree: Path) -> None:
    assert names([str(tree)]) == ["dump/a.jsonl", "dump/b.jsonl", "dump/deep/er/c.csv", "dump/é.jl"]
    assert names([str(tree) + "/"]) == names([str(tree)])


def test_paths_are_absolute_and_sizes_true(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    for source in find_sources(["dump"]):
        assert os.path.isabs(source.path)
        assert Path(source.path).stat().st_size == source.size
    monkeypatch.chdir(tree)
    assert names(["."])[0] == "dump/a.jsonl"


def test_a_named_file_is_read_whatever_it_begins_with(tree: Path) -> None:
    assert names([str(tree / ".hidden.jsonl"), str(tree / "a.jsonl")]) == [".hidden.jsonl", "a.jsonl"]


def test_glob_counts_as_its_matches(tree: Path) -> None:
    assert names([str(tree / "*.jsonl")]) == ["a.jsonl", "b.jsonl"]
    assert names([str(tree / "d*")]) == ["deep/er/c.csv"]
    assert names([str(tree / "**" / "*.csv")]) == ["c.csv"]


def test_an_existing_name_with_brackets_is_no_glob(tmp_path: Path) -> None:
    (tmp_path / "x[1].jsonl").write_text("{}")
    assert names([str(tmp_path / "x[1].jsonl")]) == ["x[1].jsonl"]


def test_symlinks_inside_are_not_followed_but_a_named_one_is(tree: Path, tmp_path: Path) -> None:
    (tree / "loop").symlink_to(tree)
    (tree / "link.jsonl").symlink_to(tree / "a.jsonl")
    (tree / "dangling").symlink_to(tmp_path / "nowhere")
    assert "dump/link.jsonl" not in names([str(tree)])
    assert len(names([str(tree)])) == 4
    assert names([str(tree / "link.jsonl")]) == ["link.jsonl"]


def test_one_name_twice_is_refused_with_both_paths(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.jsonl").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        find_sources([str(tree / "a.jsonl"), str(other / "a.jsonl")])
    assert str(tree / "a.jsonl") in str(caught.value)
    assert str(other / "a.jsonl") in str(caught.value)
    with pytest.raises(ConfigError):
        find_sources([str(tree), str(tree)])


@pytest.mark.parametrize("argument", ["", "no\0name", "/nowhere/at/all", "/nowhere/*.x", "\udcff\udcfe"])
def test_missing_input(argument: str) -> None:
    with pytest.raises(InputError) as caught:
        find_sources([argument])
    str(caught.value).encode()


def test_empty_folder_and_no_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file found"):
        find_sources([str(tmp_path)])
    with pytest.raises(InputError, match="no input"):
        find_sources([])


def test_unreadable_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=r"deep.*Permission denied"):
        find_sources([str(tree)])


def test_fifo_is_refused_when_named_and_passed_over_in_a_folder(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    assert len(names([str(tree)])) == 4
    with pytest.raises(InputError, match="neither"):
        find_sources([str(tree / "pipe")])


def test_undecodable_names(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/d\xe9p"
    os.mkdir(folder)
    with open(folder + b"/caf\xe9.jsonl", "wb") as file:
        file.write(b"{}\n")
    (source,) = find_sources([os.fsdecode(folder)])
    assert source.name == "d%E9p/caf%E9.jsonl"
    assert digest_source(source) == xxhash.xxh3_128(b"{}\n").hexdigest()


def test_digest(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "f").write_bytes(content)
    (source,) = find_sources([str(tmp_path / "f")])
    assert digest_source(source) == xxhash.xxh3_128(content).hexdigest()
    with pytest.raises(InputError):
        digest_source(Source("gone", str(tmp_path / "gone"), 1))
