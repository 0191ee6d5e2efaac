"""The relational steps equal plain Python, stay within their memory, and reach nothing outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_pipeline.engines.relational import Relations
from dedup_pipeline.errors import BackendError

MEGABYTE = 1000**2


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relations]:
    opened = Relations(2, 256 * MEGABYTE, tmp_path_factory.mktemp("relations") / "spill")
    yield opened
    opened.close()


def first_of_key(relations: Relations, keys: list[tuple[int, int] | None], ranks: list[int]) -> list[int]:
    pairs = np.array([key or (0, 0) for key in keys], np.uint64).reshape(-1, 2)
    present = np.array([key is not None for key in keys], np.bool_)
    out = np.full(len(keys), -7, np.int64)
    relations.first_of_key(pairs[:, 0], pairs[:, 1], present, np.array(ranks, np.int64), out)
    return out.tolist()


# --- first by key -------------------------------------------------------------------------------------

KEYS = st.none() | st.tuples(st.sampled_from([0, 1, 2**64 - 1, 2**63]), st.sampled_from([0, 1, 2**64 - 1]))


@given(st.lists(KEYS, max_size=12), st.randoms(use_true_random=False))
@example([None, (0, 0), (0, 0)], None)
@settings(max_examples=100, deadline=None)
def test_first_of_key_is_the_least_rank_with_the_key(relations: Relations, keys: list[Any], random: Any) -> None:
    ranks = list(range(len(keys)))
    if random is not None:
        random.shuffle(ranks)
    least: dict[Any, int] = {}
    for key, rank in zip(keys, ranks, strict=True):
        least[key] = min(least.get(key, rank), rank)
    expected = [0] * len(keys)
    for key, rank in zip(keys, ranks, strict=True):
        expected[rank] = -1 if key is None else least[key]
    assert first_of_key(relations, keys, ranks) == expected


def test_both_halves_of_a_key_count(relations: Relations) -> None:
    assert first_of_key(relations, [(1, 2), (1, 3), (2, 2), (2, 1), (1, 2)], [0, 1, 2, 3, 4]) == [0, 1, 2, 3, 0]


def test_a_document_without_a_key_shares_none(relations: Relations) -> None:
    assert first_of_key(relations, [None, None, (0, 0)], [0, 1, 2]) == [-1, -1, 2]


def test_many_keys_take_more_than_one_batch(relations: Relations) -> None:
    count = 250_000
    high = np.arange(count, dtype=np.uint64) % np.uint64(1000)
    out = np.zeros(count, np.int64)
    ranks = np.arange(count, dtype=np.int64)[::-1].copy()
    relations.first_of_key(high, high, np.ones(count, np.bool_), ranks, out)
    expected = np.empty(count, np.int64)
    expected[ranks] = ranks[count - 1000 + high.astype(np.int64)]
    assert np.array_equal(out, expected)


# --- priority -----------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("-inf"), 1e300, -5e-324, 2.0**63])


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=12))
@settings(max_examples=100, deadline=None)
def test_priority_is_a_stable_sort_of_the_keys(relations: Relations, keys: list[tuple[float, ...]]) -> None:
    out = np.full(len(keys), -1, np.int64)
    relations.priority(np.array(keys, np.float64).reshape(-1, 4), ("longest", "longest"), out)
    assert out.tolist() == sorted(range(len(keys)), key=lambda number: (keys[number], number))


@pytest.mark.parametrize(
    ("policy", "expected"), [(("longest", "last"), [2, 0, 3, 1]), (("last", "longest"), [3, 2, 1, 0])]
)
def test_priority_with_the_last_record_first(
    relations: Relations, policy: tuple[str, ...], expected: list[int]
) -> None:
    keys = np.zeros((4, 4))
    keys[:, 0 if policy[0] == "longest" else 2] = [-3.0, -1.0, -3.0, -1.0]
    out = np.zeros(4, np.int64)
    relations.priority(keys, policy, out)
    assert out.tolist() == ([2, 0, 3, 1] if policy[0] == "longest" else expected)


# --- distinct pairs -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1]), max_size=20))
@settings(max_examples=100, deadline=None)
def test_distinct_pairs_are_sorted_and_turned_the_same_way(relations: Relations, pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    values = np.array([(min(pair) * 10 + max(pair)) / 64 for pair in pairs])
    made = list(relations.distinct_pairs(first, second, values))
    rows = [tuple(row.values()) for batch in made for row in batch.to_pylist()]
    assert rows == sorted({(min(pair), max(pair), (min(pair) * 10 + max(pair)) / 64) for pair in pairs})
    for batch in made:
        assert batch.schema.names == ["a", "b", "similarity"]


def test_pairs_that_are_not_read_to_their_end_hinder_nothing(relations: Relations) -> None:
    numbers = np.arange(300_000)
    begun = relations.distinct_pairs(numbers, numbers + len(numbers), numbers / len(numbers))
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert first_of_key(relations, [(1, 1), (1, 1)], [0, 1]) == [0, 0]


# --- what it cannot reach -----------------------------------------------------------------------------

in_this_module = pa.table({"secret": [1]})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.csv").write_text("secret\n1\n")
    (folder / "a.json").write_text('{"secret": 1}\n')
    pq.write_table(in_this_module, folder / "a.parquet")
    return folder


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM '{folder}/a.csv'",
        "SELECT * FROM '{folder}/a.parquet'",
        'SELECT * FROM "{folder}/a.parquet"',
        "SELECT * FROM read_csv('{folder}/a.csv')",
        "SELECT * FROM read_json('{folder}/a.json')",
        "SELECT * FROM read_parquet('{folder}/a.parquet')",
        "SELECT * FROM read_text('{folder}/a.csv')",
        "SELECT * FROM read_blob('{folder}/*')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{folder}/a.csv')",
        "SELECT * FROM parquet_metadata('{folder}/a.parquet')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/exported'",
        "IMPORT DATABASE '{folder}/exported'",
        "ATTACH '{folder}/new.db'",
        "CREATE SECRET s (TYPE s3)",
        "SELECT * FROM 'http://localhost:9/a.csv'",
        "INSTALL httpfs",
        "INSTALL httpfs FROM community",
        "LOAD httpfs",
        "LOAD '{folder}/any.duckdb_extension'",
    ],
)
def test_no_file_no_network_no_extension(relations: Relations, files: Path, statement: str) -> None:
    before = sorted(os.listdir(files))
    with pytest.raises(duckdb.Error):
        relations._connection.execute(statement.format(folder=files)).fetchall()
    assert sorted(os.listdir(files)) == before


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '100GB'",
        "PRAGMA memory_limit = '100GB'",
        "RESET memory_limit",
        "SET threads = 64",
        "SET temp_directory = '/'",
        "SET autoinstall_known_extensions = true",
        "SET autoload_known_extensions = true",
        "SET allow_community_extensions = true",
        "SET python_enable_replacements = true",
        "SET python_scan_all_frames = true",
        "SET GLOBAL enable_external_access = true",
        "RESET enable_external_access",
    ],
)
def test_no_setting_can_be_changed(relations: Relations, statement: str) -> None:
    with pytest.raises(duckdb.Error, match="locked"):
        relations._connection.execute(statement)


def test_the_settings_are_those_that_were_asked_for(relations: Relations) -> None:
    asked = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "threads": "2",
    }
    for name, value in asked.items():
        assert relations._connection.execute(f"SELECT current_setting('{name}')::VARCHAR").fetchall() == [(value,)]


def test_no_python_variable_is_reached_by_name(relations: Relations) -> None:
    here = pa.table({"secret": [1]})
    assert here.num_rows == in_this_module.num_rows == 1
    for name in ("here", "in_this_module", "relations", "np", "pa"):
        with pytest.raises(duckdb.CatalogException):
            relations._connection.sql(f"SELECT * FROM {name}").fetchall()


def test_nothing_stays_registered(relations: Relations) -> None:
    first_of_key(relations, [(1, 1), (1, 1)], [0, 1])
    assert relations._connection.execute("SELECT * FROM duckdb_tables()").fetchall() == []
    names = {
        name
        for (name,) in relations._connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    assert names == set()


def test_a_failing_statement_is_one_message(relations: Relations) -> None:
    with pytest.raises(BackendError, match="DuckDB: .*--memory-limit") as caught:
        list(relations._rows("SELECT nothing FROM nowhere", {}))
    assert caught.value.exit_code == 6
    assert "\n" not in str(caught.value)


# --- memory -------------------------------------------------------------------------------------------


def test_a_sort_that_does_not_fit_spills_to_its_folder(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    limit = 32 * MEGABYTE
    relations = Relations(1, limit, spill)
    assert os.stat(spill).st_mode & 0o077 == 0
    count = 2_000_000
    first = np.random.default_rng(1).permutation(count).astype(np.int64)
    at, spilled = 0, 0
    for batch in relations.distinct_pairs(first, first + count, first / count):
        spilled = max(spilled, sum(entry.stat().st_size for entry in spill.iterdir()))
        assert np.array_equal(batch.column("a").to_numpy(), np.arange(at, at + batch.num_rows))
        at += batch.num_rows
    assert at == count
    assert spilled > MEGABYTE
    relations.close()


def test_what_cannot_be_done_in_the_memory_is_one_message(tmp_path: Path) -> None:
    relations = Relations(1, 2 * MEGABYTE, tmp_path / "spill")
    count = 300_000
    keys = np.random.default_rng(1).random((count, 8))
    with pytest.raises(BackendError, match="--memory-limit"):
        relations.priority(keys, ("longest",) * 4, np.zeros(count, np.int64))
    relations.close()


# --- names ----------------------------------------------------------------------------------------------

HOSTILE = [
    'a"b',
    "x'; DROP TABLE documents; --",
    "keys",
    "documents",
    "a;b",
    "read_csv('/etc/passwd')",
    "ünï",
    "a b",
    "-- ",
    "*",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_columns_and_sources_are_only_names(
    tmp_path: Path, run_pipeline: Callable[..., Any], name: str
) -> None:
    file = tmp_path / f"{name.replace('/', '_')}.parquet"
    table = pa.table({name: ["v", "v", "w", "w"], "n": [1, 2, 3, 4], "text": ["a b c", "a b c", "d e f", "d e f"]})
    pq.write_table(table, file)
    policies = [f"prefer:{name}=w", f"prefer:{name}=x'; DROP TABLE documents; --", "highest:n"]
    settings = {
        "input.id": name,
        "records.fields": ["text", name],
        "records.normalise": {name: ["case"]},
        "keep.policy": policies,
    }
    outcome = run_pipeline([file], settings)
    assert outcome.kept == {(file.name, 1), (file.name, 3)}
    assert outcome.table("kept").column(name).to_pylist() == ["v", "w"]
    assert outcome.ledger.column("duplicate_of").to_pylist() == ["v", None, "w", None]
