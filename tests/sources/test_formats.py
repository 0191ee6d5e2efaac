from __future__ import annotations

import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_pipeline.sources.formats import recognise
from dedup_pipeline.sources.payloads import Payload, payload_kind
from dedup_pipeline.sources.streams import StreamFault

from .archive_builder import arc, arc_header, http, warc
from .conftest import Read


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"", "x.csv", None),
        (b"\n\n \r\n", "x", None),
        (b"\xef\xbb\xbf", "x", None),
        (b'{"a":1}', "x.csv", "jsonl"),
        (b'\xef\xbb\xbf\n {"a":1}', "x", "jsonl"),
        (b'[{"a":1}]', "x", "json"),
        (b"PAR1....", "x.jsonl", "parquet"),
        (warc(http()), "x.txt", "warc"),
        (b"\r\nwarc/1.0\r\n", "x", "warc"),
        (b"junk\n" + warc(http()), "x", "warc"),
        (arc_header(), "x", "arc"),
        (arc(http()), "x", "arc"),
        (b"a,b\n1,2\n", "x", "csv"),
        (b"a\tb\n1\t2\n", "x", "csv"),
        (b"only\nwords\n", "x.csv", "csv"),
        (b"only\nwords\n", "deep/x.CSV.gz", "csv"),
        (b"a,\0\n", "x.csv", "csv"),
    ],
)
def test_recognised(head: bytes, name: str, kind: str | None) -> None:
    assert recognise(head, name) == kind


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"PK\x03\x04", "ZIP"),
        (b"%PDF-1.4", "PDF"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b" CDX N b a m s k r M S V g\n", "CDX"),
        (b'com,example)/ 20140127171200 {"url": "x"}\n', "CDX"),
        (b"com,example)/ 20140127171200\tzipnum\t0\t1\t1\n", "CDX"),
        (b'!meta {"a": 1}\n', "CDX"),
        (b"<html>", "HTML"),
        (b"\x00\x01\x02", "binary"),
        (b"\0" * 50, "binary"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"some words\nmore words\n", "neither"),
        (b"a,b\nno second field\n", "neither"),
        (b"1,2\n3,4\n", "neither"),
        (b"a,b", "neither"),
        (b"PARE", "encrypted"),
        (b"\x37\xa4\x30\xec", "dictionary"),
    ],
)
def test_unknown(head: bytes, word: str) -> None:
    with pytest.raises(StreamFault, match=word) as caught:
        recognise(head, "x")
    assert caught.value.reason == "unknown_format"


def test_a_broken_container_is_named_before_an_unknown_content(read: Read) -> None:
    packed = gzip.compress(b"some words\n" * 10)
    assert read(packed, "x.gz").reason == "unknown_format"
    assert read(packed[:-9], "x.gz").reason == "truncated"


def test_format_that_is_forced(read: Read) -> None:
    assert read(b"a b\n1 2\n", "x", format="csv").columns == ["a b"]
    assert read(b"nothing\n", "x", format="jsonl").reasons == {0: "not_json"}
    assert read(b"nothing\n", "x", format="warc").reason == "bad_header"
    assert read(b"nothing\n", "x", format="parquet").reason in ("truncated", "corrupt")
    assert read(b"", "x", format="warc").broken is None


def test_parquet_in_gzip(read: Read) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    assert read(gzip.compress(out.getvalue()), "x").reason == "unknown_format"


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"x", Payload.HTML),
        ("application/xhtml+xml", b"", Payload.HTML),
        ("text/html", b"GIF89a", Payload.NO_TEXT),
        ("text/css", b"x", Payload.TEXT),
        ("application/rss+xml", b"x", Payload.TEXT),
        ("image/svg+xml", b"x", Payload.TEXT),
        ("application/json", b"%PDF-", Payload.NO_TEXT),
        ("application/octet-stream", b"text", Payload.NO_TEXT),
        ("image/png", b"text", Payload.NO_TEXT),
        (None, b" \n<!DOCTYPE html>", Payload.HTML),
        (None, b"\xef\xbb\xbf<HTML>", Payload.HTML),
        ("unknown/unknown", b"words", Payload.TEXT),
        ("nonsense", b"<b>x", Payload.HTML),
        (None, b"a\x00b", Payload.NO_TEXT),
        (None, b"\xff\xfea\x00", Payload.TEXT),
        (None, b"", Payload.TEXT),
    ],
)
def test_payload_kind(content_type: str | None, body: bytes, kind: Payload) -> None:
    assert payload_kind(content_type, body) is kind
