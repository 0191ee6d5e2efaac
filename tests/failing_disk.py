"""A disk that refuses the nth operation: what the store's modules call is counted, and one call or all later ones fail.

Counted are writes through files that the store opens, ``os.write``, and the calls of ``os`` that change a disk.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from dedup_pipeline.store import key_runs, output, parts, scratch, seen_files

CALLS = ("mkdir", "rename", "replace", "fsync", "posix_fallocate", "write")


class FailingDisk:
    """Counts operations; the ``nth`` (from 1) raises an `OSError`, and with ``lasting`` all after it do."""

    def __init__(self, nth: int, code: int = errno.ENOSPC, *, lasting: bool = False) -> None:
        self.nth, self.code, self.lasting = nth, code, lasting
        self.names: list[str] = []
        self._lock = threading.Lock()

    @property
    def failed(self) -> bool:
        return len(self.names) >= self.nth

    def count(self, name: str) -> None:
        with self._lock:
            self.names.append(name)
            at = len(self.names)
        if at == self.nth or (self.lasting and at > self.nth):
            raise OSError(self.code, os.strerror(self.code))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            patch.setattr(os, name, self._counted(name, getattr(os, name)))
        for module in (output, parts, scratch, seen_files, key_runs):
            patch.setattr(module, "open", self._open, raising=False)

    def _counted(self, name: str, real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.count(name)
            return real(*arguments, **named)

        return call

    def _open(self, path: Path, mode: str, buffering: int = -1, **text: Any) -> Any:
        if "x" not in mode and "w" not in mode:
            return builtins.open(path, mode, buffering, **text)
        self.count("open")
        raw = _CountedFile(path, mode[0], self)
        if buffering == 0:
            return raw
        buffered = io.BufferedWriter(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **text)


class _CountedFile(io.FileIO):
    def __init__(self, path: Path, mode: str, disk: FailingDisk) -> None:
        super().__init__(path, mode)
        self._disk = disk

    def write(self, content: Any) -> int:
        self._disk.count(f"write {Path(os.fsdecode(self.name)).name}")
        return super().write(content)
