"""Every container cut at 50 places: never taken for whole, and what comes out is a prefix of the whole."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
from collections.abc import Callable

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from .archive_builder import arc, arc_header, http, warc
from .conftest import Read

RNG = random.Random(5)
ROWS = [{"id": n, "text": RNG.randbytes(20).hex()} for n in range(300)]
LINES = [json.dumps(row).encode() + b"\n" for row in ROWS]
RECORDS = [warc(http(b"<p>" + line), number=n) for n, line in enumerate(LINES[:40])]
ARCS = [arc(http(b"<p>" + line)) for line in LINES[:40]]
TABLE = b"id,text\n" + b"".join(b'%d,"%s"\n' % (row["id"], str(row["text"]).encode()) for row in ROWS)


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out, row_group_size=100)
    return out.getvalue()


CONTENTS: dict[str, bytes] = {
    "a.jsonl": b"".join(LINES),
    "a.json": b"[" + b",".join(LINES) + b"]",
    "a.csv": TABLE,
    "a.warc": b"".join(RECORDS),
    "a.arc": arc_header() + b"".join(ARCS),
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": bz2.compress,
    "lz4": lz4.frame.compress,
}
FIXTURES: dict[str, bytes] = dict(CONTENTS)
FIXTURES |= {
    f"{name}.{ending}": pack(content) for name, content in CONTENTS.items() for ending, pack in PACKERS.items()
}
FIXTURES["members.warc.gz"] = b"".join(map(gzip.compress, RECORDS))
FIXTURES["members.jsonl.gz"] = b"".join(gzip.compress(line) for line in LINES)
FIXTURES["a.parquet"] = parquet()


def boundaries(name: str, content: bytes) -> set[int]:
    """Cuts behind which nothing is missing that a reader could miss."""
    if name == "members.warc.gz":
        return ends([gzip.compress(record) for record in RECORDS])
    if name == "members.jsonl.gz":
        return ends([gzip.compress(line) for line in LINES])
    if name == "a.warc":
        return {end - back for end in ends(RECORDS) for back in range(5)}
    if name == "a.arc":
        return {end - back for end in ends([arc_header(), *ARCS]) for back in range(2)}
    if name == "a.jsonl":
        return {end - back for end in ends(LINES) for back in range(2)}
    return set()


def ends(parts: list[bytes]) -> set[int]:
    out, at = set(), 0
    for part in parts:
        at += len(part)
        out.add(at)
    return out


@pytest.mark.parametrize("name", FIXTURES)
def test_fifty_cuts(read: Read, name: str) -> None:
    content = FIXTURES[name]
    whole = read(content, name)
    assert whole.broken is None
    assert whole.bad == []
    assert len(whole.rows) in (40, 300)
    rows = list(whole.rows.items())
    allowed = boundaries(name, content)
    for step in range(50):
        cut = 20 + (len(content) - 21) * step // 49
        got = read(content[:cut], name)
        assert list(got.rows.items()) == rows[: len(got.rows)] or name == "a.csv", cut
        assert got.bad == [], cut
        if name == "a.csv":  # a value cut short in its last line, the quotes closed, is the one thing no reader can see
            assert got.reason == "truncated" or content[cut - 1 : cut] in b'\n"' or content[cut : cut + 1] == b'"'
            assert list(got.rows.items())[:-1] == rows[: max(0, len(got.rows) - 1)]
        elif cut not in allowed:
            assert got.reason == "truncated", cut
            assert got.broken is not None
            assert got.broken.position >= len(got.rows)


@pytest.mark.parametrize("name", [name for name in FIXTURES if "." in name[2:] and not name.endswith("parquet")])
def test_garbage_behind_the_last_member_costs_nothing(read: Read, name: str) -> None:
    got = read(FIXTURES[name] + b"not compressed", name)
    assert got.broken is None
    assert len(got.rows) == len(read(FIXTURES[name], name).rows)
    assert got.skipped["trailing_garbage"] == 1


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.zst", "a.warc.gz", "a.json.gz", "members.warc.gz"])
def test_a_wrong_checksum_is_a_broken_source(read: Read, name: str) -> None:
    damaged = bytearray(FIXTURES[name])
    damaged[-3 if "zst" in name else -8] ^= 1
    got = read(bytes(damaged), name)
    assert got.reason == "checksum"
    assert len(got.rows) == (39 if name.startswith("members") else 0)


@pytest.mark.parametrize("name", FIXTURES)
def test_batches_never_change_what_is_read(read: Read, name: str) -> None:
    content = FIXTURES[name]
    for part in (content, content[: len(content) * 2 // 3]):
        whole = read(part, name).essence()
        for batch_rows in (1, 7):
            assert read(part, name, batch_rows=batch_rows).essence() == whole
