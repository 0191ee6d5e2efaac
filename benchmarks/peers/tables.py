"""Reading and writing for the tools that are libraries of sketches and bring no reader of their own."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

NUM_PERM = 128
BANDS = 16
ROWS = 8
N = 3
THRESHOLD = 0.8

WORD = re.compile(r"\w+")


def arguments() -> argparse.Namespace:
    """``files`` (a list of paths), ``output`` (a folder that does not exist yet) and ``threads``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def shingles(text: str) -> list[str]:
    """The 3-grams of a text's lower-cased words; a shorter text is one shingle, an empty one has none."""
    words = WORD.findall(text.lower())
    if len(words) < N:
        return [" ".join(words)] if words else []
    return [f"{a} {b} {c}" for a, b, c in zip(words, words[1:], words[2:], strict=False)]


def read(files: list[Path]) -> list[pa.Table]:
    """Each file as a table."""
    return [pq.read_table(file) for file in files]


def shingled(corpus: list[pa.Table], rows: int = 10_000) -> Iterator[list[list[str]]]:
    """The shingles of the documents in order, up to ``rows`` documents at a time."""
    for table in corpus:
        for start in range(0, table.num_rows, rows):
            yield [shingles(text) for text in table.column("text").slice(start, rows).to_pylist()]


def write_kept(corpus: list[pa.Table], keep: list[bool], output: Path) -> None:
    """Writes the rows whose flag is true, a file for each table, and prints the counts."""
    output.mkdir(parents=True)
    start = 0
    for number, table in enumerate(corpus):
        mask = pa.array(keep[start : start + table.num_rows])
        pq.write_table(table.filter(mask), output / f"part-{number:03d}.parquet", compression="zstd")
        start += table.num_rows
    print(json.dumps({"read": start, "kept": sum(keep)}))
