"""The three ways to find who shares a URL: two that agree with each other, and one that says what it loses."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner

from dedup_pipeline.engines import url_groups
from dedup_pipeline.errors import ConfigError


def crawl(folder: Path, count: int = 400, of: int = 250) -> Path:
    """Write a crawl with repeated URLs, URLs missing, and a text of each record's own."""
    chosen, path = random.Random(4), folder / "crawl.jsonl"
    rows = []
    for number in range(count):
        row: dict[str, Any] = {"id": str(number), "text": f"text number {number} {chosen.random()}"}
        if number % 10:
            row["url"] = f"http://example.com/{chosen.randrange(of)}"
        rows.append(json.dumps(row))
    path.write_text("\n".join(rows))
    return path


def ledger(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the ledger's rows without the name of the run."""
    rows: list[dict[str, Any]] = outcome.ledger.to_pylist()
    return [{**row, "duplicate_of_run": None} for row in rows]


@pytest.mark.parametrize("policy", [["first"], ["last"]])
@pytest.mark.parametrize("changed", ["drop", "keep"])
def test_confirmed_and_exact_give_one_result(
    tmp_path: Path, run_pipeline: Runner, policy: list[str], changed: str
) -> None:
    path = crawl(tmp_path)
    settings = {"keep.policy": policy, "urls.changed": changed}
    exact = run_pipeline([path], {**settings, "urls.seen": "exact"})
    confirmed = run_pipeline([path], {**settings, "urls.seen": "confirmed"})
    assert ledger(confirmed) == ledger(exact)
    for outcome, kind in ((exact, "exact"), (confirmed, "confirmed")):
        seen = outcome.manifest["bloom"]
        assert seen["kind"] == kind
        assert seen["inserted"] == len({row["canonical_url"] for row in ledger(exact)} - {None})
        assert seen["expected_lost"] == seen["error_rate"] == seen["dropped"] == 0
    assert confirmed.manifest["bloom"]["fill"] > 0


def test_confirmed_holds_when_its_filter_is_wrong_most_of_the_time(
    tmp_path: Path, run_pipeline: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crawl(tmp_path)
    exact = run_pipeline([path], {"urls.seen": "exact"})
    monkeypatch.setattr(url_groups, "_FRONT_RATE", 0.9)
    monkeypatch.setattr(url_groups, "_ROWS_AT_ONCE", 7)
    assert ledger(run_pipeline([path], {"urls.seen": "confirmed"})) == ledger(exact)


def test_auto_chooses_by_what_fits_and_says_so(
    tmp_path: Path, run_pipeline: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crawl(tmp_path)
    assert run_pipeline([path]).manifest["bloom"]["kind"] == "exact"
    monkeypatch.setattr(
        url_groups, "choose_seen", lambda expected, memory: "confirmed" if (expected, memory) == (360, 10**9) else "?"
    )
    outcome = run_pipeline([path])
    assert outcome.manifest["bloom"]["kind"] == "confirmed"
    assert outcome.manifest["bloom"]["chosen"] == "auto"


@pytest.mark.parametrize("policy", [["first"], ["last"]])
def test_bloom_drops_every_repeat_and_names_nobody(tmp_path: Path, run_pipeline: Runner, policy: list[str]) -> None:
    path = crawl(tmp_path)
    outcome = run_pipeline([path], {"urls.seen": "bloom", "urls.error_rate": 1e-9, "keep.policy": policy})
    rows = ledger(outcome)
    order = rows if policy == ["first"] else rows[::-1]
    seen: set[str] = set()
    for row in order:
        url = row["canonical_url"]
        if url is None or url not in seen:
            assert row["status"] == "kept"
        else:
            assert (row["status"], row["stage"], row["reason"]) == ("dropped", "urls", "bloom")
            named = ("duplicate_of", "duplicate_of_source", "duplicate_of_position", "similarity", "same_content")
            assert all(row[name] is None for name in named)
            assert row["cluster_size"] is None
        seen.add(url)
    seen -= {None}  # type: ignore[arg-type]
    manifest = outcome.manifest
    assert manifest["bloom"]["kind"] == "bloom"
    assert manifest["bloom"]["inserted"] == len(seen)
    assert manifest["bloom"]["dropped"] == manifest["counts"]["dropped"]["urls"] == 360 - len(seen)
    assert 0 < manifest["bloom"]["expected_lost"] < 1e-6
    assert "The Bloom filter called the URLs of" in manifest["warnings"][0]


def test_bloom_loses_about_what_it_says(tmp_path: Path, run_pipeline: Runner) -> None:
    path = crawl(tmp_path, count=6000, of=1_000_000)
    settings = {"urls.seen": "bloom", "urls.error_rate": 0.05, "near.enabled": False}
    outcome = run_pipeline([path], settings)
    urls = [row["canonical_url"] for row in ledger(outcome)]
    lost = outcome.manifest["counts"]["dropped"]["urls"] - (5400 - len(set(urls) - {None}))
    expected = outcome.manifest["bloom"]["expected_lost"]
    assert expected > 20
    assert abs(lost - expected) < 4 * expected**0.5


def test_a_filter_that_may_not_grow_stops_the_run(tmp_path: Path, run_pipeline: Runner) -> None:
    path = crawl(tmp_path)
    settings = {"urls.seen": "bloom", "urls.capacity": 100, "urls.full": "stop"}
    with pytest.raises(ConfigError, match=r"urls.capacity = 100 URLs are in the filter.*360 documents.*urls\.full"):
        run_pipeline([path], settings)


def test_a_filter_that_grows_says_so(tmp_path: Path, run_pipeline: Runner) -> None:
    path = crawl(tmp_path)
    outcome = run_pipeline([path], {"urls.seen": "bloom", "urls.capacity": 50})
    assert outcome.manifest["bloom"]["capacity"] > 50
    assert any("grew from urls.capacity = 50 to" in text for text in outcome.manifest["warnings"])


@pytest.mark.parametrize(("capacity", "warned"), [(1000, False), (190, True), ("auto", False)])
def test_nearly_full_is_a_warning(tmp_path: Path, run_pipeline: Runner, capacity: int | str, warned: bool) -> None:
    path = crawl(tmp_path, of=180)
    outcome = run_pipeline([path], {"urls.seen": "bloom", "urls.capacity": capacity, "urls.full": "stop"})
    said = [text for text in outcome.manifest["warnings"] if "% of urls.capacity" in text]
    assert bool(said) == warned
    assert not said or "which would stop" in said[0]


def test_no_document_with_a_url_is_no_trouble(tmp_path: Path, run_pipeline: Runner) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "a"}\n')
    for kind in ("exact", "confirmed", "bloom"):
        outcome = run_pipeline([path], {"urls.seen": kind})
        assert outcome.manifest["bloom"]["inserted"] == 0
        assert outcome.manifest["counts"]["kept"] == 1
