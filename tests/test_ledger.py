"""The ledger, column by column, on a crawl in which every fate occurs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome, Runner
from fates import AFAR, FIRST, FRUIT, SECOND, write_fates

A, B = "crawl/a.jsonl", "crawl/b.jsonl"
CLOSE = 37 / 39

LEDGER = {
    "source": pa.string(),
    "position": pa.int64(),
    "id": pa.string(),
    "url": pa.string(),
    "canonical_url": pa.string(),
    "status": pa.string(),
    "stage": pa.string(),
    "reason": pa.string(),
    "duplicate_of": pa.string(),
    "duplicate_of_run": pa.string(),
    "duplicate_of_source": pa.string(),
    "duplicate_of_position": pa.int64(),
    "similarity": pa.float64(),
    "same_content": pa.bool_(),
    "cluster_size": pa.int64(),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, run_pipeline: Runner) -> Outcome:
    return run_pipeline([write_fates(tmp_path_factory.mktemp("fates"))])


def rows(outcome: Outcome) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["source"], row["position"]): row for row in outcome.ledger.to_pylist()}


def test_the_columns_are_those_of_the_contract(outcome: Outcome) -> None:
    assert dict(zip(outcome.ledger.column_names, outcome.ledger.schema.types, strict=True)) == LEDGER
    on_disk = pq.read_schema(outcome.output / "ledger" / "part-00000.parquet")
    assert dict(zip(on_disk.names, on_disk.types, strict=True)) == LEDGER


def test_a_row_for_each_document_in_order(outcome: Outcome) -> None:
    wanted = [(A, place) for place in range(len(FIRST))] + [(B, place) for place in range(len(SECOND))]
    assert list(rows(outcome)) == wanted
    assert outcome.ledger.num_rows == len(wanted)


FATES = [
    # place, status, stage, reason, keeper's id, its place, similarity, same content, size of the cluster
    ((A, 0), "kept", None, None, None, None, None, None, 6),
    ((A, 1), "dropped", "urls", "same_url", "k1", (A, 0), None, True, 6),
    ((A, 2), "dropped", "urls", "same_url", "k1", (A, 0), None, False, 6),
    ((A, 3), "dropped", "records", "same_fingerprint", "k1", (A, 0), 1.0, None, 6),
    ((A, 4), "quarantined", None, "not_json", None, None, None, None, None),
    ((A, 5), "dropped", "near", "similar", "k1", (A, 0), CLOSE, None, 6),
    ((A, 6), "kept", None, None, None, None, None, None, 2),
    ((A, 7), "kept", None, None, None, None, None, None, 1),
    ((A, 8), "dropped", "urls", "same_url", "e1", (A, 6), None, True, 2),
    ((B, 0), "kept", None, None, None, None, None, None, 2),
    ((B, 1), "dropped", "near", "similar", "k1", (A, 0), CLOSE, None, 6),
    ((B, 2), "dropped", "records", "same_fingerprint", "k1", (B, 0), 1.0, None, 2),
]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: f"{fate[0][0][-7]}{fate[0][1]}")
def test_what_became_of_each(outcome: Outcome, fate: tuple[Any, ...]) -> None:
    place, status, stage, reason, keeper, at, similarity, same, size = fate
    row = rows(outcome)[place]
    assert (row["status"], row["stage"], row["reason"]) == (status, stage, reason)
    assert row["duplicate_of"] == keeper
    assert (row["duplicate_of_source"], row["duplicate_of_position"]) == (at or (None, None))
    assert row["duplicate_of_run"] == (outcome.manifest["run"] if at else None)
    assert row["similarity"] == similarity
    assert row["same_content"] is same
    assert row["cluster_size"] == size


def test_ids_and_urls_stand_as_they_were_read(outcome: Outcome) -> None:
    found = rows(outcome)
    for source, lines in ((A, FIRST), (B, SECOND)):
        for place, line in enumerate(lines):
            row = found[source, place]
            given = line if isinstance(line, dict) else {}
            assert (row["id"], row["url"]) == (given.get("id"), given.get("url"))
            assert (row["canonical_url"] is None) == (row["url"] is None)
    assert found[A, 0]["canonical_url"] == found[A, 1]["canonical_url"] == "http://a.test/page"


def test_the_keeper_is_itself_kept_and_the_cluster_is_who_names_it(outcome: Outcome) -> None:
    found = rows(outcome)
    named = [(row["duplicate_of_source"], row["duplicate_of_position"]) for row in found.values()]
    for place, row in found.items():
        if row["status"] == "dropped":
            keeper = (row["duplicate_of_source"], row["duplicate_of_position"])
            assert found[keeper]["status"] == "kept"
            assert row["cluster_size"] == found[keeper]["cluster_size"]
        elif row["status"] == "kept":
            assert row["cluster_size"] == 1 + named.count(place)


def test_kept_rows_have_the_columns_of_the_input(outcome: Outcome) -> None:
    kept = outcome.table("kept")
    assert kept.column_names == ["id", "url", "text", "note", "tags"]
    assert kept.schema.field("note").type == pa.int64()
    assert kept.to_pylist() == [
        {"id": "k1", "url": "http://A.test/page?utm_source=x", "text": FRUIT, "note": 1, "tags": None},
        {"id": "e1", "url": "http://a.test/empty", "text": "", "note": None, "tags": None},
        {"id": "e2", "url": "http://a.test/empty2", "text": None, "note": None, "tags": None},
        {"id": "k1", "url": "http://b.test/", "text": AFAR, "note": None, "tags": ["x", "y"]},
    ]


def test_pairs_name_both_sides(outcome: Outcome) -> None:
    run = outcome.manifest["run"]
    first = {"run_a": run, "source_a": A, "position_a": 0, "id_a": "k1", "run_b": run, "similarity": CLOSE}
    assert outcome.table("pairs").to_pylist() == [
        {**first, "source_b": A, "position_b": 5, "id_b": "n1"},
        {**first, "source_b": B, "position_b": 1, "id_b": "n2"},
    ]


def test_the_quarantine_says_why_and_quotes_no_text(outcome: Outcome) -> None:
    (row,) = outcome.table("quarantine").to_pylist()
    assert list(row) == ["source", "position", "reason", "detail"]
    assert (row["source"], row["position"], row["reason"]) == (A, 4, "not_json")
    assert row["detail"]
    assert "broken" not in row["detail"]


def test_passing_changed_records_on(tmp_path: Path, run_pipeline: Runner) -> None:
    found = rows(run_pipeline([write_fates(tmp_path)], {"urls.changed": "keep"}))
    assert found[A, 1]["stage"] == "urls"  # the same content at the same URL
    assert found[A, 2]["status"] == "kept"
    assert found[A, 8]["stage"] == "urls"  # neither has a fingerprint: nothing says that the content changed


def test_stages_that_are_off_drop_nothing(tmp_path: Path, run_pipeline: Runner) -> None:
    off = {"urls.enabled": False, "records.enabled": False, "near.enabled": False}
    outcome = run_pipeline([write_fates(tmp_path)], off)
    assert [row["status"] for row in rows(outcome).values()].count("kept") == len(FIRST) + len(SECOND) - 1
    assert outcome.table("pairs").num_rows == 0


def test_the_keeper_may_stand_later(tmp_path: Path, run_pipeline: Runner) -> None:
    found = rows(run_pipeline([write_fates(tmp_path)], {"keep.policy": ["last"]}))
    assert found[B, 2]["status"] == "kept"
    assert (found[B, 0]["duplicate_of"], found[B, 0]["duplicate_of_position"]) == ("u3", 2)


def test_a_document_without_id(tmp_path: Path, run_pipeline: Runner) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"text": "a"}\n{"text": "a"}\n')
    outcome = run_pipeline([path])
    assert outcome.kept == {("one.jsonl", 0)}
    (first, second) = outcome.ledger.to_pylist()
    assert second["duplicate_of"] == first["id"]
    assert (second["duplicate_of_source"], second["duplicate_of_position"]) == ("one.jsonl", 0)


def test_nothing_read_gives_empty_tables(tmp_path: Path, run_pipeline: Runner) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("")
    outcome = run_pipeline([path])
    assert outcome.ledger.num_rows == 0
    assert {name: outcome.table(name).num_rows for name in ("kept", "pairs", "quarantine")} == {
        "kept": 0,
        "pairs": 0,
        "quarantine": 0,
    }
    assert [part.name for part in (outcome.output / "ledger").iterdir()] == ["part-00000.parquet"]
