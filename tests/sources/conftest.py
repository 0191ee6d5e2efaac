"""Writing small inputs and reading them back whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import SEEN, Bad, Kind
from dedup_pipeline.sources import Extraction, ReadOptions, Source, read_source


def plain(array: pa.Array) -> list[Any]:
    """Values of a column; of `SEEN` ones (kind, bytes), for their text need not be UTF-8."""
    if array.type == SEEN:
        kinds, texts = array.field(0).to_pylist(), array.field(1).cast(pa.binary()).to_pylist()
        return [(Kind(kind), text) for kind, text in zip(kinds, texts, strict=True)]
    if pa.types.is_string(array.type):
        return array.cast(pa.binary()).to_pylist()
    return array.to_pylist()


@dataclass
class Reading:
    """All that came out of a source."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    bad: list[Bad] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    repaired: int = 0
    broken: SourceBroken | None = None
    batches: int = 0

    @property
    def reasons(self) -> dict[int, str]:
        return {bad.position: bad.reason for bad in self.bad}

    @property
    def reason(self) -> str | None:
        return self.broken.reason if self.broken else None

    def essence(self) -> tuple[Any, ...]:
        """What must not depend on the borders of batches."""
        fault = (self.broken.position, self.broken.reason, self.broken.detail) if self.broken else None
        return list(self.rows.items()), self.columns, self.bad, self.skipped, self.repaired, fault


def read_whole(source: Source, options: ReadOptions, pool: Extraction | None = None) -> Reading:
    """Reads a source to its end, checking what every batch promises."""
    out = Reading()
    last = -1
    try:
        for batch in read_source(source, options, pool):
            out.batches += 1
            assert batch.source == source.name
            assert len(batch.positions) == batch.rows.num_rows
            assert batch.rows.num_rows + len(batch.bad) <= options.batch_rows
            batch.rows.validate()
            columns = {name: plain(batch.rows.column(name)) for name in batch.rows.schema.names}
            for at, position in enumerate(batch.positions.to_pylist()):
                assert position > last
                last = position
                values = {name: column[at] for name, column in columns.items()}
                out.rows[position] = {k: v for k, v in values.items() if v != (Kind.MISSING, None)}
            out.columns += [name for name in columns if name not in out.columns]
            out.types.update({name: batch.rows.schema.field(name).type for name in columns})
            out.bad += batch.bad
            out.skipped.update(batch.skipped)
            out.repaired += batch.repaired
    except SourceBroken as broken:
        out.broken = broken
    assert out.broken is None or out.broken.source == source.name
    assert not set(out.rows) & set(out.reasons)
    return out


@pytest.fixture(scope="session")
def pool() -> Iterator[Extraction]:
    with Extraction(1) as extraction:
        yield extraction


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes, str], Source]:
    def call(content: bytes, name: str) -> Source:
        path = tmp_path / name
        path.write_bytes(content)
        return Source(name, str(path), len(content))

    return call


Read = Callable[..., Reading]


@pytest.fixture
def read(write: Callable[[bytes, str], Source], pool: Extraction) -> Read:
    """``read(content, name="in", **options)``."""

    def call(content: bytes, name: str = "in", **options: Any) -> Reading:
        return read_whole(write(content, name), ReadOptions(**options), pool)

    return call
