"""datatrove: its four MinHash steps with the local executor."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tables
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter

# The writer would take the types of the first batch, and a batch without a single URL has none for url.
WRITTEN = pa.schema([(name, pa.string()) for name in ("text", "id", "url", "source", "file_path")])


def main() -> None:
    """Signatures, buckets, clusters, filter; a task for each file, ``threads`` processes at a time."""
    options = tables.arguments()
    config = MinhashConfig(n_grams=tables.N, num_buckets=tables.BANDS, hashes_per_bucket=tables.ROWS)
    with tempfile.TemporaryDirectory(dir=options.output.parent) as scratch:
        work = Path(scratch)
        linked = work / "files"
        linked.mkdir()
        for number, file in enumerate(options.files):
            (linked / f"{number:03d}.parquet").symlink_to(file.resolve())

        def run(name: str, steps: Sequence[Any], tasks: int) -> None:
            logs = str(work / "logs" / name)
            LocalPipelineExecutor(list(steps), tasks=tasks, workers=min(tasks, options.threads), logging_dir=logs).run()

        def files() -> ParquetReader:
            return ParquetReader(str(linked), glob_pattern="*.parquet")

        signatures, buckets, removed = (str(work / folder) for folder in ("signatures", "buckets", "removed"))
        tasks = len(options.files)
        run("signatures", [files(), MinhashDedupSignature(signatures, config=config)], tasks)
        run("buckets", [MinhashDedupBuckets(signatures, buckets, config=config)], tables.BANDS)
        run("clusters", [MinhashDedupCluster(buckets, removed, config=config)], 1)
        kept = ParquetWriter(str(options.output), compression="zstd", expand_metadata=True, schema=WRITTEN)
        run("filter", [files(), MinhashDedupFilter(removed), kept], tasks)
    print(json.dumps({"read": rows(options.files), "kept": rows(list(options.output.rglob("*.parquet")))}))


def rows(files: list[Path]) -> int:
    """How many rows the files hold together."""
    return sum(pq.ParquetFile(file).metadata.num_rows for file in files)


if __name__ == "__main__":
    main()
