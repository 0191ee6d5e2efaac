"""Parts: their borders depend on the rows alone, and equal rows give equal bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.errors import OutputError
from dedup_pipeline.store import parts as module
from dedup_pipeline.store.parts import Part, plan_parts, write_part, write_parts

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("kind", pa.string())])


def table(count: int) -> pa.Table:
    return pa.table(
        {
            "id": range(count),
            "text": [f"text {n}" for n in range(count)],
            "kind": [["a", None, "b"][n % 3] for n in range(count)],
        },
        schema=SCHEMA,
    )


def slow_plan(weights: list[int], chosen: list[bool]) -> list[list[int]]:
    """Row groups as lists of documents, and the part of each, written plainly."""
    groups: list[list[int]] = []
    current: list[int] = []
    for number, (weight, wanted) in enumerate(zip(weights, chosen, strict=True)):
        if not wanted:
            continue
        current.append(number)
        if sum(weights[n] for n in current) >= module.GROUP_BYTES or len(current) >= module.GROUP_ROWS:
            groups.append(current)
            current = []
        del weight
    return [*groups, current] if current else groups


@given(st.lists(st.tuples(st.sampled_from([1, 5 << 20, 17 << 20, 70 << 20]), st.booleans()), max_size=60))
def test_groups_and_parts_end_where_the_plain_rule_says(rows: list[tuple[int, bool]]) -> None:
    weights, chosen = [row[0] for row in rows], [row[1] for row in rows]
    planned = plan_parts(np.array(weights, dtype=np.int64), np.array(chosen, dtype=np.bool_))
    got = [[n for n in range(start, end) if chosen[n]] for part in planned for start, end in part.groups]
    assert got == slow_plan(weights, chosen)
    assert [part.number for part in planned] == list(range(len(planned)))
    for part in planned[:-1]:
        inside = sum(weights[n] for start, end in part.groups for n in range(start, end) if chosen[n])
        last = sum(weights[n] for n in range(*part.groups[-1]) if chosen[n])
        assert inside >= module.PART_BYTES > inside - last


def test_many_rows_end_a_group_and_a_part() -> None:
    count = module.PART_ROWS + 5
    planned = plan_parts(np.ones(count, dtype=np.int64), np.ones(count, dtype=np.bool_))
    assert len(planned) == 2
    assert {end - start for start, end in planned[0].groups} == {module.GROUP_ROWS}
    assert planned[1].groups == [(module.PART_ROWS, count)]


def test_nothing_chosen_plans_nothing() -> None:
    assert plan_parts(np.ones(5, dtype=np.int64), np.zeros(5, dtype=np.bool_)) == []
    assert plan_parts(np.ones(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)) == []


@pytest.mark.parametrize("sizes", [[100], [1] * 100, [33, 33, 34], [0, 99, 1]])
def test_the_batches_do_not_show_in_the_bytes(tmp_path: Path, sizes: list[int]) -> None:
    whole = table(100)
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    part = Part(0, [(0, 60), (60, 100)])
    write_part(tmp_path / "one", SCHEMA, part, lambda s, e: whole.slice(s, e - s).to_batches(), "zstd")

    def chopped(start: int, end: int) -> list[pa.RecordBatch]:
        rest, batches = whole.slice(start, end - start), []
        for size in sizes:
            batches += rest.slice(0, size).to_batches()
            rest = rest.slice(size)
        return batches

    write_part(tmp_path / "many", SCHEMA, part, chopped, "zstd")
    one, many = (tmp_path / name / "part-00000.parquet" for name in ("one", "many"))
    assert one.read_bytes() == many.read_bytes()
    assert pq.read_table(one).equals(whole)
    assert pq.ParquetFile(one).num_row_groups == 2


def test_a_table_of_no_rows_has_one_part(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in write_parts(tmp_path, SCHEMA, [], lambda _s, _e: [], "zstd", pool):
            done.result()
    (part,) = tmp_path.iterdir()
    assert pq.read_schema(part).equals(SCHEMA)
    assert pq.read_table(part).num_rows == 0


def test_a_flipped_bit_in_a_page_is_noticed(tmp_path: Path) -> None:
    write_part(tmp_path, SCHEMA, Part(0, [(0, 5000)]), lambda s, e: table(5000).slice(s, e - s).to_batches(), "none")
    path = tmp_path / "part-00000.parquet"
    content = bytearray(path.read_bytes())
    at = content.index(b"text 2500")
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match="checksum|CRC"):
        pq.read_table(path, page_checksum_verification=True)


def test_a_part_that_stands_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "part-00000.parquet").write_text("mine")
    with pytest.raises(OutputError, match=r"part-00000\.parquet"):
        write_part(tmp_path, SCHEMA, Part(0, []), lambda _s, _e: [], "zstd")
    assert (tmp_path / "part-00000.parquet").read_text() == "mine"
