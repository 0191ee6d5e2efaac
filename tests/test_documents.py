"""From a batch to what the stages compare: the same whatever the batch's borders, and every document in its place."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline import canonicalize_url, record_fingerprint, shingle_hashes
from dedup_pipeline.config import load_config
from dedup_pipeline.documents import Described, Plan, describe, make_plan
from dedup_pipeline.errors import InputError, SchemaMismatch
from dedup_pipeline.records import seen_array
from dedup_pipeline.schema import ARCHIVE, SEEN, Bad, Batch
from dedup_pipeline.sources.batches import text_array


def plan_of(settings: dict[str, Any] | None = None) -> Plan:
    return make_plan(load_config(inputs=["x"], output="out", set=settings, threads=1))


def batch_of(columns: dict[str, Any], positions: list[int] | None = None, bad: list[Bad] | None = None) -> Batch:
    arrays = {name: values if isinstance(values, pa.Array) else seen_array(values) for name, values in columns.items()}
    rows = pa.RecordBatch.from_pydict(arrays)
    places = list(range(rows.num_rows)) if positions is None else positions
    return Batch("crawl/a", pa.array(places, pa.int64()), rows, tuple(bad or ()))


def described(columns: dict[str, Any], settings: dict[str, Any] | None = None, **where: Any) -> Described:
    return describe(batch_of(columns, **where), plan_of(settings))


def hexes(halves: np.ndarray) -> list[str]:
    return [f"{int(high):016x}{int(low):016x}" for high, low in halves]


def columns_of(made: Described) -> dict[str, list[Any]]:
    """Everything that `describe` says of each document, as plain lists."""
    out = {}
    for entry in dataclasses.fields(Described):
        value = getattr(made, entry.name)
        if isinstance(value, np.ndarray | pa.Array):
            out[entry.name] = value.tolist()
        elif isinstance(value, pa.RecordBatch):
            out[entry.name] = [tuple(sorted(row.items(), key=str)) for row in map(str_keys, value.to_pylist())]
        else:
            out[entry.name] = list(value)
    return out


def str_keys(row: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in row.items()}


# --- what is said of a document -----------------------------------------------------------------------


def test_what_each_stage_compares() -> None:
    texts = ["The cat sat on the mat", None, "", "short"]
    urls = ["HTTP://Example.com:80/a/../b?utm_source=x", None, "", "not a url"]
    made = described({"id": ["1", "2", "3", "4"], "url": urls, "text": texts})
    assert made.positions.tolist() == [0, 1, 2, 3]
    assert made.usable.all()
    assert made.ids.to_pylist() == ["1", "2", "3", "4"]
    assert made.urls.to_pylist() == urls
    key = canonicalize_url("HTTP://Example.com:80/a/../b?utm_source=x")
    assert made.canonical.to_pylist()[0] == key == "http://example.com/b"
    assert made.has_url.tolist()[:3] == [True, False, False]
    assert hexes(made.url_keys)[0] == xxhash.xxh3_128_hexdigest(key.encode())
    assert made.has_fingerprint.tolist() == [True, False, False, True]
    for row in (0, 3):
        assert hexes(made.fingerprints)[row] == record_fingerprint({"text": texts[row]}, ["text"])
    assert made.has_text.tolist() == [True, False, False, True]
    assert made.sizes.tolist() == [4, 0, 0, 1]
    assert made.hashes.tolist() == [*shingle_hashes(texts[0]).tolist(), *shingle_hashes("short").tolist()]
    assert made.bands.shape == (4, plan_of().bands.bands)
    assert made.bad == ()


def test_equal_texts_have_equal_keys_whatever_the_fields_are() -> None:
    columns = {"title": ["a", "b", "a"], "text": ["same words", "same words", "other words"]}
    made = described(columns, {"records.fields": ["title"]})
    assert hexes(made.texts)[0] == hexes(made.texts)[1] != hexes(made.texts)[2]
    assert hexes(made.fingerprints)[0] == hexes(made.fingerprints)[2] != hexes(made.fingerprints)[1]
    assert hexes(made.texts)[0] == xxhash.xxh3_128_hexdigest(b"same words")


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        ({}, True),
        ({"records.fields": ["text"]}, True),
        ({"input.text": "text"}, True),
        ({"records.fields": ["title"]}, False),
        ({"records.fields": ["text", "title"]}, False),
        ({"records.normalise": {"text": ["case"]}}, False),
        ({"records.normalise": {"text": []}}, True),
    ],
)
def test_fingerprints_serve_as_keys_of_texts_only_where_they_are(settings: dict[str, Any], alike: bool) -> None:
    assert plan_of(settings).text_is_record is alike


def test_stages_that_are_off() -> None:
    columns = {"url": ["http://example.com/"], "text": ["one two three four"]}
    made = described(columns, {"near.enabled": False, "urls.enabled": False})
    assert made.sizes.tolist() == [0]
    assert len(made.hashes) == 0
    assert made.bands.shape == (1, 0)
    assert made.has_url.tolist() == [False]
    assert made.canonical.to_pylist() == [None]
    assert made.urls.to_pylist() == columns["url"]


# --- which columns are used ---------------------------------------------------------------------------


def test_the_columns_that_a_run_requires() -> None:
    assert plan_of().required == ()
    settings = {
        "input.id": "key",
        "input.text": "body",
        "records.fields": ["title", "body"],
        "keep.policy": ["newest:date", "prefer:lang=en"],
    }
    assert plan_of(settings).required == ("key", "body", "title", "date", "lang")
    assert plan_of({"records.fields": ["text"]}).required == ()


def test_columns_of_other_names() -> None:
    columns = {
        "key": ["k"],
        "link": ["http://example.com/x"],
        "body": ["some words"],
        "id": ["no"],
        "url": ["no"],
        "text": ["no"],
    }
    made = described(columns, {"input.id": "key", "input.url": "link", "input.text": "body"})
    assert made.ids.to_pylist() == ["k"]
    assert made.canonical.to_pylist() == ["http://example.com/x"]
    assert hexes(made.fingerprints) == [record_fingerprint({"body": "some words"}, ["body"])]


def test_rows_that_lack_every_column_used() -> None:
    made = described({"other": [1, 2]}, positions=[5, 9])
    assert made.ids.to_pylist() == ["crawl/a#5", "crawl/a#9"]
    assert made.urls.to_pylist() == made.canonical.to_pylist() == [None, None]
    assert not made.has_url.any()
    assert not made.has_fingerprint.any()
    assert not made.has_text.any()


def test_rows_without_any_column() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 2, pa.struct([])))
    made = describe(Batch("s", pa.array([0, 1], pa.int64()), rows), plan_of())
    assert made.ids.to_pylist() == ["s#0", "s#1"]
    assert made.rows.num_rows == 2


def test_no_rows_at_all() -> None:
    made = described({"text": []}, positions=[])
    assert len(made.positions) == len(made.usable) == len(made.hashes) == 0
    assert made.bands.shape == (0, plan_of().bands.bands)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", None], ["a", "crawl/a#7"]),
        ([1, 2.5], ["1", "2.5"]),
        (pa.array([1, None]), ["1", "crawl/a#7"]),
        (pa.array(["a", None], pa.large_string()), ["a", "crawl/a#7"]),
        (pa.array(["a", None]).dictionary_encode(), ["a", "crawl/a#7"]),
        (["", "x"], ["", "x"]),
    ],
)
def test_ids_and_what_stands_in_for_them(ids: Any, expected: list[str]) -> None:
    assert described({"id": ids}, positions=[3, 7]).ids.to_pylist() == expected


def archive_rows(texts: list[str | None], digests: list[str | None]) -> pa.RecordBatch:
    count = len(texts)
    filled = {"text": pa.array(texts, pa.string()), "payload_digest": pa.array(digests, pa.string())}
    filled["record_id"] = pa.array([f"urn:uuid:{index}" for index in range(count)])
    filled["url"] = pa.array([f"http://example.com/{index}" for index in range(count)])
    return pa.RecordBatch.from_arrays([filled.get(e.name, pa.nulls(count, e.type)) for e in ARCHIVE], schema=ARCHIVE)


def test_archives_have_record_ids_and_payload_digests() -> None:
    rows = archive_rows([None, "", "words", None], ["sha1:A", "sha1:A", "sha1:A", None])
    made = describe(Batch("a.warc", pa.array(range(4), pa.int64()), rows), plan_of())
    assert made.ids.to_pylist() == [f"urn:uuid:{index}" for index in range(4)]
    assert made.has_fingerprint.tolist() == [True, True, True, False]
    prints = hexes(made.fingerprints)
    assert prints[0] == prints[1] != prints[2]
    assert prints[2] == record_fingerprint({"text": "words"}, ["text"])
    assert made.has_text.tolist() == [False, False, True, False]


def test_a_column_called_payload_digest_counts_in_archives_alone() -> None:
    made = described({"text": [None], "payload_digest": ["sha1:A"]})
    assert not made.has_fingerprint.any()


# --- types --------------------------------------------------------------------------------------------

TEXTS = ["the same words", "other words", None]


@pytest.mark.parametrize(
    "form",
    [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
        pa.array(["padding", *TEXTS])[1:],
    ],
    ids=lambda form: str(form.type),
)
def test_every_form_of_a_text_column_says_the_same(form: pa.Array) -> None:
    plain = columns_of(described({"url": pa.array(TEXTS), "id": pa.array(TEXTS), "text": pa.array(TEXTS)}))
    assert columns_of(described({"url": form, "id": form, "text": form})) == plain
    untyped = columns_of(described({"url": TEXTS, "id": TEXTS, "text": TEXTS}))
    assert {k: v for k, v in untyped.items() if k != "rows"} == {k: v for k, v in plain.items() if k != "rows"}


def test_the_options_of_urls_reach_the_keys() -> None:
    urls = ["https://www.example.com/a/?ref=1", "https://www.example.org/a/?ref=1", "example.org/a"]
    made = described(
        {"url": urls},
        {
            "urls.ignore_scheme": True,
            "urls.default_scheme": "https",
            "urls.hosts": {"example.com": {"drop_www": True, "strip_parameters": ["ref"]}},
        },
    )
    assert made.canonical.to_pylist() == [
        "http://example.com/a/",
        "http://www.example.org/a/?ref=1",
        "http://example.org/a",
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"x"]),
        pa.array([b"x"], pa.large_binary()),
        pa.array([b"x"], pa.binary_view()),
        pa.array([b"x"], pa.binary(1)),
        pa.array([["x"]]),
        pa.array([{"a": 1}]),
        pa.array([b"x"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("name", ["id", "url", "text"])
def test_a_column_that_holds_no_text_is_refused_by_name(name: str, column: pa.Array) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        described({name: column})
    for word in ("crawl/a", repr(name), "[input]"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1]),
        pa.array([1.5]),
        pa.array([True]),
        pa.array([Decimal("1.5")]),
        pa.array([1], pa.timestamp("ns")),
        pa.nulls(1),
        pa.array([1]).dictionary_encode(),
        pa.array([1], pa.date32()),
        pa.array([1], pa.time64("ns")),
    ],
    ids=lambda column: str(column.type),
)
def test_plain_values_are_taken_as_text_and_every_type_may_stand_beside(column: pa.Array) -> None:
    made = described({"text": column, "id": column, "url": column, "other": column})
    assert made.has_text.tolist() == [column.type != pa.null()]
    assert (made.weights > 0).all()


def test_a_policy_that_cannot_order_a_value() -> None:
    with pytest.raises(InputError, match="crawl/a, record 12: column 'when'"):
        described({"when": ["2024-01-01", "soon"]}, {"keep.policy": ["newest:when"]}, positions=[4, 12])


def test_reading_order_needs_no_keys() -> None:
    assert described({"text": ["x"]}).priority.shape == (1, 0)
    assert described({"text": ["x"]}, {"keep.policy": ["longest", "last"]}).priority.tolist() == [[-1.0, 0.0, 0.0, 0.0]]


# --- what cannot be used ------------------------------------------------------------------------------


def test_unusable_documents_have_their_places_and_neutral_values() -> None:
    bad = [Bad(0, "not_json", "x"), Bad(4, "too_large", "y")]
    made = described(
        {"id": ["a", "b"], "url": ["http://example.com/1", None], "text": ["p q r", "s t u"]}, positions=[2, 5], bad=bad
    )
    assert made.positions.tolist() == [0, 2, 4, 5]
    assert made.usable.tolist() == [False, True, False, True]
    assert made.ids.to_pylist() == [None, "a", None, "b"]
    assert made.canonical.to_pylist() == [None, "http://example.com/1", None, None]
    assert made.has_url.tolist() == [False, True, False, False]
    assert made.has_fingerprint.tolist() == made.has_text.tolist() == [False, True, False, True]
    assert made.sizes.tolist() == [0, 1, 0, 1]
    assert made.fingerprints[0].tolist() == made.bands[2].tolist()[:2] == [0, 0]
    assert made.rows.num_rows == 2
    assert made.bad == tuple(bad)


def test_only_unusable_documents() -> None:
    made = described({"text": []}, positions=[], bad=[Bad(0, "truncated", "x")])
    assert made.positions.tolist() == [0]
    assert made.usable.tolist() == [False]
    assert made.ids.to_pylist() == [None]


@pytest.mark.parametrize("stage", [True, False])
def test_a_url_that_is_too_long_sets_its_document_aside(stage: bool) -> None:
    limit = 40
    fits = "http://example.com/" + "a" * (limit - 19)
    urls = [fits, fits + "b", "http://example.com/" + "é" * 11, None]
    made = described(
        {"url": urls, "text": ["a", "b", "c", "d"]},
        {"limits.url_bytes": limit, "urls.enabled": stage},
        positions=[1, 2, 5, 6],
        bad=[Bad(3, "not_json", "x")],
    )
    assert made.positions.tolist() == [1, 2, 3, 5, 6]
    assert made.usable.tolist() == [True, False, False, False, True]
    assert [(entry.position, entry.reason) for entry in made.bad] == [
        (2, "url_too_long"),
        (3, "not_json"),
        (5, "url_too_long"),
    ]
    assert "limits.url_bytes = 40" in made.bad[0].detail
    assert fits not in made.bad[0].detail
    assert made.rows.column("text").field("text").to_pylist() == ["a", "d"]
    assert made.urls.to_pylist() == [fits, None, None, None, None]


# --- independence from batches ------------------------------------------------------------------------

URLS = st.sampled_from(
    [None, "", "http://example.com/a", "http://EXAMPLE.com/a#x", "http://example.com/" + "l" * 60, "::", 7]
)
WORDS = st.sampled_from([None, "", "a b c d e", "a b c d f", "世界 hello there", "x", 5, ["x"], "A  B"])
RECORDS = st.lists(st.tuples(st.booleans(), URLS, WORDS, WORDS, st.sampled_from([None, 1, "2024-01-01"])), max_size=10)
PLANS = st.sampled_from(
    [
        {},
        {"records.fields": ["title", "text"], "records.normalise": {"text": ["case", "whitespace"]}},
        {"near.shingle": "char", "near.n": 4, "keep.policy": ["newest:when", "longest", "last"]},
        {"near.enabled": False, "urls.profile": "strict"},
    ]
)


def part(records: list[Any], positions: range) -> Batch:
    good = [index for index in positions if records[index][0]]
    bad = [Bad(index, "not_json", "x") for index in positions if not records[index][0]]
    names = ("url", "text", "title", "when")
    columns = {name: [records[index][place + 1] for index in good] for place, name in enumerate(names)}
    return batch_of(columns, good, bad)


@given(RECORDS, st.integers(0, 10), PLANS)
@settings(max_examples=120, deadline=None)
def test_two_halves_are_one_whole(records: list[Any], cut: int, settings: dict[str, Any]) -> None:
    plan = plan_of({"limits.url_bytes": 50, **settings})
    cut = min(cut, len(records))
    whole = columns_of(describe(part(records, range(len(records))), plan))
    halves = [columns_of(describe(part(records, places), plan)) for places in (range(cut), range(cut, len(records)))]
    assert {name: halves[0][name] + halves[1][name] for name in whole} == whole


@given(
    st.lists(
        st.sampled_from([b"ok text here", b"caf\xe9 au lait", "caf\u00e9 au lait".encode(), b"", b"\xff"]), max_size=6
    )
)
@settings(max_examples=60, deadline=None)
def test_text_that_is_no_utf8_does_not_touch_its_neighbours(parts: list[bytes]) -> None:
    def batch(chosen: list[bytes], first: int) -> Batch:
        texts = text_array([len(entry) for entry in chosen], chosen, None)
        column = pa.StructArray.from_arrays([pa.array([5] * len(chosen), pa.uint8()), texts], fields=list(SEEN))
        return batch_of({"text": column}, list(range(first, first + len(chosen))))

    plan = plan_of({"records.normalise": {"text": ["case"]}, "keep.policy": ["longest"]})
    whole = describe(batch(parts, 0), plan)
    alone = [describe(batch([entry], index), plan) for index, entry in enumerate(parts)]
    for name in ("fingerprints", "texts", "bands", "priority", "weights", "sizes"):
        assert getattr(whole, name).tolist() == [getattr(one, name).tolist()[0] for one in alone]


@given(
    st.lists(st.tuples(st.sampled_from([None, "", "x"]), st.sampled_from([None, "", "sha1:A"])), min_size=1, max_size=6)
)
@settings(max_examples=60, deadline=None)
def test_an_archive_record_does_not_depend_on_its_neighbours(records: list[tuple[str | None, str | None]]) -> None:
    texts, digests = [text for text, _ in records], [digest for _, digest in records]
    rows = archive_rows(texts, digests)
    whole = describe(Batch("s", pa.array(range(len(records)), pa.int64()), rows), plan_of())
    for index in range(len(records)):
        one = describe(Batch("s", pa.array([index], pa.int64()), rows.slice(index, 1)), plan_of())
        assert one.fingerprints[0].tolist() == whole.fingerprints[index].tolist()
        assert one.has_fingerprint[0] == whole.has_fingerprint[index]


def test_a_weight_counts_values_and_not_their_encoding() -> None:
    values = pa.array(["aaaa", "bb", None])
    weights = described({"text": values}).weights.tolist()
    assert weights[0] - weights[1] == weights[1] - weights[2] == 2
    for form in (values.cast(pa.large_string()), values.dictionary_encode(), values.cast(pa.string_view())):
        assert described({"text": form}).weights.tolist() == weights
