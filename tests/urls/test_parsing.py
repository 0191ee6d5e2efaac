"""The parse step against the rows of the WHATWG test set, before any of our rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dedup_pipeline.urls import canonicalize_url
from dedup_pipeline.urls.parsing import Parts, parse_changes, parse_http, repair, scheme_of, trim


def rows(shared_data: Path) -> list[dict[str, Any]]:
    """The rows that need no base URL."""
    with (shared_data / "urls" / "whatwg_url_cases.jsonl").open(encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if row["base"] is None]


def test_valid_http_rows_parse_to_the_expected_parts(shared_data: Path) -> None:
    valid = [row for row in rows(shared_data) if row.get("href", "").startswith(("http:", "https:"))]
    assert len(valid) == 139
    for row in valid:
        parsed = parse_http(trim(repair(row["input"])))
        assert parsed is not None, row
        href, parts = parsed
        assert href == parts.href() == row["href"]
        assert (parts.host, parts.port or "", parts.path) == (row["host"], row["port"], row["path"])
        assert "?" + (parts.query or "") == (row["query"] or "?")
        assert "#" + (parts.fragment or "") == (row["fragment"] or "#")
        assert canonicalize_url(row["input"]).status == "ok"


def test_rows_that_must_fail_do(shared_data: Path) -> None:
    failing = [row["input"] for row in rows(shared_data) if row.get("failure")]
    assert len(failing) == 214
    for url in failing:
        assert parse_http(trim(repair(url))) is None
        expected = {"invalid"} if scheme_of(trim(url)) in ("http", "https") else {"relative", "not_crawlable"}
        assert canonicalize_url(url).status in expected


def test_hosts_to_ascii(shared_data: Path) -> None:
    with (shared_data / "urls" / "whatwg_toascii_cases.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            parsed = parse_http(f"http://{row['input']}/x")
            assert (parsed[1].host if parsed else None) == row["output"], row


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://e.com/\ud83d\ude00", "http://e.com/\U0001f600"),
        ("\ud800", "\ufffd"),
        ("\udfff\udc7f", "\ufffd\ufffd"),
        ("\udce9\udc80\udcff", "%E9%80%FF"),
        ("\ud800\ud800\udc00", "\ufffd\U00010000"),
        (b"\xe9\xc3\xa9\xff", "%E9é%FF"),
        (b"\xed\xa0\x80", "%ED%A0%80"),
        ("é", "é"),
        ("", ""),
    ],
)
def test_repair(url: str | bytes, expected: str) -> None:
    assert repair(url) == expected


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("HTTP:x", "http"),
        ("a+b.c-1:", "a+b.c-1"),
        ("1a:", None),
        ("a", None),
        ("/a:b", None),
        ("ht\ntp:", "http"),
        (":", None),
    ],
)
def test_scheme(text: str, scheme: str | None) -> None:
    assert scheme_of(text) == scheme


def test_parts_put_together_again() -> None:
    assert Parts("http", "u:p", "[::1]", "81", "/a", "", "f").href() == "http://u:p@[::1]:81/a?#f"
    assert Parts("https", None, "e.com", None, "/", None, None).href() == "https://e.com/"


def test_changes_are_named_in_the_order_of_the_url() -> None:
    url = "HTTP:\\\\user@B%C3%BCcher.EXAMPLE:080\\a/../b c"
    parsed = parse_http(url)
    assert parsed is not None
    assert parsed[0] == "http://user@xn--bcher-kva.example/b%20c"
    assert parse_changes(url, parsed[1]) == [
        "scheme_case",
        "backslash",
        "host_percent",
        "host_idn",
        "host_case",
        "default_port",
        "dot_segments",
        "percent_encode",
    ]


@pytest.mark.parametrize("url", ["", "http://", "http:///", "x", "http://[", "\ud800", "http://e.com:x/"])
def test_what_the_standard_refuses_is_none(url: str) -> None:
    assert parse_http(url) is None
