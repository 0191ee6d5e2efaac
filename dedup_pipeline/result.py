"""What `run` returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_pipeline.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run.

    Attributes:
        output: the output folder.
        manifest: what stands in ``manifest.json``.
        published: false for a dry run, which leaves no folder.
    """

    output: Path
    manifest: dict[str, Any]
    published: bool = True

    @property
    def counts(self) -> dict[str, Any]:
        """The counts of the manifest."""
        counts: dict[str, Any] = self.manifest["counts"]
        return counts

    def table(self, name: str) -> pa.Table:
        """Return ``kept``, ``ledger``, ``pairs`` or ``quarantine`` as an Arrow table.

        Raises:
            OutputError: there is no such folder, or it cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = self.output / name
        parts = sorted(folder.glob("part-*.parquet"))
        if not parts:
            raise OutputError(f"{folder}: holds no parts. Was this a dry run, or the folder moved?")
        try:
            return pa.concat_tables(pq.read_table(part, page_checksum_verification=True) for part in parts)
        except (OSError, pa.ArrowException) as error:
            raise OutputError(f"{folder}: cannot be read: {error}. Write it again with --overwrite.") from error

    def ledger(self) -> pa.Table:
        """Return the ledger as an Arrow table."""
        return self.table("ledger")

    def to_pandas(self, name: str = "ledger") -> pd.DataFrame:
        """Return one of the tables as a pandas frame."""
        frame: pd.DataFrame = self.table(name).to_pandas()
        return frame
