"""Sorted runs on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_disk import FailingDisk

from dedup_pipeline.errors import OutputError
from dedup_pipeline.store.key_runs import SortedRuns
from dedup_pipeline.urls.key_table import sort_keys


def run(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return ascending random keys."""
    return sort_keys(np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64))


def found(runs: SortedRuns, keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the runs know of ``keys``."""
    mask = np.zeros(len(keys), np.bool_)
    runs.look_up(keys, mask)
    return mask


def test_what_was_appended_is_found_and_nothing_else(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path / "deep" / "er")
    for seed in range(10):
        runs.append(run(1000, seed))
    assert len(runs) == 10_000
    assert all(found(runs, run(1000, seed)).all() for seed in range(10))
    assert not found(runs, run(1000, 99)).any()


def test_runs_are_merged_so_that_there_are_few(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path)
    for seed in range(64):
        runs.append(run(100, seed))
        assert len(list(runs.arrays())) <= 7
        assert len(list(tmp_path.iterdir())) == len(list(runs.arrays()))
    for array in runs.arrays():
        assert (sort_keys(array) == array).all()
    whole = np.concatenate(list(runs.arrays()))
    assert (sort_keys(whole) == sort_keys(np.concatenate([run(100, seed) for seed in range(64)]))).all()


def test_a_merge_larger_than_one_piece_loses_nothing(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path)
    runs.append(run(100_000, 1))
    runs.append(run(90_000, 2))
    (array,) = runs.arrays()
    assert (array == sort_keys(np.concatenate([run(100_000, 1), run(90_000, 2)]))).all()


def test_nothing_makes_no_file(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path)
    runs.append(run(0, 1))
    assert list(tmp_path.iterdir()) == []
    assert len(runs) == 0


def test_two_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    one, other = SortedRuns(tmp_path), SortedRuns(tmp_path)
    one.append(run(10, 1))
    other.append(run(10, 2))
    assert found(one, run(10, 1)).all()
    assert not found(one, run(10, 2)).any()
    one.close()
    assert found(other, run(10, 2)).all()
    other.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_output_error_and_leaves_no_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = SortedRuns(tmp_path)
    runs.append(run(1000, 1))
    for nth in (1, 2, 3):  # opening and writing the run, then opening the merged one
        with monkeypatch.context() as patch:
            FailingDisk(nth).install(patch)
            with pytest.raises(OutputError, match="cannot be written"):
                runs.append(run(900, 2 + nth))
        assert found(runs, run(1000, 1)).all()
        assert len(list(tmp_path.iterdir())) == len(list(runs.arrays()))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        SortedRuns(tmp_path / "file" / "runs")
