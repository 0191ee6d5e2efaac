"""The yardstick: reads Parquet files and writes them again, nothing else.

Each thread reads one file whole and writes it whole; pyarrow's own thread pool is not used, so
``--threads`` is the number of cores that can be busy. Run as a process of its own by ``run.py``.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq


def copy(source: Path, target: Path, level: int | None) -> None:
    """Writes the rows of ``source`` to ``target`` with zstd; ``level`` None is pyarrow's default (1)."""
    pq.write_table(pq.read_table(source, use_threads=False), target, compression="zstd", compression_level=level)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--level", type=int, default=None)
    options = parser.parse_args()
    options.output.mkdir(parents=True)
    with ThreadPoolExecutor(options.threads) as pool:
        targets = [options.output / f"{i:03d}-{file.name}" for i, file in enumerate(options.files)]
        list(pool.map(copy, options.files, targets, [options.level] * len(targets)))


if __name__ == "__main__":
    main()
