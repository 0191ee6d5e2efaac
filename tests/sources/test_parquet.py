from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_pipeline.sources import ReadOptions, Source

from .conftest import Read, read_whole


def packed(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **{"write_page_checksum": True, **options})
    return out.getvalue()


def sample(rows: int = 1000) -> pa.Table:
    rng = random.Random(3)
    return pa.table({"id": pa.array(range(rows), pa.int32()), "text": [rng.randbytes(40).hex() for _ in range(rows)]})


def test_own_types_and_plain_layouts(read: Read) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "when": pa.array([0, 1], pa.timestamp("ms", "UTC")),
            "large": pa.array(["a", None], pa.large_string()),
            "view": pa.array(["b", "c"], pa.string_view()),
            "dictionary": pa.array(["d", "d"]).dictionary_encode(),
            "bytes": pa.array([b"\xff", b""], pa.large_binary()),
            "list": pa.array([["x"], []], pa.list_(pa.string())),
        }
    )
    got = read(packed(table), "x.parquet")
    assert got.types == {
        "i": pa.int16(),
        "when": pa.timestamp("ms", "UTC"),
        "large": pa.string(),
        "view": pa.string(),
        "dictionary": pa.string(),
        "bytes": pa.binary(),
        "list": pa.list_(pa.string()),
    }
    assert got.rows[0]["dictionary"] == b"d"
    assert got.rows[1]["large"] is None
    assert got.rows[1]["i"] is None


def test_positions_do_not_depend_on_batches_or_row_groups(read: Read) -> None:
    for group in (100, 333, 5000):
        content = packed(sample(), row_group_size=group)
        for batch_rows, batch_bytes in ((1, 1 << 20), (7, 1 << 20), (10_000, 1 << 20), (10_000, 500)):
            got = read(content, "x.parquet", batch_rows=batch_rows, batch_bytes=batch_bytes)
            assert list(got.rows) == list(range(1000))
            assert [row["id"] for row in got.rows.values()] == list(range(1000))


def test_no_rows_still_name_the_columns(read: Read) -> None:
    got = read(packed(sample(0)), "x.parquet")
    assert (got.columns, got.rows, got.batches) == (["id", "text"], {}, 1)


def test_too_large_rows(read: Read) -> None:
    table = pa.table({"id": [1, 2, 3], "text": ["a", "b" * 5000, "c"]})
    for batch_rows in (1, 100):
        got = read(packed(table), "x.parquet", record_bytes=1000, batch_rows=batch_rows)
        assert got.reasons == {1: "too_large"}
        assert {p: row["id"] for p, row in got.rows.items()} == {0: 1, 2: 3}


def test_text_that_is_no_utf8_stays_and_is_counted(read: Read) -> None:
    array = pa.array([b"caf\xe9", b"ok", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, array.buffers())
    got = read(packed(pa.table({"t": text})), "x.parquet")
    assert got.repaired == 1
    assert [row["t"] for row in got.rows.values()] == [b"caf\xe9", b"ok", None]


@pytest.mark.parametrize("batch_rows", [1, 7, 10_000])
def test_a_flipped_bit_in_a_page_is_found(read: Read, batch_rows: int) -> None:
    content = bytearray(packed(sample(), row_group_size=250, use_dictionary=False, compression="none"))
    content[len(content) * 6 // 10] ^= 1
    got = read(bytes(content), "x.parquet", batch_rows=batch_rows)
    assert got.reason == "checksum"
    assert got.broken is not None
    assert got.broken.position == 500
    assert list(got.rows) == list(range(500))


def test_every_cut_is_found(read: Read) -> None:
    content = packed(sample())
    for step in range(50):
        cut = 5 + (len(content) - 6) * step // 49
        got = read(content[:cut], "x.parquet")
        assert got.reason == "truncated", cut
        assert got.rows == {}


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(100) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_no_footer(read: Read, content: bytes) -> None:
    got = read(content, "x.parquet")
    assert got.reason in ("truncated", "corrupt")


def test_a_footer_that_claims_too_much_is_refused_at_once(read: Read) -> None:
    content = bytearray(packed(sample()))
    size = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - size
    began = time.monotonic()
    for place in range(start, len(content) - 8):
        damaged = bytearray(content)
        damaged[place : place + 5] = b"\xff\xff\xff\xff\x07"[: len(content) - 8 - place]
        got = read(bytes(damaged), "x.parquet")
        assert got.broken is None or got.reason in ("corrupt", "checksum", "truncated", "duplicate_column")
    assert time.monotonic() - began < 60


def test_damage_anywhere_is_never_a_traceback(read: Read) -> None:
    rng = random.Random(11)
    content = packed(sample(50))
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        got = read(bytes(damaged), "x.parquet")
        assert got.reason in (None, "corrupt", "checksum", "truncated", "duplicate_column", "unreadable")


def test_duplicate_columns(read: Read) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert read(packed(table), "x.parquet").reason == "duplicate_column"


def test_dates_from_pandas_style_metadata_do_not_matter(read: Read) -> None:
    table = sample(3).replace_schema_metadata({b"pandas": b"not json", b"ARROW:schema": b"rubbish"})
    assert len(read(packed(table, store_schema=False), "x.parquet").rows) == 3


def test_missing(tmp_path: Path, write: Callable[[bytes, str], Source]) -> None:
    source = write(packed(sample(3)), "x.parquet")
    Path(source.path).unlink()
    assert read_whole(source, ReadOptions()).reason == "unreadable"
