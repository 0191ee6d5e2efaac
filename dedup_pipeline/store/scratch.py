"""Columns of a run on disk.

A run keeps one value per document for some twenty columns. They are written as they come and mapped
when they are needed, so they count as page cache, which the system takes back when it is short, and
not as memory of the process. Nothing here survives the run.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.errors import OutputError

_ALIGNMENT = 64


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals while writing ``path`` into an `OutputError` that names it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "Free space or raise the limit on that disk, or choose another --output."
        if error.errno in (errno.EMFILE, errno.ENFILE):
            remedy = "Raise the number of open files (ulimit -n) to 256 or more."
        raise OutputError(f"{path}: cannot be written: {reason}. {remedy}") from error


class Scratch:
    """A folder of files that vanish with the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: list[BinaryIO] = []
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            with suppress(OSError):  # what a failure left in a buffer goes nowhere anyway
                file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, path: Path, buffering: int) -> BinaryIO:
        """Return a new file to append to, closed with the scratch if not before."""
        with writing(path):
            file: BinaryIO = open(path, "xb", buffering=buffering)  # noqa: SIM115 - closed by __exit__
        self._files.append(file)
        return file

    def discard(self, name: str) -> None:
        """Remove a file that is not needed any more, so that its pages need not be written to the disk."""
        (self.folder / name).unlink(missing_ok=True)

    def column(self, name: str, dtype: npt.DTypeLike, width: int = 1) -> GrowingColumn:
        """Return a column to append to; ``width`` values a row."""
        return GrowingColumn(self, self.folder / name, np.dtype(dtype), width)

    def strings(self, name: str) -> GrowingStrings:
        """Return a column of strings to append to."""
        return GrowingStrings(self, self.folder / name)

    def batches(self, name: str) -> GrowingBatches:
        """Return a store of record batches to append to."""
        return GrowingBatches(self, self.folder / name)

    def array(self, name: str, dtype: npt.DTypeLike, shape: Sequence[int], fill: Any = None) -> npt.NDArray[Any]:
        """Return a mapped array of a fixed shape, all zero or all ``fill``.

        The space is claimed at once: on a full disk a mapped page that cannot be written would end the
        process with a signal instead of an error.
        """
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.zeros(shape, dtype=dtype)
        path = self.folder / name
        with writing(path), open(path, "xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        mapped: npt.NDArray[Any] = np.memmap(path, dtype=dtype, mode="r+", shape=tuple(shape)).view(np.ndarray)
        if fill is not None:
            mapped[...] = fill
        return mapped


class GrowingColumn:
    """Numbers appended to a file."""

    def __init__(self, scratch: Scratch, path: Path, dtype: np.dtype[Any], width: int) -> None:
        self._path = path
        self._dtype = dtype
        self._width = width
        self._file = scratch.open(path, 1 << 20)

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append values of this column's type, of shape (n,) or (n, width)."""
        with writing(self._path):
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)

    def finish(self) -> npt.NDArray[Any]:
        """Close the file and return it mapped, read-only, of shape (n,) or (n, width)."""
        with writing(self._path):
            self._file.close()
        if self._path.stat().st_size == 0:
            flat: npt.NDArray[Any] = np.zeros(0, dtype=self._dtype)
        else:
            flat = np.memmap(self._path, dtype=self._dtype, mode="r").view(np.ndarray)
        return flat if self._width == 1 else flat.reshape(-1, self._width)


class GrowingStrings:
    """Strings appended to a file: bytes, end offsets and validity."""

    def __init__(self, scratch: Scratch, path: Path) -> None:
        self._bytes = GrowingColumn(scratch, path.with_suffix(".bytes"), np.dtype(np.uint8), 1)
        self._ends = GrowingColumn(scratch, path.with_suffix(".ends"), np.dtype(np.int64), 1)
        self._valid = GrowingColumn(scratch, path.with_suffix(".valid"), np.dtype(np.bool_), 1)
        self._path = path.with_suffix(".bytes")
        self._end = 0
        self._ends.append(np.zeros(1, dtype=np.int64))

    def append(self, strings: pa.Array) -> None:
        """Append an Arrow array of type string or large_string."""
        wide = strings.cast(pa.large_binary()) if len(strings) else pa.array([], pa.large_binary())
        _, offsets_buffer, bytes_buffer = wide.buffers()
        if len(wide) == 0:
            return
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
        if bytes_buffer is not None:
            self._bytes.append(np.frombuffer(bytes_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]])
        self._ends.append(offsets[1:] - offsets[0] + self._end)
        self._end += int(offsets[-1] - offsets[0])
        self._valid.append(wide.is_valid().to_numpy(zero_copy_only=False))

    def finish(self) -> pa.Array:
        """Return all strings as one mapped ``large_string`` array."""
        content, ends, valid = self._bytes.finish(), self._ends.finish(), self._valid.finish()
        bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        return pa.Array.from_buffers(pa.large_string(), len(valid), [bits, pa.py_buffer(ends), pa.py_buffer(content)])


class GrowingBatches:
    """Record batches appended to one file, each readable on its own without a copy."""

    def __init__(self, scratch: Scratch, path: Path) -> None:
        self._path = path
        self._places: list[tuple[int, int, pa.Schema]] = []
        self._end = 0
        self._mapped: pa.Buffer | None = None
        self._file = scratch.open(path, 0)

    def append(self, batch: pa.RecordBatch) -> None:
        """Append one batch; its schema may differ from the others'."""
        message = batch.serialize()
        padding = -message.size % _ALIGNMENT
        with writing(self._path):
            _write_all(self._file.fileno(), memoryview(message))
            if padding:
                _write_all(self._file.fileno(), memoryview(bytes(padding)))
        self._places.append((self._end, message.size, batch.schema))
        self._end += message.size + padding

    def finish(self) -> None:
        """Close the file for writing."""
        with writing(self._path):
            self._file.close()
        self._mapped = pa.memory_map(str(self._path)).read_buffer() if self._end else None

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> pa.RecordBatch:
        start, size, schema = self._places[index]
        if self._mapped is None:
            raise IndexError(index)
        return pa.ipc.read_record_batch(self._mapped.slice(start, size), schema)


def _write_all(descriptor: int, content: memoryview) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
