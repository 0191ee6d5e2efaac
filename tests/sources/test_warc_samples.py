"""Every file of the archive samples ends as read, or with reasons that are true of it."""

from __future__ import annotations

import csv
from ast import literal_eval
from pathlib import Path

import pytest

from dedup_pipeline.sources import Extraction, ReadOptions, find_sources

from .conftest import Reading, read_whole

# What is wrong with files, by the end of their path: reasons of bad records by position, then the source's own reason.
# Each was looked at by eye; README.md of the data and the names of the files say what most are meant to be.
FAULTS: dict[str, tuple[dict[int, str], str | None]] = {
    "arc/badexample.arc.gz": ({3: "bad_header", 4: "wrong_length"}, "truncated"),
    "tests/data/clipped.warc.gz": ({}, "truncated"),
    "CC-MAIN-2024-22.warc.paths.gz": ({}, "unknown_format"),
    "tests/data/sample.warc.txt": ({0: "wrong_length", 1: "wrong_length", 2: "wrong_length"}, "wrong_length"),
    "gzip/abcd.gz": ({}, "unknown_format"),
    "gzip/double-single-inflate-error.gz": ({}, "corrupt"),
    "gzip/hi.gz": ({}, "unknown_format"),
    "gzip/hi-2.gz": ({}, "unknown_format"),
    "testdata/dictionary": ({}, "unknown_format"),
    "invalid-arcfile-record-then-garbage.arc": ({}, "truncated"),
    "invalid-compression.gz": ({}, "corrupt"),
    "invalid-entries.gz": ({}, "corrupt"),
    "invalid-magic.gz": ({}, "unknown_format"),
    "invalid-truncated.gz": ({}, "truncated"),
    "resources/sample.txt.gz": ({}, "unknown_format"),
    "resources/three-files.gz": ({}, "unknown_format"),
    "invalid-warcfile-fields-empty.warc": ({}, "bad_header"),
    "invalid-warcfile-fields-invalidformat.warc": ({}, "bad_header"),
    "invalid-warcfile-fields-missing.warc": ({0: "bad_header"}, None),
    "invalid-warcfile-lonely-continuation.warc": ({0: "bad_header"}, None),
    "invalid-warcfile-lonely-monkeys.warc": ({0: "bad_header"}, None),
    "lonely-request-response-resource-conversion.warc": (dict.fromkeys(range(4), "bad_header"), None),
    "invalid-warcfile-lonely-revisit.warc": ({0: "bad_header"}, None),
    "invalid-warcfile-lonely-warcinfo-metadata.warc": ({0: "bad_header", 1: "bad_header"}, None),
    "invalid-warcfile-segment-number-response.warc": ({0: "segmented", 1: "segmented"}, None),
    "warcs/HTTP204.warc": ({0: "wrong_length", 1: "wrong_length"}, None),
    "warcs/broken.warc": ({}, "wrong_length"),
    "warcs/redirect.warc": ({}, "truncated"),
    "sample_archive/warcs/example.warc": ({4: "wrong_length"}, None),
    "missing-status-text.warc": ({}, "bad_header"),
    "example-bad-length.warc": ({2: "wrong_length"}, None),
    "warcio/test/data/bad.arc": ({1: "bad_header", 3: "bad_header"}, None),
    "example-space-in-url.arc": ({}, "truncated"),
    "example-trunc.warc": ({2: "wrong_length"}, None),
}
NOT_READ = (".cdx", ".cdxj", ".cdx.gz", ".idx", ".loc", ".wacz")

DOCUMENTS = {
    "dolma/tests/data/warc/sample-0000.warc.gz": 22,
    "dolma/tests/data/warc/sample-0001.warc.gz": 15,
    "cc-arc-sample/small-sample-1262850551027_8.arc": 8,
    "en0000/00.warc.gz": 23,
    "warcfile.warc": 16,
    "warcfile.warc.gz": 16,
    "warcfile.warc.lz4": 16,
    "good.warc.gz.open": 50,
    "go-wikipedia-focused-crawler/items.jl": 10,
    "packages_java6.jl": 203,
    "packages_java8.jl": 217,
    "cc_en_head-0091.jsonl.gz": 10,
    "formats/test.jsonl.zst": 1,
    "whirlwind.warc.wet": 1,
    "whirlwind.warc.wat": 0,
    "empty.gz": 0,
    "empty.warc.gz.open": 0,
    "post-test.warc.gz": 0,
    "iana.warc.gz": 44,
}


@pytest.fixture(scope="module")
def samples(shared_data: Path, pool: Extraction) -> dict[str, Reading]:
    sources = [source for source in find_sources([str(shared_data / "warc")]) if source.name.count("/") > 1]
    return {source.name: read_whole(source, ReadOptions(), pool) for source in sources}


def of(samples: dict[str, Reading], ending: str) -> Reading:
    (found,) = [reading for name, reading in samples.items() if name.endswith(ending)]
    return found


def test_all_of_them(samples: dict[str, Reading]) -> None:
    assert len(samples) == 203


def test_reasons_are_true(samples: dict[str, Reading]) -> None:
    for ending in FAULTS:
        of(samples, ending)
    for name, got in samples.items():
        expected = [fault for ending, fault in FAULTS.items() if name.endswith(ending)] or [({}, None)]
        if name.endswith(NOT_READ):
            assert (got.reasons, got.reason, got.rows) == ({}, "unknown_format", {}), name
        else:
            assert (got.reasons, got.reason) == expected[0], name


@pytest.mark.parametrize("ending", DOCUMENTS)
def test_documents(samples: dict[str, Reading], ending: str) -> None:
    assert len(of(samples, ending).rows) == DOCUMENTS[ending]


def test_garbage_behind_members(samples: dict[str, Reading]) -> None:
    for ending, documents in (("corrupted-mid-record.warc.gz.open", 12), ("corrupted-trailing-bytes.warc.gz.open", 30)):
        got = of(samples, ending)
        assert (len(got.rows), got.skipped) == (documents, {"trailing_garbage": 1})


def test_records_are_those_that_another_reader_counts(samples: dict[str, Reading], shared_data: Path) -> None:
    compared = 0
    for line in csv.DictReader((shared_data / "warc" / "PROBE.csv").read_text().splitlines()):
        got = samples["warc/" + line["file"]]
        theirs = literal_eval(line["records"])
        if line["error"] or got.broken or got.bad or any(kind != kind.strip() for kind in theirs):
            continue  # theirs stops early or passes over what ours names
        compared += 1
        kinds = {kind.lower(): 0 for kind in theirs if ":" not in kind}
        for kind, count in theirs.items():
            if ":" not in kind:
                kinds[kind.lower()] += count
        ours = dict(got.skipped)
        documents = len(got.rows) + sum(
            count for kind, count in ours.items() if kind.startswith(("status_", "method_", "dns", "not_http"))
        )
        assert documents == kinds.get("response", 0) + kinds.get("conversion", 0), line["file"]
        assert ours.get("warcinfo", 0) + ours.get("arc_header", 0) == kinds.get("warcinfo", 0), line["file"]
        for kind in ("request", "metadata", "revisit", "resource", "continuation", "unknown"):
            assert ours.get(kind, 0) == kinds.get(kind, 0), (line["file"], kind)
    assert compared > 100


def test_the_two_halves_of_one_crawl(samples: dict[str, Reading], shared_data: Path, pool: Extraction) -> None:
    every = ReadOptions(status=tuple(range(100, 600)))
    payloads = []
    for ending in (
        "jwat-gzip/src/test/resources/IAH-20080430204825-00000-blackbook.warc.gz",
        "IAH-20080430204825-00000-blackbook.arc.gz",
    ):
        allowed = of(samples, ending)
        assert len(allowed.rows) == 214
        assert allowed.skipped["dns"] == 38
        assert sum(count for kind, count in allowed.skipped.items() if kind.startswith("status_")) == 261 - 214
        (source,) = [s for s in find_sources([str(shared_data / "warc")]) if s.name.endswith(ending)]
        rows = read_whole(source, every, pool).rows.values()
        assert len(rows) == 261
        assert len({row["payload_digest"] for row in rows}) == 183
        payloads.append({(row["url"], row["payload_digest"], row["text"], row["title"]) for row in rows})
    assert payloads[0] == payloads[1]


def test_one_payload_in_four_codings(samples: dict[str, Reading]) -> None:
    digests = {
        row["payload_digest"]
        for name, got in samples.items()
        if "/transfer_compression_" in name
        for row in got.rows.values()
    }
    assert len(digests) == 1


def test_equal_archives_in_three_compressions(samples: dict[str, Reading]) -> None:
    essences = [of(samples, f"tests/data/warcfile.warc{ending}").essence() for ending in ("", ".gz", ".lz4")]
    assert essences[0] == essences[1] == essences[2]


def test_chunked_pages_are_decoded(samples: dict[str, Reading]) -> None:
    plain = [
        of(samples, f"samples/warcs/baconIpsum{ending}").rows
        for ending in (".warc.gz", "_chunked.warc", "_chunked_httpTrailors.warc")
    ]
    texts = {row["text"] for rows in plain for row in rows.values()}
    assert len(texts) == 1


def test_charsets(samples: dict[str, Reading]) -> None:
    seen = {row["charset"] for row in of(samples, "tests/data/warcfile.warc").rows.values()}
    assert {b"utf-8", b"gbk", b"cp1251"} <= seen


@pytest.mark.parametrize("batch_rows", [1, 7])
def test_batches_never_change_what_is_read(
    samples: dict[str, Reading], batch_rows: int, shared_data: Path, pool: Extraction
) -> None:
    for source in find_sources([str(shared_data / "warc")]):
        if source.name in samples:
            assert (
                read_whole(source, ReadOptions(batch_rows=batch_rows), pool).essence() == samples[source.name].essence()
            )
