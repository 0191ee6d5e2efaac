"""The manifest: all keys of the contract, counts that add up, digests that are true, figures by their formulas."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash
from conftest import Outcome, Runner
from fates import write_fates

import dedup_pipeline
from dedup_pipeline import DedupError, load_config, manifest
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.ledger import Outcome as Fates

CONTRACT = [
    "counts.read",
    "counts.kept",
    "counts.quarantined",
    "counts.no_fingerprint",
    "counts.no_text",
    "counts.dropped.urls",
    "counts.dropped.records",
    "counts.dropped.near",
    "counts.urls_changed",
    "counts.skipped",
    "counts.sources",
    "config",
    "config_fingerprint",
    "bloom.kind",
    "bloom.capacity",
    "bloom.inserted",
    "bloom.fill",
    "bloom.error_rate",
    "bloom.expected_lost",
    "lsh.num_perm",
    "lsh.bands",
    "lsh.rows",
    "lsh.threshold",
    "lsh.recall_at_threshold",
    "lsh.largest_bucket",
    "lsh.capped_buckets",
    "timings",
    "warnings",
    "inputs",
    "run",
    "created",
    "environment",
]


@pytest.fixture(scope="module")
def fates(tmp_path_factory: pytest.TempPathFactory, run_pipeline: Runner) -> Outcome:
    return run_pipeline([write_fates(tmp_path_factory.mktemp("fates"))])


@pytest.fixture(scope="module")
def crawled(sample: Path, run_pipeline: Runner) -> Outcome:
    return run_pipeline([sample])


def at(described: Any, path: str) -> Any:
    for key in path.split("."):
        described = described[key]
    return described


@pytest.mark.parametrize("path", CONTRACT)
def test_every_key_of_the_contract_is_there(fates: Outcome, path: str) -> None:
    at(fates.manifest, path)


def test_the_file_is_plain_json(fates: Outcome) -> None:
    written = (fates.output / "manifest.json").read_text(encoding="utf-8")
    assert written.endswith("}\n")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(written, parse_constant=refuse)


def test_counts_of_a_crawl_of_every_fate(fates: Outcome) -> None:
    counts = fates.manifest["counts"]
    assert {key: counts[key] for key in counts if key != "sources"} == {
        "read": 12,
        "kept": 4,
        "dropped": {"urls": 3, "records": 2, "near": 2},
        "quarantined": 1,
        "urls_changed": 1,
        "no_fingerprint": 3,
        "no_text": 3,
        "repaired": 0,
        "skipped": {},
    }
    first, second = counts["sources"]
    assert first == {
        "source": "crawl/a.jsonl",
        "read": 9,
        "kept": 3,
        "dropped": {"urls": 3, "records": 1, "near": 1},
        "quarantined": 1,
        "skipped": {},
    }
    assert second["source"] == "crawl/b.jsonl"


def adds_up(counts: dict[str, Any]) -> bool:
    return bool(counts["read"] == counts["kept"] + sum(counts["dropped"].values()) + counts["quarantined"])


def test_counts_add_up_per_source_and_in_all(fates: Outcome, crawled: Outcome) -> None:
    for outcome in (fates, crawled):
        counts = outcome.manifest["counts"]
        assert adds_up(counts)
        assert all(adds_up(source) for source in counts["sources"])
        for key in ("read", "kept", "quarantined"):
            assert counts[key] == sum(source[key] for source in counts["sources"])
        for stage in ("urls", "records", "near"):
            assert counts["dropped"][stage] == sum(source["dropped"][stage] for source in counts["sources"])
        skipped: Counter[str] = sum((Counter(source["skipped"]) for source in counts["sources"]), Counter())
        assert counts["skipped"] == skipped


def test_counts_are_those_of_the_tables(fates: Outcome, crawled: Outcome) -> None:
    for outcome in (fates, crawled):
        counts, ledger = outcome.manifest["counts"], outcome.ledger.to_pylist()
        assert counts["read"] == len(ledger)
        assert counts["kept"] == outcome.table("kept").num_rows
        assert counts["quarantined"] == outcome.table("quarantine").num_rows
        assert counts["dropped"] == {"urls": 0, "records": 0, "near": 0} | Counter(
            row["stage"] for row in ledger if row["status"] == "dropped"
        )
        assert counts["urls_changed"] == sum(row["same_content"] is False for row in ledger)
        lsh = outcome.manifest["lsh"]
        assert lsh["verified_pairs"] <= min(lsh["candidate_pairs"], outcome.table("pairs").num_rows)
        for source in counts["sources"]:
            statuses = Counter(row["status"] for row in ledger if row["source"] == source["source"])
            assert statuses["kept"] == source["kept"]
            assert statuses["dropped"] == sum(source["dropped"].values())


def test_what_is_no_document_is_counted_by_kind(crawled: Outcome) -> None:
    skipped = crawled.manifest["counts"]["skipped"]
    assert skipped
    assert list(skipped) == sorted(skipped)
    by_source = {source["source"]: source["skipped"] for source in crawled.manifest["counts"]["sources"]}
    assert by_source["sample/crawl.warc.gz"] == skipped
    assert by_source["sample/feed.jsonl"] == {}


def test_digests_and_sizes_of_inputs_and_outputs_are_true(fates: Outcome, crawled: Outcome, sample: Path) -> None:
    assert [entry["source"] for entry in crawled.manifest["inputs"]] == ["sample/crawl.warc.gz", "sample/feed.jsonl"]
    checked = [(sample.parent / entry["source"], entry) for entry in crawled.manifest["inputs"]]
    for outcome in (fates, crawled):
        listed = {entry["name"]: entry for entry in outcome.manifest["files"]}
        found = {p.relative_to(outcome.output).as_posix() for p in outcome.output.rglob("*") if p.is_file()}
        assert set(listed) == found - {"manifest.json", "report.html"}
        assert list(listed) == sorted(listed)
        checked += [(outcome.output / name, entry) for name, entry in listed.items()]
    for path, entry in checked:
        held = path.read_bytes()
        assert (len(held), xxhash.xxh3_128_hexdigest(held)) == (entry["bytes"], entry["xxh3_128"])


def test_figures_of_the_index_follow_their_formula(crawled: Outcome) -> None:
    lsh = crawled.manifest["lsh"]

    def candidate(similarity: float) -> float:
        return 1 - (1 - similarity ** lsh["rows"]) ** lsh["bands"]

    assert lsh["bands"] * lsh["rows"] <= lsh["num_perm"]
    assert lsh["recall_at_threshold"] == pytest.approx(candidate(lsh["threshold"]), rel=1e-12)
    assert lsh["recall_at_threshold"] >= lsh["target_recall"]
    for point, chance in lsh["curve"].items():
        assert chance == pytest.approx(candidate(float(point)), rel=1e-12)
    assert lsh["verified_pairs"] > 0
    assert lsh["largest_bucket"] > 1
    assert lsh["capped_buckets"] == 0


def test_the_seen_set_of_a_run_is_exact(fates: Outcome) -> None:
    assert fates.manifest["bloom"] == {
        "kind": "exact",
        "chosen": "auto",
        "capacity": None,
        "inserted": 6,
        "fill": None,
        "error_rate": 0.0,
        "final_error_rate": 0.0,
        "expected_lost": 0.0,
        "dropped": 0,
    }


def test_a_run_is_named_by_what_it_read_and_how(tmp_path: Path, run_pipeline: Runner) -> None:
    crawl = write_fates(tmp_path)
    first = run_pipeline([crawl]).manifest
    again = run_pipeline([crawl / "b.jsonl", crawl / "a.jsonl"], threads=1).manifest
    assert len(first["run"]) == 32
    assert again["run"] != first["run"]  # the sources have other names now
    assert run_pipeline([crawl], {"input.batch_rows": 3}, threads=1).manifest["run"] == first["run"]
    other = run_pipeline([crawl], {"near.threshold": 0.81}).manifest
    assert other["run"] != first["run"]
    assert other["config_fingerprint"] != first["config_fingerprint"]
    (crawl / "b.jsonl").write_text('{"text": "changed"}\n')
    assert run_pipeline([crawl]).manifest["run"] != first["run"]


def test_equal_runs_differ_in_times_and_surroundings_alone(tmp_path: Path, run_pipeline: Runner) -> None:
    crawl = write_fates(tmp_path)
    first = run_pipeline([crawl]).manifest
    second = run_pipeline([crawl], {"input.batch_rows": 1}, threads=1).manifest
    differing = {key for key in first if first[key] != second[key]}
    assert "environment" in differing
    assert differing <= {"environment", "timings", "created"}
    assert list(first) == list(second)


def test_versions_of_all_that_decides_are_named(fates: Outcome) -> None:
    assert fates.manifest["dedup_pipeline"] == dedup_pipeline.__version__
    schemes = fates.manifest["schemes"]
    assert set(schemes) == {"canonical_url", "fingerprint", "shingles", "unicode", "minhash", "extractor"}
    assert all(schemes.values())
    assert set(fates.manifest["environment"]["libraries"]) >= {"pyarrow", "numpy", "numba", "duckdb"}


def test_settings_stand_in_the_manifest_as_given(tmp_path: Path, run_pipeline: Runner) -> None:
    outcome = run_pipeline([write_fates(tmp_path)], {"near.n": 4, "records.fields": ["text", "id"]})
    assert outcome.manifest["config"]["near"]["n"] == 4
    assert outcome.manifest["config"]["records"]["fields"] == ["text", "id"]
    assert "batch_rows" not in outcome.manifest["config"]["input"]


@pytest.mark.parametrize("counted", [(8, 3), (10, 3), (8, 4), (9, 2)])
def test_a_document_that_is_not_accounted_for_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: tuple[int, int]
) -> None:
    """P1 is checked in every run: the counts of the reading, (9, 3), against those of the deciding."""
    real = manifest.counts_of

    def counts_of(documents: Gathered, outcome: Fates) -> dict[str, Any]:
        return real(replace(documents, read_of=list(counted)), outcome)

    monkeypatch.setattr(manifest, "counts_of", counts_of)
    with pytest.raises(DedupError, match="accounted for"):
        dedup_pipeline.run(load_config(inputs=[write_fates(tmp_path)], output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_recall_of_few_permutations_is_told(tmp_path: Path, run_pipeline: Runner) -> None:
    outcome = run_pipeline([write_fates(tmp_path)], {"near.num_perm": 2, "near.target_recall": 0.9999})
    lsh = outcome.manifest["lsh"]
    assert math.isclose(lsh["recall_at_threshold"], 1 - (1 - 0.8 ** lsh["rows"]) ** lsh["bands"])
    assert lsh["recall_at_threshold"] < 0.9999
    assert any("near.target_recall" in warning for warning in outcome.manifest["warnings"])
