"""What a run returns, as tables and as frames, and what it says where the folder has changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fates import write_fates

import dedup_pipeline
from dedup_pipeline import RunResult, load_config
from dedup_pipeline.errors import OutputError
from dedup_pipeline.schema import LEDGER, PAIRS, QUARANTINE

TABLES = ("kept", "ledger", "pairs", "quarantine")


@pytest.fixture
def told(tmp_path: Path) -> RunResult:
    return dedup_pipeline.run(load_config(inputs=[write_fates(tmp_path)], output=tmp_path / "out"))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_what_stands_on_disk(told: RunResult, name: str) -> None:
    table = told.table(name)
    assert table.equals(pq.read_table(told.output / name))
    frame = told.to_pandas(name)
    assert (len(frame), list(frame.columns)) == (table.num_rows, table.column_names)


def test_the_ledger_is_the_table_one_asks_for_first(told: RunResult) -> None:
    assert told.ledger().schema.equals(LEDGER)
    assert list(told.to_pandas().columns) == LEDGER.names
    assert told.table("pairs").schema.equals(PAIRS)
    assert told.table("quarantine").schema.equals(QUARANTINE)


def test_counts_and_manifest(told: RunResult) -> None:
    assert told.published
    assert told.counts["read"] == 12
    assert told.manifest == json.loads((told.output / "manifest.json").read_bytes())


def test_several_parts_are_read_in_order(told: RunResult) -> None:
    table = told.table("ledger")
    pq.write_table(table.slice(0, 5), told.output / "ledger" / "part-00000.parquet")
    pq.write_table(table.slice(5, 4), told.output / "ledger" / "part-00001.parquet")
    pq.write_table(table.slice(9), told.output / "ledger" / "part-00002.parquet")
    (told.output / "ledger" / "notes.txt").write_text("no part")
    assert told.ledger().equals(table)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_gone(told: RunResult, name: str) -> None:
    shutil.rmtree(told.output / name)
    with pytest.raises(OutputError, match=f"{name}: holds no parts"):
        told.table(name)


def test_a_dry_run_has_no_tables(tmp_path: Path) -> None:
    told = dedup_pipeline.run(load_config(inputs=[write_fates(tmp_path)], output=tmp_path / "out", dry_run=True))
    assert not told.published
    with pytest.raises(OutputError, match="dry run"):
        told.ledger()


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped"])
def test_a_damaged_part_is_named(told: RunResult, damage: str) -> None:
    part = told.output / "kept" / "part-00000.parquet"
    content = bytearray(part.read_bytes())
    if damage == "flipped":
        content[4 + len(content) // 8] ^= 1
    part.write_bytes({"cut": content[:-20], "emptied": b""}.get(damage, content))
    with pytest.raises(OutputError, match="kept: cannot be read") as raised:
        told.table("kept")
    assert raised.value.exit_code == 5
