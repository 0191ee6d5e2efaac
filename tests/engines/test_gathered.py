"""What the local engine keeps of every document equals what was described, whatever the batches were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.config import load_config
from dedup_pipeline.documents import Plan, describe, make_plan
from dedup_pipeline.engines.gathered import Gathered, Gatherer
from dedup_pipeline.errors import SchemaMismatch
from dedup_pipeline.records import seen_array
from dedup_pipeline.schema import SEEN, Bad, Batch
from dedup_pipeline.sources.batches import text_array
from dedup_pipeline.store.scratch import Scratch


def plan_of(settings: dict[str, Any] | None = None) -> Plan:
    return make_plan(load_config(inputs=["x"], output="out", set=settings, threads=1))


def gathered(folder: Path, batches: list[tuple[int, Batch]], plan: Plan | None = None, sources: int = 2) -> Gathered:
    plan = plan or plan_of()
    with Scratch(folder) as scratch:
        gatherer = Gatherer(scratch, plan, [f"source{index}" for index in range(sources)])
        for index, batch in batches:
            gatherer.append(index, batch, describe(batch, plan))
        return gatherer.finish()  # what is mapped stays readable when the folder is gone


def batch_of(columns: dict[str, Any], positions: list[int], bad: tuple[Bad, ...] = (), **others: Any) -> Batch:
    arrays = {name: values if isinstance(values, pa.Array) else seen_array(values) for name, values in columns.items()}
    rows = pa.RecordBatch.from_pydict(arrays) if arrays else pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return Batch("s", pa.array(positions, pa.int64()), rows, bad, **others)


NUMBERS = [
    "source",
    "positions",
    "usable",
    "has_url",
    "has_print",
    "has_text",
    "sizes",
    "hashes",
    "weights",
    "url_high",
    "url_low",
    "print_high",
    "print_low",
    "text_high",
    "text_low",
    "bands",
    "priority",
]
STRINGS = ["ids", "urls", "canonical", "reasons", "details"]


def test_documents_of_several_sources_stand_one_after_the_other(tmp_path: Path) -> None:
    made = gathered(
        tmp_path / "scratch",
        [
            (0, batch_of({"id": ["a", "b"], "text": ["one two three", None]}, [0, 2], (Bad(1, "not_json", "detail"),))),
            (0, batch_of({"id": ["c"], "text": [""]}, [3])),
            (1, batch_of({}, [], (Bad(0, "truncated", "cut"),))),
            (1, batch_of({"id": ["d"], "url": ["http://example.com/"], "text": ["four"]}, [1])),
        ],
    )
    assert len(made) == 6
    assert made.source.tolist() == [0, 0, 0, 0, 1, 1]
    assert made.positions.tolist() == [0, 1, 2, 3, 0, 1]
    assert made.usable.tolist() == [True, False, True, True, False, True]
    assert made.ids.to_pylist() == ["a", None, "b", "c", None, "d"]
    assert made.reasons.to_pylist() == [None, "not_json", None, None, "truncated", None]
    assert made.details.to_pylist() == [None, "detail", None, None, "cut", None]
    assert made.canonical.to_pylist() == [None] * 5 + ["http://example.com/"]
    assert made.has_text.tolist() == [True, False, False, False, False, True]
    assert made.schema == pa.schema([("id", pa.string()), ("text", pa.string()), ("url", pa.string())])


def test_forgotten_shingles_are_not_mapped_any_more(tmp_path: Path) -> None:
    """On Linux the mappings of a process stand in /proc."""
    made = gathered(tmp_path / "scratch", [(0, batch_of({"id": ["a"], "text": ["one two three four"]}, [0]))])
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert "scratch/hashes" in maps.read_text()
    made.forget_shingles()
    assert (made.hashes.tolist(), made.bands.shape) == ([], (0, plan_of().bands.bands))
    assert made.sizes.tolist() == [2]
    if maps.exists():
        assert "scratch/hashes" not in maps.read_text()


def test_what_is_no_document_is_counted(tmp_path: Path) -> None:
    batches = [
        (0, batch_of({}, [], skipped={"request": 2, "dns": 1})),
        (0, batch_of({"text": ["x"]}, [0], skipped={"request": 1}, repaired=1)),
        (1, batch_of({}, [], skipped={"revisit": 5})),
    ]
    made = gathered(tmp_path / "scratch", batches)
    assert made.skipped == {"request": 3, "dns": 1, "revisit": 5}
    assert [dict(counts) for counts in made.skipped_of] == [{"request": 3, "dns": 1}, {"revisit": 5}]
    assert made.repaired == 1
    assert len(made) == 1


def test_no_documents_at_all(tmp_path: Path) -> None:
    made = gathered(tmp_path / "scratch", [])
    assert len(made) == 0
    assert made.schema == pa.schema([])
    assert list(made.rows(0, 0, np.zeros(0, np.bool_))) == []
    assert made.bands.shape[0] == 0


RECORDS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([None, "http://example.com/a", "http://example.com/b"]),
        st.sampled_from([None, "", "a b c d", "世界 wide"]),
        st.sampled_from([None, 1, 0.5, "007", ["x"]]),
    ),
    max_size=8,
)


@given(
    RECORDS,
    st.sets(st.integers(1, 7)),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
)
@settings(max_examples=60, deadline=None)
def test_nothing_depends_on_the_borders_of_batches(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Any],
    cuts: set[int],
    chosen: list[bool],
    start: int,
    end: int,
) -> None:
    def part(places: range) -> Batch:
        good = [index for index in places if records[index][0]]
        bad = tuple(Bad(index, "not_json", f"d{index}") for index in places if not records[index][0])
        columns = {name: [records[i][k] for i in good] for k, name in ((1, "url"), (2, "text"), (3, "v"))}
        return batch_of(columns, good, bad)

    plan = plan_of({"keep.policy": ["longest", "last"]})
    count = len(records)
    borders = [0, *sorted(cut for cut in cuts if cut < count), count]
    whole = gathered(tmp_path_factory.mktemp("whole") / "s", [(0, part(range(count)))], plan, 1)
    batches = [(0, part(range(low, high))) for low, high in zip(borders, borders[1:], strict=False)]
    parts = gathered(tmp_path_factory.mktemp("parts") / "s", batches, plan, 1)
    for name in NUMBERS:
        assert np.array_equal(getattr(parts, name), getattr(whole, name)), name
    for name in STRINGS:
        assert getattr(parts, name).to_pylist() == getattr(whole, name).to_pylist(), name
    assert parts.schema == whole.schema
    mask = np.array(chosen[:count], np.bool_) & whole.usable
    low, high = min(start, end, count), min(max(start, end), count)
    for documents in (whole, parts):
        rows = [row for batch in documents.rows(low, high, mask) for row in batch.to_pylist()]
        assert [row["url"] for row in rows] == [documents.urls[i].as_py() for i in range(low, high) if mask[i]]
        assert [row["text"] for row in rows] == [records[i][2] for i in range(low, high) if mask[i]]


def test_text_that_is_no_utf8_is_mended_where_it_is_written(tmp_path: Path) -> None:
    parts = [b"caf\xe9", b"fine"]
    texts = text_array([len(part) for part in parts], parts, None)
    column = pa.StructArray.from_arrays([pa.array([5, 5], pa.uint8()), texts], fields=list(SEEN))
    rows = pa.RecordBatch.from_arrays([column, column, column], names=["id", "url", "text"])
    made = gathered(tmp_path / "scratch", [(0, Batch("s", pa.array([0, 1], pa.int64()), rows, repaired=1))])
    assert made.ids.to_pylist() == made.urls.to_pylist() == ["caf\ufffd", "fine"]
    (written,) = made.rows(0, 2, np.ones(2, np.bool_))
    written.validate(full=True)
    assert written.column("text").to_pylist() == ["caf\ufffd", "fine"]


def test_encoded_columns_are_written_plain(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["a b", None]).dictionary_encode(),
        "id": pa.array(["x", "y"], pa.string_view()),
        "tags": pa.array([["t"], None], pa.large_list(pa.large_string())),
    }
    made = gathered(tmp_path / "scratch", [(0, batch_of(columns, [0, 1])), (1, batch_of({"text": ["c d"]}, [0]))])
    assert made.schema == pa.schema([("text", pa.string()), ("id", pa.string()), ("tags", pa.list_(pa.string()))])
    rows = pa.Table.from_batches(made.rows(0, 3, np.ones(3, np.bool_)))
    assert rows.column("text").to_pylist() == ["a b", None, "c d"]
    assert rows.column("tags").to_pylist() == [["t"], None, None]


def test_sources_that_disagree(tmp_path: Path) -> None:
    batches = [(0, batch_of({"n": pa.array([1])}, [0])), (1, batch_of({"n": ["one"]}, [0]))]
    with pytest.raises(SchemaMismatch, match=r"'n' is int64 in source0 but string in source1"):
        gathered(tmp_path / "scratch", batches)
