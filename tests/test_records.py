"""Fingerprints: the framing, what counts as a field's value, and the normalisations."""

from __future__ import annotations

import json
import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import xxhash
from conftest import Runner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dedup_pipeline
from dedup_pipeline.records import (
    FINGERPRINT_SCHEME,
    fingerprints,
    normalise,
    record_fingerprint,
    repaired,
    seen_array,
)
from dedup_pipeline.schema import SEEN, Kind
from dedup_pipeline.sources.batches import text_array

MISSING = object()


def by_hand(*values: Any) -> str:
    """The fingerprint of field values after the documented framing, in plain Python and xxhash."""
    framed = b""
    for value in values:
        if value is MISSING or value is None:
            framed += bytes([0 if value is MISSING else 1])
            continue
        kind, content = {
            bool: lambda v: (2, b"true" if v else b"false"),
            int: lambda v: (3, str(v).encode()),
            float: lambda v: (4, struct.pack("<d", v)),
            str: lambda v: (5, v.encode()),
            list: lambda v: (6, json.dumps(v, ensure_ascii=False, separators=(",", ":")).encode()),
            dict: lambda v: (6, json.dumps(v, ensure_ascii=False, separators=(",", ":")).encode()),
        }[type(value)](value)
        framed += bytes([kind]) + len(content).to_bytes(8, "little") + content
    return xxhash.xxh3_128_hexdigest(framed)


def as_hex(columns: list[pa.Array | None], rows: int = 1, **options: Any) -> list[str | None]:
    hashes, present = fingerprints(columns, rows, **options)
    return [f"{int(h):016x}{int(low):016x}" if p else None for (h, low), p in zip(hashes, present, strict=True)]


def fingerprint_of(record: dict[str, Any], *fields: str) -> str | None:
    return record_fingerprint(record, fields)


# --- golden values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "fields", "expected"),
    [
        ({"text": "a"}, ["text"], "8404c4269dd9d688a80919c0cbc4b18c"),
        ({"text": "Grüße, 世界 🌍"}, ["text"], "40d134b8adc163c5da94a0453d8ddc17"),
        ({"title": "A", "text": "b"}, ["title", "text"], "c793ae37136d0fd85ad318ed84cac8cc"),
        ({"title": None, "text": "b"}, ["title", "text"], "e4f4f3679dbd76611d23a525e7d86bb1"),
        ({"text": "b"}, ["title", "text"], "12fd51cb43a984b94881472e8a49fb41"),
        ({"n": 7}, ["n"], "5a84bb7639a55a487c89c4d0ec8ea367"),
        ({"n": 7.0}, ["n"], "c502ea4ad754a017f6644b2659d5f2df"),
        ({"n": True}, ["n"], "08322b23e5bbc3a148645100a27e8d44"),
        ({"tags": ["x", "é"]}, ["tags"], "049447008d3fd0e94d809428ae97e077"),
        ({"text": "x" * 1000}, ["text"], "c662aa0b5dd7b722727983e4802bedb0"),
    ],
)
def test_golden_fingerprints(record: dict[str, Any], fields: list[str], expected: str) -> None:
    # Literals: states written by one version are read by the next. They change only with FINGERPRINT_SCHEME.
    assert FINGERPRINT_SCHEME == "xxh3_128-framed/1"
    assert record_fingerprint(record, fields) == expected == by_hand(*(record.get(name, MISSING) for name in fields))


# --- framing ------------------------------------------------------------------------------------------


def test_null_missing_and_empty_differ() -> None:
    prints = {
        fingerprint_of({"title": None, "text": "t"}, "title", "text"),
        fingerprint_of({"text": "t"}, "title", "text"),
        fingerprint_of({"title": "", "text": "t"}, "title", "text"),
    }
    assert len(prints) == 3
    assert None not in prints


def test_types_differ() -> None:
    values = [1, "1", 1.0, True, "true", [1], "[1]", ["1"], {"1": 1}, '{"1":1}', "1.0"]
    assert len({fingerprint_of({"v": value}, "v") for value in values}) == len(values)


def test_borders_between_fields_differ() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("c", "ab")]
    assert len({fingerprint_of({"a": a, "b": b}, "a", "b") for a, b in pairs}) == len(pairs)


def test_a_text_cannot_imitate_a_frame() -> None:
    inner = bytes([5]) + (1).to_bytes(8, "little") + b"b"
    assert fingerprint_of({"a": "a", "b": "b"}, "a", "b") != fingerprint_of({"a": "a" + inner.decode()}, "a", "b")
    assert fingerprint_of({"a": "a\0", "b": "b"}, "a", "b") != fingerprint_of({"a": "a", "b": "\0b"}, "a", "b")


def test_fields_count_in_the_order_in_which_they_are_named() -> None:
    record = {"a": "x", "b": "y"}
    assert fingerprint_of(record, "a", "b") != fingerprint_of(record, "b", "a")
    assert fingerprint_of(record, "a") == fingerprint_of({**record, "b": "other"}, "a")


def test_a_bad_byte_differs_from_what_replaces_it() -> None:
    raw = [b"caf\xe9", b"caf\xe8", "caf\ufffd".encode(), b"caf"]
    texts = text_array([len(part) for part in raw], raw, None)
    column = pa.StructArray.from_arrays([pa.array([5] * 4, pa.uint8()), texts], fields=list(SEEN))
    assert len(set(as_hex([column], 4))) == 4


def test_zero_and_minus_zero_differ_and_nan_equals_itself() -> None:
    assert fingerprint_of({"v": 0.0}, "v") != fingerprint_of({"v": -0.0}, "v")
    payloads = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert len(set(as_hex([pa.array(payloads)], 3))) == 1
    assert as_hex([pa.array(payloads)], 3)[0] == fingerprint_of({"v": float("nan")}, "v")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
few_values = st.sampled_from([None, MISSING, "", "a", "b", "ab", 0, 1, 1.0, "1", True, [], ["a"], "a\0"]) | json_values


def strictly_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, list | dict):
        return json.dumps(one) == json.dumps(other)
    return bool(one == other)


@given(st.lists(few_values, min_size=2, max_size=2), st.lists(few_values, min_size=2, max_size=2))
@example(["ab", "c"], ["a", "bc"])
@settings(max_examples=400, deadline=None)
def test_equal_fingerprints_mean_equal_fields_and_the_reverse(left: list[Any], right: list[Any]) -> None:
    records = [{name: v for name, v in zip("ab", side, strict=True) if v is not MISSING} for side in (left, right)]
    one, other = (fingerprint_of(record, "a", "b") for record in records)
    for side, made in ((left, one), (right, other)):
        empty = all(value is None or value is MISSING or (isinstance(value, str) and not value) for value in side)
        assert (made is None) == empty
        assert empty or made == by_hand(*side)
    if one is not None and other is not None:
        same = all(strictly_equal(a, b) or (a is MISSING and b is MISSING) for a, b in zip(left, right, strict=True))
        assert (one == other) == same


@given(st.lists(st.lists(few_values, min_size=2, max_size=2), min_size=1, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_a_fingerprint_does_not_depend_on_its_neighbours(records: list[list[Any]], choice: st.DataObject) -> None:
    digests = [choice.draw(st.sampled_from([None, "", "sha1:A", "sha1:B"])) for _ in records]

    def prints(chosen: list[list[Any]], payloads: list[str | None]) -> list[str | None]:
        columns = [seen(list(values)) for values in zip(*chosen, strict=True)]
        return as_hex(list(columns), len(chosen), payload_digests=pa.array(payloads, pa.string()))

    alone = [prints([record], [digest])[0] for record, digest in zip(records, digests, strict=True)]
    assert prints(records, digests) == alone


def seen(values: list[Any]) -> pa.StructArray:
    """Values as seen, MISSING among them."""
    arrays = []
    for value in values:
        if value is MISSING:
            arrays.append(
                pa.StructArray.from_arrays([pa.array([0], pa.uint8()), pa.nulls(1, pa.string())], fields=list(SEEN))
            )
        else:
            arrays.append(seen_array([value]))
    return pa.concat_arrays(arrays)


# --- one value, however it came -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "", "é世", None]),
        (pa.large_string(), ["a", None]),
        (pa.string_view(), ["a", "a text that is longer than a view holds inline", None]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
        (pa.dictionary(pa.int16(), pa.int32()), [5, 6, 5, None]),
        (pa.int64(), [0, -7, 2**63 - 1, -(2**63), None]),
        (pa.int8(), [1, None]),
        (pa.uint64(), [2**64 - 1]),
        (pa.float64(), [1.0, 0.1, 1e300, -0.0, None]),
        (pa.float32(), [0.5, None]),
        (pa.bool_(), [True, False, None]),
        (pa.list_(pa.string()), [["a", "é"], [], [None], None]),
        (pa.large_list(pa.int64()), [[1, 2], None]),
        (pa.list_(pa.float64()), [[1.0, 0.1]]),
        (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}]),
        (pa.null(), [None, None]),
    ],
    ids=str,
)
def test_typed_and_untyped_columns_agree(kind: pa.DataType, values: list[Any]) -> None:
    untyped = seen_array(values)
    for sliced in (slice(None), slice(1, None), slice(0, 1)):
        typed = pa.array(values, kind)[sliced]
        rows = len(typed)
        assert as_hex([typed, pa.array(["x"] * rows)], rows) == as_hex([untyped[sliced], pa.array(["x"] * rows)], rows)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([datetime(2024, 1, 2, 3, 4, 5), None]),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.array([date(2024, 1, 2), None]),
        pa.array([Decimal("1.50"), Decimal("2.00")]),
        pa.array([1, 2], pa.time64("ns")),
        pa.array([1, 2], pa.duration("ns")),
        pa.array([b"ab", b"\xff\x00"]),
        pa.array([b"ab", b"\xff\x00"], pa.binary(2)),
        pa.array([b"ab", b"cd"], pa.binary_view()),
        pa.array([[1], [2]], pa.list_(pa.timestamp("ns"))),
        pa.array([{"a": Decimal("1.5")}, {"a": None}]),
        pa.array([[("k", 1)], [("k", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array([b"0123456789abcdef", b"0123456789abcdeg"], pa.uuid()),
        pa.array([1.5, 2.5], pa.float16()),
    ],
    ids=lambda values: str(values.type),
)
def test_every_type_of_parquet_has_fingerprints_that_tell_values_apart(values: pa.Array) -> None:
    twice = pa.concat_arrays([values, values])
    one, other, *again = as_hex([twice, pa.array(["x"] * 4)], 4)
    assert one != other
    assert [one, other] == again


def test_bytes_are_no_text() -> None:
    assert as_hex([pa.array([b"ab"])]) != as_hex([pa.array(["ab"])])


def test_parquet_and_json_of_one_value_fall_together(tmp_path: Path, run_pipeline: Runner) -> None:
    records = [
        {"text": "the same words in both", "n": 7, "x": 0.5, "ok": True, "tags": ["é", "b"]},
        {"text": "other words", "n": None, "x": None, "ok": None, "tags": None},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "b.parquet")
    fields = ["text", "n", "x", "ok", "tags"]
    outcome = run_pipeline(
        [tmp_path / "a.jsonl", tmp_path / "b.parquet"],
        {"records.fields": fields, "near.enabled": False, "urls.enabled": False},
    )
    assert outcome.kept == {("a.jsonl", 0), ("a.jsonl", 1)}
    assert outcome.ledger.column("duplicate_of_source").to_pylist() == [None, None, "a.jsonl", "a.jsonl"]


def test_record_fingerprint_is_what_a_run_computes() -> None:
    from dedup_pipeline.config import load_config
    from dedup_pipeline.documents import describe, make_plan
    from dedup_pipeline.schema import Batch
    from dedup_pipeline.sources.jsonl import parse_object

    lines = [
        b'{"title": "A", "text": "caf\xc3\xa9 \\u4e16", "n": 12345678901234567890, "tags": [1, 2.50, {"a": null}]}',
        b'{"title": null, "text": "x", "n": 1e3}',
        b'{"text": "lone \\ud800 half, pair \\ud83c\\udf0d", "tags": {}}',
        b'{"title": "", "text": null}',
    ]
    fields = ["title", "text", "n", "tags"]
    parsed = [parse_object(line)[0] for line in lines]
    columns = {}
    for name in fields:
        cells = [row.get(name, (int(Kind.MISSING), None)) for row in parsed]
        texts = pa.array([None if text is None else text.decode() for _, text in cells], pa.string())
        kinds = pa.array([kind for kind, _ in cells], pa.uint8())
        columns[name] = pa.StructArray.from_arrays([kinds, texts], fields=list(SEEN))
    batch = Batch("s", pa.array(range(4), pa.int64()), pa.RecordBatch.from_pydict(columns))
    config = load_config(inputs=["s"], output="out", set={"records.fields": fields})
    described = describe(batch, make_plan(config))
    for row, line in enumerate(lines):
        made = f"{int(described.fingerprints[row, 0]):016x}{int(described.fingerprints[row, 1]):016x}"
        expected = dedup_pipeline.record_fingerprint(json.loads(line), fields)
        assert (made if described.has_fingerprint[row] else None) == expected


def test_a_lone_surrogate_counts_as_the_replacement_character() -> None:
    assert fingerprint_of({"v": "a\ud800b"}, "v") == fingerprint_of({"v": "a\ufffdb"}, "v")
    assert fingerprint_of({"v": ["\udfff"]}, "v") == fingerprint_of({"v": ["\ufffd"]}, "v")


# --- no fingerprint, and the payload digest -----------------------------------------------------------


@pytest.mark.parametrize(
    "record", [{}, {"a": None}, {"a": ""}, {"a": None, "b": ""}, {"a": "", "b": ""}, {"c": "not selected"}]
)
def test_a_record_that_says_nothing_has_no_fingerprint(record: dict[str, Any]) -> None:
    assert fingerprint_of(record, "a", "b") is None


@pytest.mark.parametrize("value", [0, 0.0, False, [], {}, " ", "\0", [None]])
def test_every_other_value_says_something(value: object) -> None:
    assert fingerprint_of({"a": value}, "a", "b") is not None


def test_the_payload_digest_stands_in_for_empty_fields_alone() -> None:
    texts = pa.array([None, "", "x", None, None, ""])
    digests = pa.array(["sha1:A", "sha1:A", "sha1:A", "sha1:B", None, ""])
    null, empty, text, other, none, blank = as_hex([texts], 6, payload_digests=digests)
    assert null == empty
    assert null not in (None, other)
    assert text == by_hand("x")
    assert none is blank is None


def test_a_payload_digest_never_equals_a_field() -> None:
    assert as_hex([pa.nulls(1, pa.string())], payload_digests=pa.array(["sha1:A"])) != as_hex([pa.array(["sha1:A"])])


def test_a_field_that_normalises_to_nothing_says_nothing() -> None:
    assert as_hex([pa.array([" \u3000"])], normalisers=[("whitespace",)]) == [None]
    assert as_hex([pa.array([" \u3000"])]) != [None]


def test_no_records() -> None:
    hashes, present = fingerprints([pa.array([], pa.string()), None], 0)
    assert hashes.shape == (0, 2)
    assert present.shape == (0,)


# --- normalisations -----------------------------------------------------------------------------------

NFC = [
    ("e\u0301", "\u00e9"),
    ("a\u030a", "\u00e5"),
    ("\u212b", "\u00e5".upper()),  # the Ångström sign is an Å
    ("\u1112\u1161\u11ab", "\ud55c"),  # Hangul letters make a syllable
    ("\u0915\u093c", "\u0915\u093c"),  # Devanagari qa: excluded from composition
    ("\u1e9b\u0323", "\u1e9b\u0323"),
    ("q\u0307\u0323", "q\u0323\u0307"),  # marks in canonical order
    ("\u05d1\u05bc", "\u05d1\u05bc"),
    ("\ufb01", "\ufb01"),  # a ligature is a compatibility matter
    ("\u00bd \u2460 \uff21", "\u00bd \u2460 \uff21"),
    ("plain ASCII", "plain ASCII"),
    ("", ""),
]
CASE = [
    ("HELLO", "hello"),
    ("ÄÖÜ Éa", "äöü éa"),
    ("ПРИВЕТ", "привет"),
    ("ΑΒΓ", "αβγ"),
    ("ΣΑΣ", "σασ"),  # character by character: no final sigma
    ("ẞ", "ß"),
    ("straße", "straße"),  # lower case, not folding
    ("İ", "i"),
    ("ı", "ı"),
    ("ＡＢ", "ａｂ"),
    ("漢字 かな 한글", "漢字 かな 한글"),
    ("123 !?", "123 !?"),
]
RELATIVE = [
    ("Updated 3 minutes ago by us", "Updated [time] by us"),
    ("1 minute ago", "[time]"),
    ("Posted an hour ago", "Posted [time]"),
    ("about 2 hours ago", "[time]"),
    ("A few seconds ago", "[time]"),
    ("five days ago", "[time]"),
    ("5m ago", "[time]"),
    ("12 hrs ago | 3w ago", "[time] | [time]"),
    ("YESTERDAY", "[time]"),
    ("Just now", "[time]"),
    ("moments ago, a moment ago", "[time], [time]"),
    ("1.5 hours ago", "[time]"),
    ("1,200 days ago", "[time]"),
    ("3\u00a0minutes\u202fago", "[time]"),
    ("3\n  minutes ago", "[time]"),
    # what must stay
    ("long ago", "long ago"),
    ("3 minutes again", "3 minutes again"),
    ("3 minutes", "3 minutes"),
    ("in 3 minutes", "in 3 minutes"),
    ("and ago", "and ago"),
    ("yesterdays", "yesterdays"),
    ("3 apples ago", "3 apples ago"),
    ("vor 3 Minuten", "vor 3 Minuten"),
    ("il y a 3 heures", "il y a 3 heures"),
    ("3分前", "3分前"),
    ("2024-05-01 12:30", "2024-05-01 12:30"),
    ("Chicago, Santiago", "Chicago, Santiago"),
]
WHITESPACE = [
    ("a  b", "a b"),
    ("  a ", "a"),
    ("a\t\n\r\x0b\x0cb", "a b"),
    ("a\u00a0b", "a b"),
    ("全角\u3000空白", "全角 空白"),
    ("a\u2028b\u2029c\x85d", "a b c d"),
    ("a\u1680\u2003\u205fb", "a b"),
    (" \u3000 ", ""),
    # what must stay
    ("a\u200bb", "a\u200bb"),  # zero width space has not the property White_Space
    ("a\u200c\u200db", "a\u200c\u200db"),
    ("a\ufeffb", "a\ufeffb"),
    ("a\x1cb", "a\x1cb"),
    ("\x1ca\x1f", "\x1ca\x1f"),
    ("a_b-c.d", "a_b-c.d"),
]
ROWS = [
    *(("nfc", *row) for row in NFC),
    *(("case", *row) for row in CASE),
    *(("relative_time", *row) for row in RELATIVE),
    *(("whitespace", *row) for row in WHITESPACE),
]


@pytest.mark.parametrize(("name", "text", "expected"), ROWS)
def test_golden_normalisations(name: str, text: str, expected: str) -> None:
    once = normalise(pa.array([text, None]), [name])
    assert once.to_pylist() == [expected, None]
    assert normalise(once, [name]).to_pylist() == [expected, None]


@pytest.mark.parametrize(("name", "text", "expected"), ROWS)
def test_a_normalised_field_has_the_fingerprint_of_its_normal_form(name: str, text: str, expected: str) -> None:
    for column in (
        pa.array([text]),
        seen_array([text]),
        pa.array([text], pa.large_string()),
        pa.array([text], pa.string_view()),
        pa.array([text]).dictionary_encode(),
    ):
        assert as_hex([column], normalisers=[(name,)]) == [by_hand(expected) if expected else None]


def test_normalisations_together_take_their_fixed_order() -> None:
    text = pa.array(["  CAFE\u0301\u00a0\u00a03  Minutes AGO "])
    assert normalise(text, ["whitespace", "relative_time", "case", "nfc"]).to_pylist() == ["café [time]"]
    assert normalise(text, []).equals(text)


def test_normalisations_touch_texts_only() -> None:
    column = seen_array([["A"], "A", 1, None, True])
    bare = as_hex([column, pa.array(["x"] * 5)], 5)
    lowered = as_hex([column, pa.array(["x"] * 5)], 5, normalisers=[("case",), ()])
    assert [a == b for a, b in zip(bare, lowered, strict=True)] == [True, False, True, True, True]


def test_normalising_text_that_is_no_utf8_replaces_the_bad_parts() -> None:
    parts = [b"A\xff", b"B", b"\xe4\xb8X"]
    texts = text_array([len(part) for part in parts], parts, None)
    assert normalise(texts, ["case"]).to_pylist() == ["a\ufffd", "b", "\ufffdx"]
    assert repaired(texts).to_pylist() == [part.decode("utf-8", "replace") for part in parts]


@given(st.lists(st.binary(max_size=6), max_size=4))
@settings(deadline=None)
def test_repaired_is_pythons_replacement(parts: list[bytes]) -> None:
    texts = text_array([len(part) for part in parts], parts, None)
    assert repaired(texts).to_pylist() == [part.decode("utf-8", "replace") for part in parts]


@given(st.text(alphabet=st.sampled_from("aA É\u0301\u00a0\u3000\n3 minutesago"), max_size=20))
@settings(max_examples=200, deadline=None)
def test_whitespace_leaves_single_spaces_inside_only(text: str) -> None:
    made = normalise(pa.array([text]), ["whitespace"])[0].as_py()
    assert made == " ".join(text.split())
    assert pc.utf8_lower(pa.array([text]))[0].as_py() == normalise(pa.array([text]), ["case"])[0].as_py()
