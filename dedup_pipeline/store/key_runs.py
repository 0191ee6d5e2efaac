"""Sorted runs of 128-bit keys in a folder: what does not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dedup_pipeline.compiled import Bool, UInt64
from dedup_pipeline.store.scratch import writing
from dedup_pipeline.urls.key_table import find_sorted, merge_sorted

_KEYS_AT_ONCE = 1 << 16


class SortedRuns:
    """Runs that are written once, mapped for look-ups, and merged so that each is at most half its elder.

    They live as long as this object: a durable set is saved with `save_seen`.

    Args:
        folder: where they are written; made if it is not there.

    Raises:
        OutputError: the folder cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._runs: list[tuple[Path, UInt64]] = []
        self._made = 0
        with writing(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def append(self, keys: UInt64) -> None:
        """Write ascending keys of shape (n, 2) that stand in no run yet.

        Raises:
            OutputError: the disk refused.
        """
        if not len(keys):
            return
        self._runs.append(self._write(iter([keys])))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][1]) > len(self._runs[-2][1]):
            merged = self._write(_merged(self._runs[-2][1], self._runs[-1][1]))
            for path, _ in (self._runs.pop(), self._runs.pop()):
                path.unlink(missing_ok=True)  # what is mapped stays readable until it is let go
            self._runs.append(merged)

    def _write(self, pieces: Iterator[UInt64]) -> tuple[Path, UInt64]:
        path = self._folder / f"{os.getpid()}-{id(self):x}-{self._made:06}.keys"
        self._made += 1
        with writing(path):
            try:
                with open(path, "xb") as file:
                    for piece in pieces:
                        file.write(np.ascontiguousarray(piece, dtype="<u8").data)
            except OSError:
                path.unlink(missing_ok=True)
                raise
        mapped: UInt64 = np.memmap(path, dtype=np.uint64, mode="r").view(np.ndarray).reshape(-1, 2)
        return path, mapped

    def look_up(self, keys: UInt64, found: Bool) -> None:
        """Set ``found`` where a key stands in a run."""
        for _, run in self._runs:
            find_sorted(run, keys, ~found, found)

    def __len__(self) -> int:
        return sum(len(run) for _, run in self._runs)

    def arrays(self) -> Iterator[UInt64]:
        """Yield the runs, each ascending."""
        for _, run in self._runs:
            yield run

    def close(self) -> None:
        """Remove the files."""
        while self._runs:
            self._runs.pop()[0].unlink(missing_ok=True)


def _merged(left: UInt64, right: UInt64) -> Iterator[UInt64]:
    places = np.zeros(2, dtype=np.int64)
    piece: UInt64 = np.empty((_KEYS_AT_ONCE, 2), dtype=np.uint64)
    while count := merge_sorted(left, right, places, piece):
        yield piece[:count]
