"""text-dedup: its ``minhash`` command on Parquet files."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import tables


def main() -> None:
    """Runs the command in this process, then prints the counts."""
    options = tables.arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when datasets is imported
    with tempfile.TemporaryDirectory(dir=options.output.parent) as scratch:
        os.environ["HF_HOME"] = os.environ["HF_DATASETS_CACHE"] = scratch
        linked = Path(scratch) / "files"  # the command takes one pattern, not a list
        linked.mkdir()
        for number, file in enumerate(options.files):
            (linked / f"{number:03d}.parquet").symlink_to(file.resolve())
        deduplicate(f"{linked}/*.parquet", options.output, Path(scratch) / "cache", options.threads)
    from datasets import load_from_disk

    read = sum(pq.ParquetFile(file).metadata.num_rows for file in options.files)
    print(json.dumps({"read": read, "kept": len(load_from_disk(str(options.output)))}))


def deduplicate(pattern: str, output: Path, cache: Path, processes: int) -> None:
    """One run of ``python -m text_dedup.minhash``."""
    from text_dedup.minhash import main as minhash

    command = {
        "--path": "parquet",
        "--data_files": pattern,
        "--split": "train",
        "--cache_dir": str(cache),
        "--output": str(output),
        "--column": "text",
        "--num_proc": processes,
        "--ngram": tables.N,
        "--min_length": 1,
        "--num_perm": tables.NUM_PERM,
        "--threshold": tables.THRESHOLD,
        "--b": tables.BANDS,
        "--r": tables.ROWS,
        "--hash_func": "xxh3",
    }
    minhash([str(word) for option in command.items() for word in option], standalone_mode=False)


if __name__ == "__main__":
    main()
