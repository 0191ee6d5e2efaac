"""What ends a run before anything is published, to the very number, and what a run warns of."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Runner

import dedup_pipeline
from dedup_pipeline import RunResult, load_config
from dedup_pipeline.errors import SafetyStop, SchemaMismatch, SourceBroken, TooManyBadRecords

WORDS = " ".join(f"word{number}" for number in range(60))


def write(path: Path, lines: Iterable[dict[str, Any] | str]) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def run(path: Path, **settings: Any) -> RunResult:
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    out = path.parent / "out" if path.is_file() else path.parent / f"{path.name}-out"
    return dedup_pipeline.run(load_config(inputs=[path], output=out, set=chosen, overwrite=True))


def near_copies(count: int) -> list[dict[str, Any]]:
    return [{"text": f"{WORDS} {number}"} for number in range(count)]


def distinct(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"text": f"{number} a{number} b{number} c{number} d{number}"} for number in range(first, first + count)]


# --- bad records -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "allowed", "stops"),
    [
        (0, 10, 0.0, False),  # up to ten never stop a run
        (0, 11, 0.5, True),
        (11, 11, 0.5, False),  # half of them, not more
        (10, 11, 0.5, True),
        (500, 11, 0.02, True),  # 11 > 0.02 * 511
        (539, 11, 0.02, False),  # 11 = 0.02 * 550
        (1, 40, 1.0, False),
    ],
)
def test_more_than_ten_and_more_than_the_share(
    tmp_path: Path, good: int, bad: int, allowed: float, stops: bool
) -> None:
    path = write(tmp_path / "in.jsonl", [*distinct(good), *["{no"] * bad])
    if stops:
        with pytest.raises(TooManyBadRecords, match=rf"{bad} of {good + bad} .*max_bad_fraction"):
            run(path, safety__max_bad_fraction=allowed)
        assert not (tmp_path / "out").exists()
    else:
        told = run(path, safety__max_bad_fraction=allowed)
        assert (told.counts["kept"], told.counts["quarantined"]) == (good, bad)
        assert {row["reason"] for row in told.table("quarantine").to_pylist()} == {"not_json"}
        assert any(f"{bad:,} documents could not be used" in warning for warning in told.manifest["warnings"])


def test_the_share_is_of_all_sources_together(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "good.jsonl", distinct(100))
    write(folder / "bad.jsonl", ["{no"] * 20)
    assert run(folder, safety__max_bad_fraction=0.2).counts["quarantined"] == 20
    with pytest.raises(TooManyBadRecords):
        run(folder, safety__max_bad_fraction=0.1)


# --- broken sources --------------------------------------------------------------------------------------


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A whole source and one cut in half."""
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.jsonl", distinct(50))
    lines = "".join(json.dumps(line) + "\n" for line in distinct(4000, 1000))
    whole = gzip.compress(lines.encode(), mtime=0)
    (folder / "b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    write(folder / "c.jsonl", distinct(50, 100))
    return folder


def test_a_cut_source_stops_the_run(cut: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceBroken, match=r"in/b\.jsonl\.gz: truncated at record \d+.*broken_sources") as raised:
        run(cut)
    assert raised.value.reason == "truncated"
    assert raised.value.exit_code == 3
    assert not (tmp_path / "in-out").exists()


def test_a_cut_source_may_be_used_up_to_the_cut(cut: Path) -> None:
    told = run(cut, safety__broken_sources="quarantine")
    sources = {source["source"]: source for source in told.counts["sources"]}
    (row,) = told.table("quarantine").to_pylist()
    assert (row["source"], row["reason"]) == ("in/b.jsonl.gz", "truncated")
    broken = sources["in/b.jsonl.gz"]
    assert 500 < broken["kept"] < 4000
    assert broken["quarantined"] == 1
    assert row["position"] == broken["kept"]
    assert sources["in/a.jsonl"]["kept"] == sources["in/c.jsonl"]["kept"] == 50
    kept = told.table("kept").column("text").to_pylist()
    assert kept[50 : 50 + broken["kept"]] == [line["text"] for line in distinct(broken["kept"], 1000)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("magic.parquet", b"PAR1"),
        ("half.parquet", b"PAR1" + b"\0" * 500),
        ("noise.bin", bytes(range(256)) * 4),
    ],
)
def test_what_is_no_source_at_all(tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.jsonl", distinct(3))
    (folder / name).write_bytes(content)
    with pytest.raises(SourceBroken, match=name):
        run(folder)
    told = run(folder, safety__broken_sources="quarantine")
    assert (told.counts["kept"], told.counts["quarantined"]) == (3, 1)
    (row,) = told.table("quarantine").to_pylist()
    assert row["source"] == f"in/{name}"


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    """Two sources, of which the second lacks a column."""
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"name": ["a", "b"], "body": ["x y z", "p q r"]}), folder / "a.parquet")
    pq.write_table(pa.table({"name": ["c", "d"]}), folder / "b.parquet")
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        {"input__text": "body"},
        {"input__id": "body"},
        {"input__url": "body"},
        {"records__fields": ["name", "body"]},
        {"keep__policy": ["prefer:body=x"]},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_column_missing_in_one_of_two_files(lacking: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(SourceBroken, match=r"in/b\.parquet: missing_column.*body") as raised:
        run(lacking, **settings)
    assert raised.value.exit_code == 3
    assert not (tmp_path / "in-out").exists()
    told = run(lacking, **settings, safety__broken_sources="quarantine")
    (row,) = told.table("quarantine").to_pylist()
    assert (row["source"], row["reason"]) == ("in/b.parquet", "missing_column")
    assert "body" in row["detail"]
    assert told.counts["read"] == 5


def test_a_column_that_nobody_named_may_be_missing(lacking: Path) -> None:
    told = run(lacking)
    assert told.counts["kept"] == 4
    assert told.counts["no_text"] == 4
    assert any("no text" in warning for warning in told.manifest["warnings"])


def test_a_source_without_rows_lacks_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"body": ["x y z"]}), folder / "a.parquet")
    (folder / "b.jsonl").write_text("")
    assert run(folder, input__text="body").counts["kept"] == 1


def test_types_that_disagree_name_both_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "text": ["x"]}), folder / "a.parquet")
    pq.write_table(pa.table({"id": ["1"], "text": ["x"]}), folder / "b.parquet")
    with pytest.raises(SchemaMismatch, match=r"id") as raised:
        run(folder)
    assert "in/a.parquet" in str(raised.value)
    assert "in/b.parquet" in str(raised.value)


# --- the near stage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "others", "share", "stops"),
    [
        (901, 100, 0.9, False),  # 900 of 1,001
        (902, 98, 0.9, True),  # 901 of 1,000
        (901, 99, 0.9, False),  # 900 of 1,000: exactly the share
        (999, 0, 0.1, False),  # too small a source to judge
        (1000, 0, 0.9989, True),
        (1000, 0, 1.0, False),
    ],
)
def test_a_source_that_loses_too_much(tmp_path: Path, copies: int, others: int, share: float, stops: bool) -> None:
    path = write(tmp_path / "in.jsonl", [*near_copies(copies), *distinct(others)])
    if stops:
        with pytest.raises(SafetyStop, match=rf"in\.jsonl.*{copies - 1:,} of 1,000.*max_dropped_fraction"):
            run(path, safety__max_dropped_fraction=share)
        assert not (tmp_path / "out").exists()
    else:
        assert run(path, safety__max_dropped_fraction=share).counts["dropped"]["near"] == copies - 1


def test_only_the_near_stage_is_judged(tmp_path: Path) -> None:
    same = [{"url": "http://a.test/", "text": str(number)} for number in range(1100)]
    assert run(write(tmp_path / "urls.jsonl", same)).counts["dropped"]["urls"] == 1099
    same = [{"text": WORDS}] * 1100
    assert run(write(tmp_path / "records.jsonl", same)).counts["dropped"]["records"] == 1099


def test_each_source_is_judged_on_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.jsonl", distinct(3000))
    write(folder / "b.jsonl", near_copies(1000))
    with pytest.raises(SafetyStop, match=r"in/b\.jsonl"):
        run(folder)


def test_a_cluster_that_is_too_large(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [*distinct(2), *near_copies(6)])
    with pytest.raises(SafetyStop, match=r"6 documents .*in\.jsonl, record 2, .*max_cluster = 5"):
        run(path, safety__max_cluster=5)
    assert not (tmp_path / "out").exists()
    assert run(path, safety__max_cluster=6).counts["dropped"]["near"] == 5


def test_copies_by_url_or_fields_make_no_large_cluster(tmp_path: Path) -> None:
    copies = [{"text": WORDS}] * 8
    path = write(tmp_path / "in.jsonl", [*copies, {"text": f"{WORDS} end"}])
    told = run(path, safety__max_cluster=2)
    assert told.counts["dropped"] == {"urls": 0, "records": 7, "near": 1}
    assert told.ledger().column("cluster_size").to_pylist() == [9] * 9
    with pytest.raises(SafetyStop, match="2 documents"):
        run(path, safety__max_cluster=1)


# --- warnings --------------------------------------------------------------------------------------------


def test_a_clean_run_warns_of_nothing(tmp_path: Path) -> None:
    assert run(write(tmp_path / "in.jsonl", near_copies(2))).manifest["warnings"] == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (distinct(3), "No duplicate was found"),
        ([{"url": "http://a.test/", "text": "a"}, {"url": "http://a.test/", "text": "b"}], 'urls.changed = "keep"'),
        ([{"id": number, "body": "a"} for number in range(3)], "is input.text right"),
        (['{"text": "a \\ud800 b"}', {"text": "c"}], "U\\+FFFD"),
    ],
)
def test_what_a_person_should_know(tmp_path: Path, lines: list[dict[str, Any] | str], words: str) -> None:
    told = run(write(tmp_path / "in.jsonl", lines))
    assert any(re.search(words, warning) for warning in told.manifest["warnings"]), told.manifest["warnings"]


def test_no_warning_quotes_a_text(tmp_path: Path, run_pipeline: Runner) -> None:
    path = write(tmp_path / "in.jsonl", ['{"text": "marker \\ud800"}', '{"text": marker', {"text": "marker"}])
    outcome = run_pipeline([path])
    said = json.dumps([outcome.manifest["warnings"], outcome.table("quarantine").to_pylist()])
    assert "marker" not in said
