from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_pipeline.schema import Kind
from dedup_pipeline.sources.batches import MAX_COLUMNS
from dedup_pipeline.sources.jsonl import parse_object

from .conftest import Read

SHARED = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["id", "url", "é", "z", ""]), VALUES), max_size=12)


def seen(value: Any) -> tuple[Kind, bytes | None]:
    """The rule of `SEEN`, written another way."""
    if isinstance(value, bool):
        return Kind.BOOL, str(value).lower().encode()
    if isinstance(value, str):
        return Kind.TEXT, value.encode()
    if isinstance(value, int):
        return Kind.INT, b"%d" % value
    if isinstance(value, float):
        return Kind.FLOAT, repr(value).encode()
    if value is None:
        return Kind.NULL, None
    return Kind.JSON, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@SHARED
@given(
    rows=ROWS,
    escaped=st.booleans(),
    batch_rows=st.sampled_from([1, 2, 1000]),
    batch_bytes=st.sampled_from([1, 1 << 20]),
)
def test_what_was_written_is_seen(
    read: Read, rows: list[dict[str, Any]], escaped: bool, batch_rows: int, batch_bytes: int
) -> None:
    content = b"".join(json.dumps(row, ensure_ascii=escaped).encode() + b"\n" for row in rows)
    got = read(content, "x.jsonl", batch_rows=batch_rows, batch_bytes=batch_bytes)
    assert got.broken is None
    assert got.bad == []
    assert list(got.rows.values()) == [{key: seen(value) for key, value in row.items()} for row in rows]
    assert got.columns == list(dict.fromkeys(key for row in rows for key in row))
    assert got.repaired == 0


def test_golden_kinds(read: Read) -> None:
    line = (
        b'{"a":007.0,"b":1}\n{"n":null,"t":true,"f":false,"i":-0,"big":123456789012345678901234567890,'
        b'"x":1.50,"e":1E3,"s":"007","l":[ "a", {"b" : 1} ],"o":{}}\n'
    )
    got = read(line)
    assert got.reasons == {0: "not_json"}
    assert got.rows == {
        1: {
            "n": (Kind.NULL, None),
            "t": (Kind.BOOL, b"true"),
            "f": (Kind.BOOL, b"false"),
            "i": (Kind.INT, b"0"),
            "big": (Kind.INT, b"123456789012345678901234567890"),
            "x": (Kind.FLOAT, b"1.5"),
            "e": (Kind.FLOAT, b"1000.0"),
            "s": (Kind.TEXT, b"007"),
            "l": (Kind.JSON, b'["a",{"b":1}]'),
            "o": (Kind.JSON, b"{}"),
        }
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not_json"),
        (b'{"a":1} x', "not_json"),
        (b"{'a':1}", "not_json"),
        (b'{"a":NaN}', "not_json"),
        (b'{"a":[-Infinity]}', "not_json"),
        (b'{"a":"\x01"}', "not_json"),
        (b'{"a":1e999}', "number_out_of_range"),
        (b'{"a":[1e999]}', "number_out_of_range"),
        (b'{"a":' + b"1" * 5000 + b"}", "number_out_of_range"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
        (b"[1]", "not_object"),
        (b'"text"', "not_object"),
        (b"null", "not_object"),
        (b"\xff\xfe", "not_json"),
        (b"\x00", "not_json"),
    ],
)
def test_one_bad_line_costs_itself(read: Read, line: bytes, reason: str) -> None:
    got = read(b'{"a":1}\n' + line + b'\n{"a":2}\n', "x.jsonl")
    assert got.reasons == {1: reason}
    assert sorted(got.rows) == [0, 2]
    assert got.broken is None
    for bad in got.bad:
        bad.detail.encode()


def test_blank_lines_hold_a_position(read: Read) -> None:
    got = read(b'\n{"a":1}\n \t\r\n\n{"a":2}\r\n\n')
    assert list(got.rows) == [1, 4]
    assert got.skipped == {"blank_line": 4}


def test_bom_duplicate_keys_and_order(read: Read) -> None:
    got = read(b'\xef\xbb\xbf{"b":1,"a":2,"b":3}\n{"c":1,"a":0}\n')
    assert got.rows[0] == {"b": (Kind.INT, b"3"), "a": (Kind.INT, b"2")}
    assert got.columns == ["b", "a", "c"]


def test_lone_surrogates_become_replacement_characters_and_are_counted(read: Read) -> None:
    lines = [rb'{"a":"x\ud800y","b":["\udc00"]}', rb'{"\ud83d":1}', rb'{"a":"\ud83d\ude00"}']
    got = read(b"\n".join(lines))
    assert got.rows[0] == {"a": (Kind.TEXT, "x\ufffdy".encode()), "b": (Kind.JSON, '["\ufffd"]'.encode())}
    assert got.rows[1] == {"\ufffd": (Kind.INT, b"1")}
    assert got.rows[2] == {"a": (Kind.TEXT, "\U0001f600".encode())}
    assert got.repaired == 2


def test_bytes_that_are_no_utf8_stay_and_keep_records_apart(read: Read) -> None:
    got = read(b'{"a":"caf\xe9"}\n{"a":"caf\xe8"}\n{"a":"\xed\xa0\x80"}\n{"k\xff":["\xfe"]}\n')
    assert got.rows[0]["a"] == (Kind.TEXT, b"caf\xe9")
    assert got.rows[1]["a"] == (Kind.TEXT, b"caf\xe8")
    assert got.rows[2]["a"] == (Kind.TEXT, b"\xed\xa0\x80")
    assert got.rows[3] == {"k\ufffd": (Kind.JSON, b'["\xfe"]')}
    assert got.repaired == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb"\udce9", "\ufffd".encode()),  # the escape of what stands for the byte e9 inside Python
        (rb"\ud800\ud800\udc00", "\ufffd\U00010000".encode()),
        (rb"\ud800", "\ufffd".encode()),
        (rb"\ud83d\ude00", "\U0001f600".encode()),
        (rb"\\udce9", rb"\udce9"),
        (rb"\\\udce9", b"\\\xef\xbf\xbd"),
        (rb"A\udce9\n", "A\ufffd\n".encode()),
        (rb"\ud800\n", "\ufffd\n".encode()),
        (rb"\ud800A", "\ufffdA".encode()),
    ],
)
def test_escapes_beside_raw_bytes(text: bytes, value: bytes) -> None:
    row, repaired = parse_object(b'{"a":"\xe9' + text + b'"}')
    assert row == {"a": (Kind.TEXT, b"\xe9" + value)}
    assert repaired


@SHARED
@given(value=st.binary(max_size=60))
def test_any_bytes_in_a_string_come_back(value: bytes) -> None:
    quoted = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    for code in range(32):
        quoted = quoted.replace(bytes([code]), b"\\u%04x" % code)
    row, _ = parse_object(b'{"a":"' + quoted + b'"}')
    assert row == {"a": (Kind.TEXT, value)}


def test_too_large_lines(read: Read) -> None:
    long = b'{"a":"' + b"x" * 300_000 + b'"}'
    got = read(b'{"a":1}\n' + long + b'\n{"a":2}\n' + long, "x.jsonl", record_bytes=1000)
    assert got.reasons == {1: "too_large", 3: "too_large"}
    assert sorted(got.rows) == [0, 2]
    for size, reasons in ((1000, {}), (1001, {0: "too_large"})):
        line = b'{"a":"' + b"x" * (size - 8) + b'"}'
        assert read(line + b"\n{}\n", "z.jsonl", record_bytes=1000).reasons == reasons
    edge = b'{"a":"' + b"x" * (1000 - 8) + b'"}'
    assert read(edge + b"\n" + edge[:-2] + b'y"}', "y.jsonl", record_bytes=1000).reasons == {1: "too_large"}


def test_a_last_line_that_breaks_off_is_truncation(read: Read) -> None:
    got = read(b'{"a":1}\n{"a":"xy', "x.jsonl")
    assert (got.reason, got.broken and got.broken.position, list(got.rows)) == ("truncated", 1, [0])
    assert read(b'{"a":1}\n{"a":2}').rows.keys() == {0, 1}
    got = read(b'{"a":1}\nnonsense', "x.jsonl")
    assert (got.reason, got.reasons) == (None, {1: "not_json"})


def test_truncated_gzip_gives_the_whole_lines_before_the_cut(read: Read) -> None:
    lines = [b'{"n":%d,"h":"%x"}\n' % (n, hash((n, 7))) for n in range(4000)]
    packed = gzip.compress(b"".join(lines))
    got = read(packed[: len(packed) // 2], "x.jsonl.gz")
    assert got.reason == "truncated"
    assert 1000 < len(got.rows) < 3900
    assert got.broken is not None
    assert got.broken.position == len(got.rows)
    assert [row["n"] for row in got.rows.values()] == [(Kind.INT, b"%d" % n) for n in range(len(got.rows))]


def test_garbage_behind_a_member_is_counted(read: Read) -> None:
    got = read(gzip.compress(b'{"a":1}\n') + b"junk", "x.jsonl.gz")
    assert (len(got.rows), got.skipped, got.broken) == (1, {"trailing_garbage": 1}, None)


def test_columns_are_bounded(read: Read) -> None:
    half = MAX_COLUMNS // 2
    lines = [json.dumps({f"c{n}": n for n in range(start, start + half)}) for start in (0, half, 2 * half, 0)]
    for batch_rows in (1, 100):
        got = read("\n".join(lines).encode(), "x.jsonl", batch_rows=batch_rows)
        assert got.reasons == {2: "too_many_columns"}
        assert sorted(got.rows) == [0, 1, 3]


def test_batches_of_a_source_with_many_columns_stay_small(read: Read) -> None:
    lines = [json.dumps({f"c{n % 2500}": n}) for n in range(1500)]
    got = read("\n".join(lines).encode(), "x.jsonl", batch_bytes=1 << 18)
    assert len(got.rows) == 1500
    assert got.batches >= 6


def test_rows_without_members(read: Read) -> None:
    assert read(b"{}\n{}\n").rows == {0: {}, 1: {}}


def test_empty(read: Read) -> None:
    for content in (b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"")):
        got = read(content, "x.jsonl")
        assert (got.rows, got.broken, got.bad) == ({}, None, [])
