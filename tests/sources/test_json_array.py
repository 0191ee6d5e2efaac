from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_pipeline.schema import Kind

from .conftest import Read
from .test_jsonl import ROWS, seen


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, indent=st.sampled_from([None, 1]), batch_rows=st.sampled_from([1, 100]))
def test_array_equals_its_elements(read: Read, rows: list[dict[str, Any]], indent: int | None, batch_rows: int) -> None:
    got = read(json.dumps(rows, indent=indent).encode(), "x.json", batch_rows=batch_rows)
    assert got.broken is None
    assert list(got.rows.values()) == [{key: seen(value) for key, value in row.items()} for row in rows]
    assert list(got.rows) == list(range(len(rows)))


def test_scrapy_layout(read: Read) -> None:
    got = read(b'[\n{"a": "x]"},\n{"a": "\\"[{"}\n]\n', "x.json")
    assert [row["a"] for row in got.rows.values()] == [(Kind.TEXT, b"x]"), (Kind.TEXT, b'"[{')]


def test_bad_elements_cost_themselves(read: Read) -> None:
    got = read(b'[{"a":1},7,{"a":nope},[1,2],"s,]",{"a":2},,{"a":3}]', "x.json")
    assert sorted(got.rows) == [0, 5, 7]
    assert got.reasons == {1: "not_object", 2: "not_json", 3: "not_object", 4: "not_object", 6: "not_json"}


def test_too_large_element(read: Read) -> None:
    rows: list[Any] = [{"a": 1}, {"a": "x" * 500_000}, {"a": [["y"] * 100_000]}, {"a": 2}]
    got = read(json.dumps(rows).encode(), "x.json", record_bytes=1000)
    assert got.reasons == {1: "too_large", 2: "too_large"}
    assert sorted(got.rows) == [0, 3]


def test_every_cut_is_truncation(read: Read) -> None:
    whole = json.dumps([{"a": n, "b": 'q"\\'} for n in range(10)]).encode()
    for cut in range(1, len(whole)):
        got = read(whole[:cut], "x.json")
        assert got.reason == "truncated", cut
        assert [row["a"] for row in got.rows.values()] == [(Kind.INT, b"%d" % n) for n in range(len(got.rows))]


@pytest.mark.parametrize("content", [b"[]", b" [ \n ]\n", b"\xef\xbb\xbf[]"])
def test_empty_array(read: Read, content: bytes) -> None:
    got = read(content, "x.json")
    assert (got.rows, got.bad, got.broken) == ({}, [], None)


def test_more_behind_the_array(read: Read) -> None:
    got = read(b'[{"a":1}] [{"a":2}]', "x.json")
    assert (len(got.rows), got.reason) == (1, "corrupt")
