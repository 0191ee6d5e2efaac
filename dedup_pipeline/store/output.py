"""The output folder: staged beside its place, made durable, renamed into it.

Until the rename nothing stands at the output's name, or what stood there before stands unchanged.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any

import pyarrow as pa
import xxhash

from dedup_pipeline.errors import ConfigError, OutputError
from dedup_pipeline.store.parts import Part, RowSource, open_writer, write_parts
from dedup_pipeline.store.scratch import Scratch, writing

_TABLES = ("kept", "ledger", "pairs", "quarantine")
_CHUNK = 1 << 20


def check_place(output: Path, overwrite: bool, inputs: Iterable[Path]) -> None:
    """Make sure that the output can be written before anything is read.

    Raises:
        ConfigError: the output is, holds or lies in an input.
        OutputError: it exists and ``overwrite`` is not set, is no output folder of ours, or its parent
            cannot be written.
    """
    place = _settled(output)
    for path in inputs:
        source = path.resolve()
        if place == source or place in source.parents or source in place.parents:
            raise ConfigError(
                f"--output {output} and the input {path} lie in one another; choose an --output elsewhere."
            )
    if not os.path.isdir(place.parent):
        raise OutputError(f"--output {output}: the folder {place.parent} does not exist. Make it, or choose another.")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise OutputError(f"--output {output}: no permission to write in {place.parent}. Choose another folder.")
    if not os.path.lexists(output):
        return
    if not overwrite:
        raise OutputError(f"--output {output} exists. Choose another folder, or replace it with --overwrite.")
    if not _is_ours(place):
        raise OutputError(
            f"--output {output} exists and holds something else than an output of dedup-pipeline, so it is not "
            "overwritten. Move that away, or choose another folder."
        )


def _settled(output: Path) -> Path:
    """Return the output's place without links.

    Raises:
        ConfigError: no file can have that name, or DuckDB could not spill beside it.
    """
    try:
        place = output.resolve()
        str(place).encode()
        os.lstat(place)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return place
    except UnicodeEncodeError:
        reason = "its name is no UTF-8"
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, a loop of links, a NUL
        reason = getattr(error, "strerror", None) or str(error)
    else:
        return place
    raise ConfigError(f"--output {output}: {reason}. Choose another folder.")


def _is_ours(place: Path) -> bool:
    """Return whether a folder is empty or holds an output of this package and nothing else.

    Other programs write manifests too, and a user may have put a file of their own beside ours.
    """
    try:
        names = set(os.listdir(place))
        if not names:
            return True
        if names - {*_TABLES, "manifest.json", "report.html"}:
            return False
        manifest = json.loads((place / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and "dedup_pipeline" in manifest


class StagedOutput:
    """An output folder in the making: a private folder beside its place, gone on every failure.

    Args:
        output: its place.
        overwrite: whether `publish` may replace what stands there.
    """

    def __init__(self, output: Path, overwrite: bool = False) -> None:
        self.output = output
        self._overwrite = overwrite
        self._place = _settled(output)
        shortened = _shortened(self._place.name)
        with writing(self._place.parent):
            self._folder = Path(mkdtemp(prefix=f".{shortened}.staged-", dir=self._place.parent))
        self._result = self._folder / "out"
        self._aside = self._folder / "replaced"
        self._stuck = False
        try:
            with writing(self._result):
                for table in _TABLES:
                    (self._result / table).mkdir(parents=True)
            self.scratch = Scratch(self._folder / "scratch")
        except BaseException:
            self._vanish()
            raise

    @property
    def leftovers(self) -> list[Path]:
        """Folders beside the output that a killed run left; a run that goes on now has one too."""
        ours = f".{_shortened(self._place.name)}.staged-"
        found = (entry for entry in self._place.parent.iterdir() if entry.name.startswith(ours))
        return sorted(entry for entry in found if entry != self._folder)

    def __enter__(self) -> StagedOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._vanish()
        except KeyboardInterrupt:
            self._vanish()
            raise

    def _vanish(self) -> None:
        if not self._stuck:
            shutil.rmtree(self._folder, ignore_errors=True)

    def write_table(
        self, table: str, schema: pa.Schema, parts: list[Part], rows: RowSource, compression: str, pool: Executor
    ) -> list[Future[None]]:
        """Begin to write one of the output's tables in parts; it is written when all of these are done."""
        return write_parts(self._result / table, schema, parts, rows, compression, pool)

    def write_stream(
        self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], rows: int, compression: str
    ) -> int:
        """Write batches of any size as one table, a row group per ``rows`` rows; return how many rows."""
        path = self._result / table / "part-00000.parquet"
        total = 0
        with writing(path), open(path, "xb") as file, open_writer(file, schema, compression) as writer:
            for batch in _regrouped(batches, schema, rows):
                total += batch.num_rows
                writer.write_table(batch, row_group_size=rows)
        return total

    def write_text(self, name: str, text: str) -> None:
        """Write a small file, UTF-8."""
        path = self._result / name
        # A file name that is no UTF-8 arrives as lone surrogates; their escapes are what JSON would write.
        with writing(path), open(path, "x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)

    def files(self) -> list[dict[str, Any]]:
        """Return name, bytes and XXH3 digest of every file written so far, in order of name."""
        found = sorted(path for path in self._result.rglob("*") if path.is_file())
        return [
            {"name": path.relative_to(self._result).as_posix(), "bytes": path.stat().st_size, "xxh3_128": _digest(path)}
            for path in found
        ]

    def publish(self) -> None:
        """Make everything durable and rename it into place.

        Raises:
            OutputError: the disk refused, or something came to stand there meanwhile and ``overwrite`` is not
                set; what stood at the output's place stands there still.
        """
        with writing(self._result):
            for path in sorted(self._result.rglob("*"), reverse=True):
                _sync(path)
            _sync(self._result)
        if os.path.lexists(self._place) and not self._overwrite:
            raise OutputError(f"--output {self.output} has come to exist during the run. Choose another folder.")
        with writing(self.output):
            try:
                if os.path.lexists(self._place):
                    os.rename(self._place, self._aside)
                os.rename(self._result, self._place)
                _sync(self._place.parent)
            except BaseException:  # an interruption between the two must not lose the old one
                self._put_back()
                raise

    def _put_back(self) -> None:
        try:
            if not self._result.exists():
                os.rename(self._place, self._result)
            if self._aside.exists():
                os.rename(self._aside, self._place)
        except OSError as error:
            self._stuck = True
            raise OutputError(
                f"{self.output}: the disk failed while it was replaced: {error.strerror}. What does not stand there "
                f"is in {self._folder}: move it by hand."
            ) from error


def _shortened(name: str) -> str:
    return name.encode()[:100].decode(errors="ignore")


def to_json(value: Mapping[str, Any]) -> str:
    """Return a mapping as indented JSON with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _regrouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterable[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            taken = batch.slice(at, rows - count)
            held.append(taken)
            count += taken.num_rows
            at += taken.num_rows
            if count == rows:
                yield pa.Table.from_batches(held, schema).combine_chunks()
                held, count = [], 0
    if held:
        yield pa.Table.from_batches(held, schema).combine_chunks()


def _digest(path: Path) -> str:
    state = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return str(state.hexdigest())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
