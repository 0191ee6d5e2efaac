"""The golden table: what each rule does and leaves alone, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dedup_pipeline.urls import PROFILES, STATUSES, UrlOptions, canonicalize_url, load_clearurls
from dedup_pipeline.urls.rules import RULES

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "golden.jsonl").read_text(encoding="ascii").splitlines()
]
"""``rule`` is the rule that the row shows; with ``-`` before it, the rule that must not apply."""


def options_of(row: dict[str, Any]) -> UrlOptions | None:
    """The options of a row; ``clearurls`` are switches of ``load_clearurls`` for the rules beside this file."""
    if "options" not in row:
        return None
    options = dict(row["options"])
    if "clearurls" in options:
        options["clearurls"] = load_clearurls(Path(__file__).parent / "clearurls.json", **options["clearurls"])
    return UrlOptions(**options)


def test_the_table_is_large_and_shows_every_rule_both_ways() -> None:
    assert len(ROWS) >= 250
    asked = {(row["input"], row["profile"], row.get("bytes"), str(row.get("options")), row.get("base")) for row in ROWS}
    assert len(asked) == len(ROWS)
    shown = {row["rule"] for row in ROWS}
    for rule in RULES:
        assert {rule.name, f"-{rule.name}"} <= shown
    assert {"base", "-base", "default_scheme", "-default_scheme"} <= shown
    assert {row["status"] for row in ROWS} == set(STATUSES)
    assert {row["profile"] for row in ROWS} == set(PROFILES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['profile']}:{ascii(row['input'])[1:60]}")
def test_row(row: dict[str, Any]) -> None:
    url: str | bytes = row["input"].encode("latin-1") if row.get("bytes") else row["input"]
    limit = row.get("max_bytes", 16384)
    asked: dict[str, Any] = {"options": options_of(row), "base": row.get("base"), "max_bytes": limit}
    found = canonicalize_url(url, row["profile"], **asked)
    assert (found.key, found.status) == (row["key"], row["status"])
    if row["rule"].startswith("-"):
        assert row["rule"][1:] not in found.rules
    elif row["rule"]:
        assert row["rule"] in found.rules
    else:
        assert found.rules == ()
    again = canonicalize_url(found, row["profile"], **asked)
    assert (again.key, again.status) == (found.key, found.status)
