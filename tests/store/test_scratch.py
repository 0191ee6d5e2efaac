"""Columns on disk: what is appended comes back, and a full disk is an error that names the file."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.errors import OutputError
from dedup_pipeline.store.scratch import Scratch


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Python ignores SIGXFSZ, so a write beyond the limit fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path / "scratch") as made:
        yield made


def test_the_folder_is_private_and_vanishes(tmp_path: Path) -> None:
    with Scratch(tmp_path / "scratch") as made:
        assert made.folder.stat().st_mode & 0o777 == 0o700
        made.array("values", np.int64, (3,))
    assert not (tmp_path / "scratch").exists()


def test_it_vanishes_after_a_failure_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Scratch(tmp_path / "scratch") as made:
        made.column("open", np.int64).append(np.arange(3))
        raise RuntimeError
    assert not (tmp_path / "scratch").exists()


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    with pytest.raises(OutputError, match="scratch"):
        Scratch(tmp_path / "scratch")


def test_what_is_discarded_frees_the_disk_and_may_be_so_twice(scratch: Scratch) -> None:
    column = scratch.column("numbers", np.int64)
    column.append(np.arange(1000))
    mapped = column.finish()
    scratch.discard("numbers")
    scratch.discard("numbers")
    assert list(scratch.folder.iterdir()) == []
    assert mapped.sum() == 499_500  # who still holds it reads on


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float64])
def test_numbers_come_back(scratch: Scratch, width: int, dtype: type) -> None:
    column = scratch.column("numbers", dtype, width)
    chunks = [np.arange(count * width).reshape(count, width).astype(dtype) for count in (2, 0, 5)]
    for chunk in chunks:
        column.append(chunk if width > 1 else chunk[:, 0])
    whole = column.finish()
    wanted = np.concatenate(chunks)
    assert whole.dtype == dtype
    assert np.array_equal(whole, wanted if width > 1 else wanted[:, 0])


def test_a_column_never_appended_to_is_empty(scratch: Scratch) -> None:
    assert scratch.column("none", np.int64).finish().shape == (0,)
    assert scratch.column("wide", np.int64, 4).finish().shape == (0, 4)
    assert scratch.strings("strings").finish().to_pylist() == []


def test_strided_values_are_written_in_their_order(scratch: Scratch) -> None:
    column = scratch.column("numbers", np.int64)
    column.append(np.arange(10)[::3])
    assert column.finish().tolist() == [0, 3, 6, 9]


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=9), max_size=5), st.booleans())
def test_strings_come_back(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[str | None]], large: bool
) -> None:
    with Scratch(tmp_path_factory.mktemp("s") / "scratch") as made:
        column = made.strings("strings")
        for chunk in chunks:
            array = pa.array(["sliced off", *chunk], pa.large_string() if large else pa.string())
            column.append(array.slice(1))
        whole = column.finish()
        whole.validate(full=True)
        assert whole.type == pa.large_string()
        assert whole.to_pylist() == [value for chunk in chunks for value in chunk]


def test_batches_of_any_schema_come_back_without_a_copy(scratch: Scratch) -> None:
    batches = [
        pa.record_batch({"a": pa.array([1, 2, 3])}),
        pa.record_batch({"b": pa.array(["x", None]), "c": pa.array([[1], []])}),
        pa.record_batch({"a": pa.array([1, 2, 3, 4, 5])}).slice(1, 2),
        pa.RecordBatch.from_arrays([], schema=pa.schema([])),
    ]
    held = scratch.batches("rows")
    for batch in batches:
        held.append(batch)
    held.finish()
    assert len(held) == len(batches)
    before = pa.total_allocated_bytes()
    for index, batch in enumerate(batches):
        assert held[index].equals(batch)
    assert pa.total_allocated_bytes() - before < 1024


def test_arrays_are_zero_or_filled(scratch: Scratch) -> None:
    assert scratch.array("zero", np.int64, (4,)).tolist() == [0, 0, 0, 0]
    assert scratch.array("ones", np.int32, (2, 2), fill=-1).tolist() == [[-1, -1], [-1, -1]]
    assert scratch.array("empty", np.int64, (0, 3)).shape == (0, 3)


def test_a_name_is_used_once(scratch: Scratch) -> None:
    scratch.array("values", np.int64, (4,))
    with pytest.raises(OutputError, match="values"):
        scratch.array("values", np.int64, (4,))


def test_a_full_disk_is_an_error_that_names_the_file(scratch: Scratch) -> None:
    column, strings, rows = scratch.column("numbers", np.int64), scratch.strings("words"), scratch.batches("rows")
    with files_of_at_most(1 << 16):
        with pytest.raises(OutputError, match=r"numbers: cannot be written: .*--output"):
            for _ in range(4):
                column.append(np.zeros(1 << 18, dtype=np.int64))
        with pytest.raises(OutputError, match="words"):
            for _ in range(4):
                strings.append(pa.array(["x" * (1 << 20)]))
        with pytest.raises(OutputError, match="rows"):
            rows.append(pa.record_batch({"a": pa.array(["x" * (1 << 20)])}))
        with pytest.raises(OutputError, match="mapped"):
            scratch.array("mapped", np.int64, (1 << 18,))
