"""The first pass: what ends it, what it sets aside, and that nothing depends on threads or batches."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dedup_pipeline.config import Config, load_config
from dedup_pipeline.documents import make_plan
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.reading import batch_bytes, gather, read_options
from dedup_pipeline.errors import InputError, SourceBroken, TooManyBadRecords
from dedup_pipeline.progress import Silent
from dedup_pipeline.sources import find_sources
from dedup_pipeline.store.scratch import Scratch


class Count(Silent):
    """Adds up what a run says it has read."""

    def __init__(self) -> None:
        self.total = 0

    def advance(self, amount: int) -> None:
        self.total += amount


def config_of(folder: Path, settings: dict[str, Any] | None = None, **options: Any) -> Config:
    return load_config(inputs=[folder], output="out", set=settings, **{"threads": 1, **options})


def read(
    folder: Path, settings: dict[str, Any] | None = None, progress: Silent | None = None, **options: Any
) -> Gathered:
    config = config_of(folder, settings, **options)
    number = len(list(folder.parent.glob("pass*")))
    (folder.parent / f"pass{number}").mkdir()
    with ThreadPoolExecutor(config.threads) as pool, Scratch(folder.parent / f"pass{number}" / "scratch") as scratch:
        # What is mapped stays readable when the folder is gone.
        return gather(find_sources(config.inputs), config, make_plan(config), scratch, pool, progress or Silent())


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    folder = tmp_path / "crawl"
    folder.mkdir()
    return folder


def lines(good: int, bad: int = 0) -> str:
    return (
        "".join(f'{{"id": "{index}", "text": "words of {index} here"}}\n' for index in range(good)) + "{broken\n" * bad
    )


def test_every_document_in_order_of_source_and_position(crawl: Path) -> None:
    (crawl / "b.jsonl").write_text(lines(3))
    (crawl / "a.jsonl").write_text(lines(2))
    progress = Count()
    made = read(crawl, progress=progress)
    assert made.sources == ["crawl/a.jsonl", "crawl/b.jsonl"]
    assert made.source.tolist() == [0, 0, 1, 1, 1]
    assert made.positions.tolist() == [0, 1, 0, 1, 2]
    assert progress.total == sum(path.stat().st_size for path in crawl.iterdir())


@pytest.mark.parametrize("options", [{"threads": 3}, {"settings": {"input.batch_rows": 1}}, {"memory_limit": "256MB"}])
def test_threads_batches_and_memory_change_nothing(crawl: Path, options: dict[str, Any]) -> None:
    (crawl / "a.jsonl").write_text(lines(40, 2) + '{"n": 1}\n')
    (crawl / "b.jsonl").write_text('{"n": 0.5, "text": null}\n' * 7)
    one, other = read(crawl), read(crawl, **options)
    for name in ("source", "positions", "usable", "print_high", "bands", "sizes", "hashes", "weights"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.ids.equals(other.ids)
    assert one.schema == other.schema


def test_options_come_from_the_configuration(crawl: Path) -> None:
    settings = {
        "input.format": "warc",
        "input.status": [200, 404],
        "input.batch_rows": 7,
        "limits.record_bytes": 99,
        "limits.decompression_ratio": 5,
    }
    options = read_options(config_of(crawl, settings, threads=3))
    assert (options.format, options.status, options.batch_rows, options.record_bytes) == ("warc", (200, 404), 7, 99)
    assert (options.decompression_ratio, options.extractors) == (5, 3)


@pytest.mark.parametrize("limit", [256 * 1000**2, 10**9, 10**12])
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_batches_stay_small_beside_the_memory_limit(limit: int, threads: int) -> None:
    size = batch_bytes(limit, threads)
    assert 2 << 20 <= size <= 8 << 20
    assert batch_bytes(limit, threads + 1) <= size


# --- bad records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "fraction", "stops"),
    [
        (5, 10, 0.001, False),  # ten are always allowed
        (0, 10, 0.0, False),
        (5, 11, 0.001, True),
        (989, 11, 0.011, False),  # not more than the fraction
        (988, 11, 0.011, True),
        (5, 11, 1.0, False),
        (0, 11, 1.0, False),
    ],
)
def test_how_many_bad_records_end_a_run(crawl: Path, good: int, bad: int, fraction: float, stops: bool) -> None:
    (crawl / "a.jsonl").write_text(lines(good, bad))
    settings = {"safety.max_bad_fraction": fraction, "near.enabled": False}
    if stops:
        with pytest.raises(TooManyBadRecords, match=rf"{bad} of {good + bad} documents.*{fraction}"):
            read(crawl, settings)
    else:
        made = read(crawl, settings)
        assert np.count_nonzero(~made.usable) == bad
        assert len(made) == good + bad


def test_bad_records_are_counted_over_all_sources(crawl: Path) -> None:
    for name in "abc":
        (crawl / f"{name}.jsonl").write_text(lines(1, 4))
    with pytest.raises(TooManyBadRecords, match="12 of 15"):
        read(crawl)


# --- broken sources -----------------------------------------------------------------------------------


def cut_gzip(path: Path) -> None:
    packed = gzip.compress(lines(2000).encode())
    path.write_bytes(packed[: len(packed) * 2 // 3])


def test_a_broken_source_ends_the_run(crawl: Path) -> None:
    cut_gzip(crawl / "a.jsonl.gz")
    with pytest.raises(SourceBroken, match=r"crawl/a\.jsonl\.gz: .*broken_sources"):
        read(crawl)


def test_a_broken_source_in_quarantine_is_one_document_after_what_was_whole(crawl: Path) -> None:
    cut_gzip(crawl / "a.jsonl.gz")
    (crawl / "b.jsonl").write_text(lines(2))
    made = read(crawl, {"safety.broken_sources": "quarantine"})
    unusable = np.flatnonzero(~made.usable)
    assert len(unusable) == 1
    last = int(unusable[0])
    assert made.source.tolist() == [0] * (last + 1) + [1, 1]
    assert made.positions.tolist() == [*range(last + 1), 0, 1]
    assert 100 < last < 2000
    assert made.reasons[last].as_py()
    assert made.ids[: last - 1].to_pylist() == [str(index) for index in range(last - 1)]


def test_the_quarantine_of_a_source_does_not_count_as_more_than_one_bad_record(crawl: Path) -> None:
    (crawl / "a.jsonl").write_text(lines(3, 10))
    cut_gzip(crawl / "b.jsonl.gz")
    settings = {"safety.broken_sources": "quarantine", "safety.max_bad_fraction": 0.0}
    with pytest.raises(TooManyBadRecords, match="11 of"):
        read(crawl, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"input.text": "body"},
        {"input.id": "body"},
        {"input.url": "body"},
        {"records.fields": ["text", "body"]},
        {"keep.policy": ["newest:body"]},
        {"keep.policy": ["prefer:body=x"]},
    ],
    ids=str,
)
def test_a_configured_column_that_no_record_has_ends_the_run(crawl: Path, settings: dict[str, Any]) -> None:
    (crawl / "a.jsonl").write_text(lines(3))
    with pytest.raises(InputError) as caught:
        read(crawl, settings)
    for word in ("crawl/a.jsonl", "missing_column", "body"):
        assert word in str(caught.value)
    made = read(crawl, {**settings, "safety.broken_sources": "quarantine"})
    assert made.usable.tolist() == [True, True, True, False]
    assert made.reasons.to_pylist()[-1] == "missing_column"


def test_a_configured_column_need_not_stand_in_every_record(crawl: Path) -> None:
    (crawl / "a.jsonl").write_text(lines(3) + '{"body": "late"}\n')
    made = read(crawl, {"input.text": "body", "input.batch_rows": 1})
    assert made.has_text.tolist() == [False, False, False, True]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_source_without_documents_lacks_no_column(crawl: Path, name: str) -> None:
    (crawl / name).write_text("")
    (crawl / "z.jsonl").write_text('{"body": "x"}\n')
    assert len(read(crawl, {"input.text": "body"})) == 1


def test_columns_with_default_names_may_be_absent(crawl: Path) -> None:
    (crawl / "a.jsonl").write_text('{"other": 1}\n')
    made = read(crawl)
    assert made.ids.to_pylist() == ["crawl/a.jsonl#0"]
    assert not made.has_text.any()


def test_an_error_in_a_thread_ends_the_run(crawl: Path) -> None:
    (crawl / "a.jsonl").write_text('{"when": "soon"}\n' * 50)
    with pytest.raises(InputError, match=r"crawl/a\.jsonl, record 0: column 'when'"):
        read(crawl, {"keep.policy": ["newest:when"], "input.batch_rows": 5}, threads=2)
