"""Makes a corpus N times as large as the one given, alike in every way that matters to deduplication.

Each copy is the whole corpus under a renaming of words that belongs to that copy: the ASCII letters and
the digits are permuted, upper and lower case alike. The renaming is one-to-one and turns letters into
letters and digits into digits, so within a copy

- two words are equal exactly when the original words were, in lower case too: every Jaccard similarity
  of word or character shingles, hence every cluster, is that of the original;
- every text has the length it had, and repeats within it stand where they stood.

Between copies the same passage is spelled differently. Ids end in ``~K``, hosts of URLs begin with
``copyK.``: no id, URL or host is shared. Copy 0 is the original. Characters outside ASCII are kept, so
a text without any ASCII letter or digit would be the same in each copy; ``--check`` counts such texts.

    python -m benchmarks.corpus part-*.parquet --copies 10 --output FOLDER --check
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LEVEL = 3


def renaming(copy: int, seed: int) -> bytes:
    """The byte table of a copy: 256 bytes, a permutation that moves ASCII letters and digits only.

    Copy 0 is the identity. Letters map to letters in the same case, digits to digits.

    >>> b"Abba 7".translate(renaming(0, seed=1))
    b'Abba 7'
    """
    table = bytearray(range(256))
    if copy:
        order = random.Random(f"{seed}/{copy}")
        for alphabet in (string.ascii_lowercase, string.digits):
            shuffled = "".join(order.sample(alphabet, len(alphabet)))
            for old, new in zip(alphabet + alphabet.upper(), shuffled + shuffled.upper(), strict=True):
                table[ord(old)] = ord(new)
    return bytes(table)


def rename_words(texts: pa.StringArray, table: bytes) -> pa.StringArray:
    """The texts with every byte replaced by ``table``: lengths, offsets and nulls stay.

    Args:
        texts: string array without offset or sliced.
        table: 256 bytes that leave all bytes outside ASCII alone, so that UTF-8 stays valid.
    """
    validity, offsets, content = texts.buffers()
    renamed = pa.py_buffer((content.to_pybytes() if content is not None else b"").translate(table))
    return pa.StringArray.from_buffers(
        len(texts), offsets, renamed, validity, null_count=texts.null_count, offset=texts.offset
    )


def copied(table: pa.Table, copy: int, seed: int) -> pa.Table:
    """One copy of a table with the columns ``id``, ``url`` and ``text`` (any may be absent)."""
    if copy == 0:
        return table
    renames = renaming(copy, seed)
    for at, field in enumerate(table.schema):
        column = table.column(at)
        if field.name == "id":
            column = pc.binary_join_element_wise(column, f"~{copy}", "")
        elif field.name == "url":
            column = pc.replace_substring(column, "://", f"://copy{copy}.", max_replacements=1)
        elif field.name == "text":
            column = pa.chunked_array([rename_words(chunk, renames) for chunk in column.chunks], pa.string())
        table = table.set_column(at, field, column)
    return table


def write_copy(source: Path, target: Path, copy: int, *, seed: int, level: int = LEVEL) -> None:
    """Writes one copy of one Parquet file, row group by row group, with the borders of the original.

    Only one row group is in memory at a time. Columns that the original dictionary-encodes are
    dictionary-encoded here, the rest is not; zstd at ``level`` (a Parquet file does not tell its own).
    """
    original = pq.ParquetFile(source)
    with pq.ParquetWriter(
        target,
        original.schema_arrow,
        compression="zstd",
        compression_level=level,
        use_dictionary=_dictionary_columns(original),
    ) as writer:
        for group in range(original.num_row_groups):
            rows = copied(original.read_row_group(group), copy, seed)
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))


def enlarge(sources: Sequence[Path], folder: Path, copies: int, *, seed: int = 1, level: int = LEVEL) -> list[Path]:
    """Writes ``copies`` copies of every source into ``folder`` and returns the files in order.

    Files already there are kept when ``made-from.json`` beside them says that the same call made them;
    each gets its name when it is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made_from = json.dumps({"seed": seed, "level": level, "sources": [[s.name, s.stat().st_size] for s in sources]})
    note = folder / "made-from.json"
    if not note.exists() or note.read_text() != made_from:
        for stale in folder.glob("copy-*.parquet"):
            stale.unlink()
        note.write_text(made_from)
    targets: list[Path] = []
    for copy in range(copies):
        for source in sources:
            target = folder / f"copy-{copy:03d}-{source.name}"
            if not target.exists():
                staged = target.with_suffix(".staged")
                write_copy(source, staged, copy, seed=seed, level=level)
                staged.replace(target)
            targets.append(target)
    return targets


def repeated_across_copies(files: Sequence[Path], copies: int) -> int:
    """How many distinct texts stand in more than one copy (the empty text is not counted).

    ``files`` is what `enlarge` returned. Texts are told apart by 64-bit digests.
    """
    per_copy = len(files) // copies
    digests: list[np.typing.NDArray[np.uint64]] = []
    for copy in range(copies):
        seen = pa.chunked_array([], pa.string())
        for file in files[copy * per_copy : (copy + 1) * per_copy]:
            column = pq.read_table(file, columns=["text"]).column("text")
            seen = pa.chunked_array(seen.chunks + column.chunks, pa.string())
        digests.append(_digests(pc.unique(seen)))
    everything = np.concatenate(digests)
    return len(everything) - len(np.unique(everything))


def _digests(texts: pa.Array) -> np.typing.NDArray[np.uint64]:
    packed = b"".join(hashlib.blake2b(t.encode(), digest_size=8).digest() for t in texts.to_pylist() if t)
    return np.frombuffer(packed, dtype=np.uint64)


def _dictionary_columns(file: pq.ParquetFile) -> list[str]:
    if file.num_row_groups == 0:
        return []
    group = file.metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return [c.path_in_schema for c in columns if "RLE_DICTIONARY" in c.encodings]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this generator."""
    parser = argparse.ArgumentParser(description="Make a corpus N times as large, all texts distinct between copies.")
    parser.add_argument("inputs", nargs="+", type=Path, help="Parquet files with the columns id, url, text")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", type=int, default=LEVEL, help="zstd level (default %(default)s)")
    parser.add_argument("--check", action="store_true", help="count texts that stand in more than one copy")
    options = parser.parse_args(arguments)
    files = enlarge(options.inputs, options.output, options.copies, seed=options.seed, level=options.level)
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files) / 1e6:.1f} MB in {options.output}")
    if options.check:
        print(f"{repeated_across_copies(files, options.copies)} texts stand in more than one copy")


if __name__ == "__main__":
    main()
