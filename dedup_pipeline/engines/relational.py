"""The relational steps of a run, in DuckDB: first by key, priority order, distinct pairs.

DuckDB works within its own memory limit and spills to the scratch folder. It sees nothing but the
tables registered here: no file, no network, no extension, no Python variable, whatever a column or a
source is called; then its configuration is locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.compiled import Float64, Int64, UInt64
from dedup_pipeline.errors import BackendError
from dedup_pipeline.keep import order_clause

_ROWS_AT_ONCE = 100_000


class Relations:
    """One locked-down DuckDB connection."""

    def __init__(self, threads: int, memory: int, spill: Path) -> None:
        import duckdb

        self._errors = duckdb.Error
        spill.mkdir(mode=0o700)
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": threads,
                "memory_limit": f"{memory // 1000**2}MB",
                "temp_directory": str(spill),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "preserve_insertion_order": False,
            },
        )
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def first_of_key(self, high: UInt64, low: UInt64, present: npt.NDArray[np.bool_], ranks: Int64, out: Int64) -> None:
        """Write for each rank the least rank with the same key, -1 where there is no key.

        Args:
            high: uint64, upper halves of the keys by document number.
            low: uint64, their lower halves.
            present: bool, whether a document has a key.
            ranks: int64, each document's place in priority.
            out: int64 by rank, written.
        """
        out[ranks] = np.where(present, ranks, -1)
        tables = {"keys": {"rank": ranks, "high": high, "low": low, "present": present}}
        query = """
            SELECT k.rank AS rank, f.first AS first
            FROM keys k JOIN (
                SELECT high, low, min(rank) AS first FROM keys WHERE present GROUP BY high, low HAVING count(*) > 1
            ) f ON k.high = f.high AND k.low = f.low
            WHERE k.present
        """
        for batch in self._rows(query, tables):
            out[batch.column("rank").to_numpy()] = batch.column("first").to_numpy()

    def priority(self, keys: Float64, policy: tuple[str, ...], out: Int64) -> None:
        """Write document numbers in priority order; ``keys`` as `keep.priority_keys` gives them."""
        table: dict[str, npt.NDArray[Any]] = {f"k{index}": keys[:, index] for index in range(keys.shape[1])}
        table["number"] = np.arange(len(keys), dtype=np.int64)
        at = 0
        query = f"SELECT number FROM documents ORDER BY {order_clause(policy, 'number')}"  # noqa: S608 - own names
        for batch in self._rows(query, {"documents": table}):
            out[at : at + batch.num_rows] = batch.column("number").to_numpy()
            at += batch.num_rows

    def distinct_pairs(self, first: Int64, second: Int64, similarities: Float64) -> Iterator[pa.RecordBatch]:
        """Yield the distinct pairs as columns a, b, similarity, with a < b, in (a, b) order."""
        table = {"a": first, "b": second, "similarity": similarities}
        query = """
            SELECT least(a, b) AS a, greatest(a, b) AS b, any_value(similarity) AS similarity
            FROM pairs GROUP BY least(a, b), greatest(a, b) ORDER BY least(a, b), greatest(a, b)
        """
        yield from self._rows(query, {"pairs": table})

    def _rows(self, query: str, tables: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Iterator[pa.RecordBatch]:
        with self._named(), self._registered(tables):
            yield from self._connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE)

    @contextmanager
    def _registered(self, tables: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Iterator[None]:
        for name, columns in tables.items():
            table = pa.table({column: pa.array(np.ascontiguousarray(values)) for column, values in columns.items()})
            self._connection.register(name, table)
        try:
            yield
        finally:
            with suppress(self._errors):  # whoever gave up reading may have closed the connection before
                for name in tables:
                    self._connection.unregister(name)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            first_line = str(error).splitlines()[0]
            raise BackendError(
                f"DuckDB: {first_line}. Raise --memory-limit, or free space where the output is written."
            ) from error
