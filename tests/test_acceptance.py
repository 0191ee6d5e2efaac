"""A whole run, judged from outside: by the oracle, by exact truth, and by its own bytes.

Everything here reads what a run published (and the input files); nothing looks inside the package.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import CommandLine, Outcome, Runner
from oracle import (
    DEFAULT,
    Identity,
    Record,
    Rule,
    Shingled,
    brute,
    check_promises,
    count_differences,
    decide,
    records_of,
    records_of_jsonl,
    replay,
    tokens,
)

PLAIN: dict[str, Any] = {"near.boilerplate": "off", "near.mask": []}
LABELLED = (
    "asysd_diabetes",
    "bibdedupe_cytology_screening",
    "bibdedupe_digital_work",
    "bibdedupe_haematology",
    "bibdedupe_respiratory",
    "bibdedupe_stroke",
    "licences",
    "mccormick_1000",
)


def no(problems: Sequence[object]) -> None:
    """Fails with the number of problems and the first few of them."""
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(map(str, problems[:20]))


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def promises(outcome: Outcome, records: Sequence[Record], documents: pa.Table, rule: Rule = DEFAULT) -> list[str]:
    kept, read = columns_of(outcome.table("kept")), columns_of(documents)
    same = outcome.ledger.equals(outcome.table("ledger"))
    problems = [] if same else ["the ledger that the run returns is not the ledger on disk"]
    problems += [] if list(kept) == list(read) else [f"kept has the columns {list(kept)}, the input {list(read)}"]
    return problems + check_promises(outcome.ledger, records, kept, read, outcome.manifest, rule)


def rule_settings(rule: Rule) -> dict[str, Any]:
    return PLAIN | {
        "keep.policy": [rule.policy],
        "near.threshold": rule.threshold,
        "near.n": rule.n,
        "near.shingle": rule.kind,
        "urls.changed": rule.changed,
    }


def write_corpus(shared_data: Path, folder: Path, rows: Iterable[tuple[int, int]]) -> list[Path]:
    """Rows (start, length) of the four parts of the corpus as four files."""
    paths = []
    for k, (start, length) in enumerate(rows):
        path = folder / f"rows-{k}.parquet"
        pq.write_table(pq.read_table(shared_data / "corpus" / f"part-{k}.parquet").slice(start, length), path)
        paths.append(path)
    return paths


def records_of_files(paths: Sequence[Path], fields: Sequence[str] = ("text",)) -> list[Record]:
    return [r for path in paths for r in records_of(pq.read_table(path), path.name, fields=fields)]


# --- the rule and the promises ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", LABELLED)
def test_labelled_sets_follow_the_rule(name: str, shared_data: Path, run_pipeline: Runner) -> None:
    path = shared_data / "labelled" / name / "documents.parquet"
    documents = pq.read_table(path)
    records = records_of(documents, "documents.parquet")
    outcome = run_pipeline([path], PLAIN)
    shingled = Shingled(3, "word")
    no(replay(records, outcome.ledger, outcome.table("pairs"), DEFAULT, shingled))
    no(promises(outcome, records, documents))
    missed = brute(records, outcome.kept, DEFAULT, shingled)
    assert missed.both_kept_of_distinct_text <= 0.02 * missed.pairs_of_distinct_text, missed


def test_the_manifest_returned_is_the_manifest_written(tmp_path: Path, run_pipeline: Runner) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": "x"}\n', encoding="utf-8")
    outcome = run_pipeline([path], PLAIN)
    assert outcome.returned == outcome.manifest


VARIANTS = [
    ("asysd_diabetes", Rule(policy="last"), ("text",)),
    ("asysd_diabetes", Rule(policy="longest"), ("text",)),
    ("asysd_diabetes", Rule(), ("title", "author")),
    ("asysd_diabetes", Rule(policy="longest", threshold=0.6, n=2), ("title", "author", "year")),
    ("bibdedupe_cytology_screening", Rule(policy="last", threshold=0.5), ("title", "author")),
    ("bibdedupe_stroke", Rule(policy="longest", threshold=0.55, n=5, kind="char"), ("text",)),
    ("bibdedupe_haematology", Rule(threshold=1.0), ("title", "volume", "number")),
    ("bibdedupe_respiratory", Rule(threshold=0.9, n=1), ("text",)),
]


@pytest.mark.parametrize(("name", "rule", "fields"), VARIANTS)
def test_other_settings_follow_the_rule(
    name: str, rule: Rule, fields: tuple[str, ...], shared_data: Path, run_pipeline: Runner
) -> None:
    path = shared_data / "labelled" / name / "documents.parquet"
    documents = pq.read_table(path)
    records = records_of(documents, "documents.parquet", fields=fields)
    outcome = run_pipeline([path], rule_settings(rule) | {"records.fields": list(fields)})
    no(replay(records, outcome.ledger, outcome.table("pairs"), rule))
    no(promises(outcome, records, documents, rule))


def test_the_sample_follows_the_rule(sample: Path, run_pipeline: Runner) -> None:
    # A run that compares nothing keeps everything: its kept rows are the documents as they were read.
    idle = {"urls.enabled": False, "records.enabled": False, "near.enabled": False}
    as_read = run_pipeline([sample], PLAIN | idle)
    everything = as_read.table("kept")
    usable = [row for row in as_read.ledger.to_pylist() if row["status"] == "kept"]
    assert len(usable) == everything.num_rows > 0
    sources, positions = [r["source"] for r in usable], [r["position"] for r in usable]
    named = [a or b for a, b in zip(*(everything.column(n).to_pylist() for n in ("id", "record_id")), strict=True)]
    records = [replace(r, id=id_) for r, id_ in zip(records_of(everything, sources, positions), named, strict=True)]
    for i, row in enumerate(usable):
        assert (row["id"], row["url"]) == (records[i].id, records[i].url)
    jsonl = {r.identity: r for path in sorted(sample.glob("*.jsonl")) for r in records_of_jsonl(path, path.name)}
    for r in records:
        name = r.source.rsplit("/", 1)[-1]
        if name.endswith(".jsonl"):
            line = jsonl.pop((name, r.position))
            assert (line.id, line.url, line.text) == (r.id, r.url, r.text)
    assert not jsonl, "JSON lines that are no documents"
    for policy in ("first", "last", "longest"):
        outcome = run_pipeline([sample], PLAIN | {"keep.policy": [policy]})
        no(replay(records, outcome.ledger, outcome.table("pairs"), Rule(policy)))
        no(promises(outcome, records, everything, Rule(policy)))
        assert all(count > 0 for count in outcome.manifest["counts"]["dropped"].values())


def test_rows_of_the_corpus_follow_the_rule(shared_data: Path, tmp_path: Path, run_pipeline: Runner) -> None:
    paths = write_corpus(shared_data, tmp_path, [(0, 3000), (5000, 3000), (10000, 3000), (34000, 3000)])
    records = records_of_files(paths)
    assert len(records) == 12_000
    outcome = run_pipeline(paths, PLAIN)
    shingled = Shingled(3, "word")
    no(replay(records, outcome.ledger, outcome.table("pairs"), DEFAULT, shingled))
    no(promises(outcome, records, pa.concat_tables(pq.read_table(path) for path in paths)))
    missed = brute(records, outcome.kept, DEFAULT, shingled)
    assert missed.pairs_of_distinct_text > 100
    assert missed.both_kept_of_distinct_text <= 0.02 * missed.pairs_of_distinct_text, missed


@pytest.mark.nightly
def test_the_whole_corpus_keeps_the_promises(shared_data: Path, run_pipeline: Runner) -> None:
    paths = sorted((shared_data / "corpus").glob("part-*.parquet"))
    documents = pa.concat_tables(pq.read_table(path) for path in paths)
    outcome = run_pipeline(paths, PLAIN)
    records = records_of_files(paths)
    assert len(records) == outcome.manifest["counts"]["read"] == 149_479
    no(promises(outcome, records, documents))
    empty = {r.identity for r in records if r.text == ""}
    assert len(empty) == 481
    no(sorted(empty - outcome.kept))
    assert outcome.manifest["counts"]["dropped"]["records"] > 5_000
    assert outcome.manifest["counts"]["dropped"]["near"] > 10_000


# --- a crawl full of difficulties ------------------------------------------------------------------------

SCRIPTS = ("日本語の文章です", "ภาษาไทยก็ดี", "straße ΣΟΦΟΣ İzmir", "cafe\u0301 µm ½", "한국어", "می\u200cخواهم", "😀")


def planted(seed: int, size: int = 2500) -> list[dict[str, Any]]:
    """Rows of a made-up crawl: few URLs, texts that differ by a few words from earlier ones, equal texts
    under other titles, empty, missing and null texts, texts of one word, several scripts."""
    random_ = random.Random(seed)
    words = [f"word{i}" for i in range(400)] + list(SCRIPTS)
    written = [random_.choices(words, k=random_.choice((1, 2, 3, 12, 30, 60, 200))) for _ in range(40)]
    rows: list[dict[str, Any]] = []
    for i in range(size):
        text = list(random_.choice(written))
        for _ in range(random_.choice((0, 0, 0, 1, 1, 2, 4))):
            at = random_.randrange(len(text))
            text[at : at + random_.randint(0, 1)] = random_.choices(words, k=random_.randint(0, 2))
            text = text or ["left"]
        if random_.random() < 0.3:
            written.append(text)
        joined = random_.choice((" ", " ", ", ", "\n")).join(text)
        joined = joined.upper() if random_.random() < 0.05 else joined
        row: dict[str, Any] = {"id": f"r{i % 2000}", "title": random_.choice(("A", "B", "", None)), "text": joined}
        row["text"] = random_.choice(("", None, "...", "?!")) if random_.random() < 0.04 else joined
        page = random_.randrange(size)
        variant = random_.choice(("", "?utm_source=feed", "#top"))
        row["url"] = None if random_.random() < 0.3 else f"http://site{page % 7}.example/p{page // 3}{variant}"
        rows.append({k: v for k, v in row.items() if k not in ("title", "text") or v is not None or i % 2})
    return rows


def write_planted(folder: Path, seed: int) -> tuple[list[Path], list[Record], pa.Table]:
    """A planted crawl in two JSONL files with a few lines that are no JSON, and a Parquet file between."""
    fields, rows = ("title", "text"), planted(seed)
    schema = pa.schema([(name, pa.string()) for name in ("id", "title", "text", "url")])
    first, middle, last = folder / "a.jsonl", folder / "b.parquet", folder / "c.jsonl"
    for path, part in ((first, rows[:900]), (last, rows[1700:])):
        lines = [json.dumps(row, ensure_ascii=bool(i % 2)) for i, row in enumerate(part)]
        lines.insert(100, '{"id": "cut')
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows[900:1700], schema), middle, row_group_size=123)
    records = [
        *records_of_jsonl(first, first.name, fields),
        *records_of(pq.read_table(middle), middle.name, fields=fields),
        *records_of_jsonl(last, last.name, fields),
    ]
    return [first, middle, last], records, pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize(
    ("seed", "rule"),
    [
        (1, Rule()),
        (2, Rule(policy="last")),
        (3, Rule(policy="longest")),
        (4, Rule(changed="keep")),
        (5, Rule(threshold=0.5, n=2)),
        (6, Rule(policy="longest", threshold=0.9, n=4, kind="char", changed="keep")),
    ],
)
def test_a_planted_crawl_follows_the_rule(seed: int, rule: Rule, tmp_path: Path, run_pipeline: Runner) -> None:
    paths, records, documents = write_planted(tmp_path, seed)
    fields = ("title", "text")
    outcome = run_pipeline(paths, rule_settings(rule) | {"records.fields": list(fields)})
    assert outcome.manifest["counts"]["quarantined"] == outcome.table("quarantine").num_rows == 2
    least = 50 if rule.changed == "drop" else -1  # hardly a page of these comes back unchanged
    assert all(count > least for count in outcome.manifest["counts"]["dropped"].values())
    shingled = Shingled(rule.n, rule.kind)
    no(replay(records, outcome.ledger, outcome.table("pairs"), rule, shingled))
    kept = outcome.table("kept")
    no(promises(outcome, records, documents.select(kept.column_names), rule))
    missed = brute(records, outcome.kept, rule, shingled)
    assert missed.both_kept_of_distinct_text <= 0.02 * missed.pairs_of_distinct_text, missed
    if missed.both_kept == 0:
        # Nothing was missed, so over all pairs the rule hardly says anything else.
        keys = outcome.ledger.filter(pa.compute.not_equal(outcome.ledger["status"], "quarantined"))["canonical_url"]
        judged = [
            Record(r.source, r.position, r.id, r.url, key, r.fields, r.text)
            for r, key in zip(records, keys.to_pylist(), strict=True)
        ]
        assert count_differences(outcome.ledger, judged, decide(judged, rule, shingled)) <= 0.005 * len(records)


# --- recall against exact truth --------------------------------------------------------------------------


def truth_sample(name: str, shared_data: Path, folder: Path) -> tuple[Path, list[tuple[Identity, Identity, bool]]]:
    """The documents of a truth set as one file; its pairs with J >= .8, and whether their texts are equal."""
    ids = pq.read_table(shared_data / "truth" / f"{name}_ids.parquet").column("id").to_pylist()
    wanted = set(ids)
    corpus = [pq.read_table(shared_data / "corpus" / f"part-{k}.parquet") for k in range(4)]
    rows = [row for part in corpus for row in part.to_pylist() if row["id"] in wanted]
    assert len(rows) == len(ids)
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, corpus[0].schema), path)
    at = {row["id"]: i for i, row in enumerate(rows)}
    pairs = []
    for row in pq.read_table(shared_data / "truth" / f"{name}.parquet").to_pylist():
        if row["jaccard"] >= 0.8:
            a, b = at[row["id_a"]], at[row["id_b"]]
            pairs.append(((path.name, a), (path.name, b), rows[a]["text"] == rows[b]["text"]))
    return path, pairs


TRUTH = [("spine_law_12k", 734, 1), pytest.param("kafka_docs_8k", 15_341, 6_531, marks=pytest.mark.nightly)]


@pytest.mark.parametrize(("name", "similar", "equal"), TRUTH)
def test_at_most_two_percent_of_true_pairs_stay_together(
    name: str, similar: int, equal: int, shared_data: Path, tmp_path: Path, run_pipeline: Runner
) -> None:
    path, pairs = truth_sample(name, shared_data, tmp_path)
    assert (len(pairs), sum(same for *_, same in pairs)) == (similar, equal)
    # URLs are left out: they could only hide a pair that the near stage missed.
    outcome = run_pipeline([path], PLAIN | {"near.n": 3, "near.threshold": 0.8, "urls.enabled": False})
    kept = outcome.kept
    both = [(a, b, same) for a, b, same in pairs if a in kept and b in kept]
    distinct = [pair for pair in both if not pair[2]]
    print(f"{name}: {len(both)} of {similar}, without equal texts {len(distinct)} of {similar - equal} both kept")
    assert len(both) <= 0.02 * similar
    assert len(distinct) <= 0.02 * (similar - equal)
    # What the run found of the pairs between first records of distinct texts.
    rows = pq.read_table(path).column("text").to_pylist()
    first = {text: i for i, text in reversed(list(enumerate(rows)))}
    table = columns_of(outcome.table("pairs").select(["position_a", "position_b"]))
    found = set(zip(table["position_a"], table["position_b"], strict=True))
    true = {
        (a[1], b[1]) for a, b, same in pairs if not same and first[rows[a[1]]] == a[1] and first[rows[b[1]]] == b[1]
    }
    true = {(min(pair), max(pair)) for pair in true}
    print(f"{name}: {len(true & found)} of {len(true)} true pairs of distinct texts stand in the pairs table")
    assert len(true & found) >= 0.98 * len(true)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["spine_law_12k", "kafka_docs_8k"])
def test_truth_sets_follow_the_rule(name: str, shared_data: Path, tmp_path: Path, run_pipeline: Runner) -> None:
    path, _ = truth_sample(name, shared_data, tmp_path)
    documents = pq.read_table(path)
    records = records_of(documents, path.name)
    for policy in ("first", "longest"):
        outcome = run_pipeline([path], PLAIN | {"keep.policy": [policy]})
        no(replay(records, outcome.ledger, outcome.table("pairs"), Rule(policy)))
        no(promises(outcome, records, documents, Rule(policy)))


@pytest.mark.nightly
def test_hardly_a_document_has_other_tokens_than_python_finds(shared_data: Path) -> None:
    differing = total = 0
    for path in sorted((shared_data / "corpus").glob("part-*.parquet")):
        for text in pq.read_table(path, columns=["text"]).column("text").to_pylist():
            total += 1
            # For ASCII both say [0-9a-z_]+ of the lower-cased text.
            differing += not text.isascii() and tokens(text) != re.findall(r"\w+", text.lower())
    print(f"{differing} of {total} documents ({differing / total:.3%}) have other tokens")
    assert 0 < differing < 0.002 * total


# --- the same bytes --------------------------------------------------------------------------------------


def digests(output: Path) -> dict[str, str]:
    """SHA-256 of every file that must not depend on how a run was made."""
    tables = ("kept", "ledger", "pairs", "quarantine")
    return {
        str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest()
        for table in tables
        for path in sorted((output / table).glob("*"))
    }


WAYS = {
    "hash seed 0": (False, 2, 50_000, "0"),
    "hash seed 1": (False, 2, 50_000, "1"),
    "hash seed random": (False, 2, 50_000, "random"),
    "one thread": (False, 1, 50_000, "random"),
    "small batches": (False, 2, 1_000, "random"),
    "tiny batches": (False, 2, 37, "random"),
    "other order": (True, 2, 50_000, "random"),
    "all of it": (True, 1, 1_000, "1"),
}


def all_ways(paths: Sequence[Path], folder: Path, command_line: CommandLine) -> dict[str, dict[str, str]]:
    found = {}
    for way, (turned, threads, batch_rows, seed) in WAYS.items():
        output = folder / way.replace(" ", "-")
        done = command_line(
            "run", *(reversed(paths) if turned else paths), "--output", output, "--threads", str(threads),
            "--set", f"input.batch_rows={batch_rows}", "--set", 'near.boilerplate="off"', "--no-report", "--quiet",
            PYTHONHASHSEED=seed,
        )  # fmt: skip
        assert done.returncode == 0, f"{way}: {done.stderr}"
        found[way] = digests(output)
    return found


def assert_same_bytes(found: dict[str, dict[str, str]]) -> None:
    first = found["hash seed 0"]
    assert {name.split("/")[0] for name in first} >= {"kept", "ledger", "pairs"}
    for way, files in found.items():
        differing = sorted(name for name in first.keys() | files.keys() if first.get(name) != files.get(name))
        assert not differing, f"{way}: other bytes than with hash seed 0 in {differing}"


def test_a_planted_crawl_gives_the_same_bytes(tmp_path: Path, command_line: CommandLine) -> None:
    paths, _, _ = write_planted(tmp_path, 7)
    assert_same_bytes(all_ways(paths, tmp_path, command_line))


@pytest.mark.nightly
def test_the_sample_gives_the_same_bytes(sample: Path, tmp_path: Path, command_line: CommandLine) -> None:
    paths = sorted(path for path in sample.iterdir() if path.is_file())
    assert len(paths) > 1
    assert_same_bytes(all_ways(paths, tmp_path, command_line))


@pytest.mark.nightly
def test_rows_of_the_corpus_give_the_same_bytes(shared_data: Path, tmp_path: Path, command_line: CommandLine) -> None:
    paths = write_corpus(shared_data, tmp_path, [(0, 9000), (5000, 9000), (10000, 9000), (25000, 9000)])
    assert_same_bytes(all_ways(paths, tmp_path, command_line))


@pytest.mark.nightly
def test_the_whole_corpus_gives_the_same_bytes(shared_data: Path, tmp_path: Path, command_line: CommandLine) -> None:
    paths = sorted((shared_data / "corpus").glob("part-*.parquet"))
    assert_same_bytes(all_ways(paths, tmp_path, command_line))
