from __future__ import annotations

import base64
import gzip
import hashlib
from datetime import UTC, datetime

import brotli
import pytest

from dedup_pipeline.schema import ARCHIVE
from dedup_pipeline.sources.archives import parse_date

from .archive_builder import arc, arc_header, http, warc
from .conftest import Read

REQUEST = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"
POST = REQUEST.replace(b"GET", b"POST")


def page(text: str, title: str = "T") -> bytes:
    return f"<!doctype html><html><head><title>{title}</title></head><body><p>{text}</p></body></html>".encode()


def test_columns_of_a_document(read: Read) -> None:
    body = page("Grüße aus dem Archiv.", " Ein\nTitel ")
    got = read(warc(b"x", "warcinfo", 0) + warc(http(body)), "a.warc")
    assert got.columns == ARCHIVE.names
    assert [got.types[name] for name in got.columns] == [field.type for field in ARCHIVE]
    assert got.skipped == {"warcinfo": 1}
    assert got.rows == {
        1: {
            "url": b"http://example.org/1",
            "title": b"Ein Titel",
            "text": "Grüße aus dem Archiv.".encode(),
            "date": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
            "status": 200,
            "content_type": b"text/html",
            "charset": b"utf-8",
            "record_id": b"<urn:uuid:00000000000000000000000000000001>",
            "payload_digest": b"sha1:" + base64.b32encode(hashlib.sha1(body).digest()),
            "offset": len(warc(b"x", "warcinfo", 0)),
        }
    }


def test_what_is_no_document_is_counted_by_kind(read: Read) -> None:
    records = [
        warc(b"", "warcinfo"),
        warc(REQUEST, "request"),
        warc(b"", "metadata"),
        warc(http(), "revisit"),
        warc(b"", "resource"),
        warc(b"", "continuation"),
        warc(b"", "something-new"),
        warc(b"20240101", WARC_Target_URI="dns:example.org", Content_Type="text/dns"),
        warc(b"just text"),
        warc(http(status="404 Not Found")),
        warc(http(status="301 Moved")),
        warc(http()),
    ]
    got = read(b"".join(records), "a.warc")
    kinds = ["warcinfo", "request", "metadata", "revisit", "resource", "continuation", "unknown", "dns", "not_http"]
    assert got.skipped == dict.fromkeys([*kinds, "status_404", "status_301"], 1)
    assert list(got.rows) == [11]
    got = read(b"".join(records), "a.warc", status=(200, 404))
    assert list(got.rows) == [9, 11]
    assert got.rows[9]["status"] == 404


@pytest.mark.parametrize("first", [True, False])
def test_the_method_is_that_of_the_request_beside_it(read: Read, first: bool) -> None:
    def exchange(request: bytes, number: int) -> bytes:
        pair = [
            warc(http(), number=number),
            warc(request, "request", number + 100, WARC_Concurrent_To=f"<urn:uuid:{number:032d}>"),
        ]
        return b"".join(pair[::-1] if first else pair)

    got = read(
        exchange(REQUEST, 1) + exchange(POST, 2) + exchange(REQUEST, 3) + exchange(POST.replace(b"POST", b"BREW"), 4),
        "a.warc",
    )
    assert got.skipped == {"request": 4, "method_post": 1, "method_other": 1}
    assert len(got.rows) == 2


def test_a_request_of_another_exchange_says_nothing(read: Read) -> None:
    other = warc(POST, "request", 9, WARC_Concurrent_To="<urn:uuid:nobody>")
    assert len(read(other + warc(http()) + other, "a.warc").rows) == 1
    same_url = warc(POST, "request", 9, WARC_Target_URI="http://example.org/1")
    assert read(warc(http()) + same_url, "a.warc").skipped == {"request": 1, "method_post": 1}
    assert len(read(warc(http()) + warc(POST, "request", 9), "a.warc").rows) == 1


def test_equal_payloads_have_one_digest_whatever_their_coding(read: Read) -> None:
    body = page("The same page.") * 20
    blocks = [
        http(body),
        http(gzip.compress(body), headers={"Content-Encoding": "gzip"}),
        http(brotli.compress(body), headers={"Content-Encoding": "br"}),
        http(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), headers={"Transfer-Encoding": "chunked"}),
    ]
    got = read(b"".join(warc(block, WARC_Payload_Digest="sha1:WRONG") for block in blocks), "a.warc")
    assert len({row["payload_digest"] for row in got.rows.values()}) == 1
    assert len({row["text"] for row in got.rows.values()}) == 1
    arcs = read(arc_header() + b"".join(arc(block) for block in blocks), "a.arc")
    assert {row["payload_digest"] for row in arcs.rows.values()} == {row["payload_digest"] for row in got.rows.values()}


@pytest.mark.parametrize(
    ("header", "body", "charset", "text"),
    [
        ("text/html; charset=windows-1251", "<p>Привет</p>".encode("cp1251"), b"cp1251", "Привет"),
        ("text/html", '<meta charset="gb2312"><p>你好</p>'.encode("gb2312"), b"gbk", "你好"),
        (
            "text/html",
            b'<meta http-equiv=Content-Type content="text/html; charset=shift_jis"><p>' + "日本".encode("shift_jis"),
            b"shift_jis",
            "日本",
        ),
        ("text/html; charset=nonsense", "<p>é</p>".encode(), b"utf-8", "é"),
        ("text/html; charset=iso-8859-1", b"\xef\xbb\xbf" + "<p>é</p>".encode(), b"utf-8", "é"),
        ("text/html", "<p>é</p>".encode("utf-16"), b"utf-16-le", "é"),
        ("text/html", '<meta charset="utf-16"><p>é</p>'.encode(), b"utf-8", "é"),
        ("text/html; charset=utf-8", b"<p>caf\xe9</p>", b"utf-8", "caf\ufffd"),
        ("text/plain; charset=latin1", b"caf\xe9\n", b"cp1252", "café\n"),
        ("application/json", b'{"a": 1}', b"utf-8", '{"a": 1}'),
    ],
)
def test_charset(read: Read, header: str, body: bytes, charset: bytes, text: str) -> None:
    (row,) = read(warc(http(body, header)), "a.warc").rows.values()
    assert (row["charset"], row["text"]) == (charset, text.encode())


def test_payloads_without_text_are_documents(read: Read) -> None:
    blocks = [
        http(b"\x89PNG\r\n", "image/png"),
        http(b"\x89PNG\r\n", "text/html"),
        http(b"", "application/pdf"),
        http(b""),
    ]
    got = read(b"".join(map(warc, blocks)), "a.warc")
    assert [row["text"] for row in got.rows.values()] == [None, None, None, b""]
    assert [row["title"] for row in got.rows.values()] == [None] * 4
    assert all(row["payload_digest"] for row in got.rows.values())


def test_all_text_stands_in_where_no_main_content_is_found(read: Read) -> None:
    body = b"<html><body><nav><ul><li><a href=/>Only links here</a></li></ul></nav></body></html>"
    (row,) = read(warc(http(body)), "a.warc").rows.values()
    assert b"Only links here" in row["text"]


def test_text_is_kept_as_it_is(read: Read) -> None:
    got = read(warc(http(b" two  spaces\r\n\0", "text/plain")), "a.warc")
    assert got.rows[0]["text"] == b" two  spaces\r\n\0"
    assert got.rows[0]["title"] is None


def test_conversions(read: Read) -> None:
    def wet(text: bytes, kind: str = "text/plain") -> bytes:
        return warc(text, "conversion", Content_Type=kind)

    got = read(
        wet("Grüße\n".encode())
        + wet(b"caf\xe9")
        + wet(b"caf\xe9", "text/plain; charset=latin1")
        + wet(b"%PDF-", "application/pdf"),
        "a.wet",
    )
    assert [row["text"] for row in got.rows.values()] == [
        "Grüße\n".encode(),
        "caf\ufffd".encode(),
        "café".encode(),
        None,
    ]
    assert got.repaired == 1
    assert got.rows[0]["status"] is None
    assert got.rows[0]["charset"] == b"utf-8"
    assert got.rows[0]["content_type"] == b"text/plain"


def test_records_that_cannot_be_used(read: Read) -> None:
    records = [
        warc(http(gzip.compress(page("x"))[:-9], headers={"Content-Encoding": "gzip"})),
        warc(http(gzip.compress(page("x"))[:-9], headers={"Content-Encoding": "gzip"}), WARC_Truncated="length"),
        warc(b"HTTP/1.1 what\r\n\r\n"),
        warc(http(), WARC_Segment_Number="1"),
        warc(http(b"x" * 5000, "image/png")),
        warc(b"x" * 5000, "resource"),
        warc(http(gzip.compress(bytes(100_000)), headers={"Content-Encoding": "gzip"})),
        warc(http(), ""),
    ]
    got = read(b"".join(records), "a.warc", record_bytes=2000)
    assert got.reasons == {
        0: "bad_coding",
        2: "bad_http",
        3: "segmented",
        4: "too_large",
        6: "too_large",
        7: "bad_header",
    }
    assert got.skipped == {"resource": 1}
    assert list(got.rows) == [1]


def test_batches_do_not_change_what_is_read(read: Read) -> None:
    records = []
    for n in range(120):
        records.append(warc(http(page(f"Page {n} " * (n % 17), f"t{n}")), number=n))
        records.append(warc(http(b"x" if n % 3 else b"", "image/png" if n % 2 else "text/plain"), number=n))
        records.append(warc(http(status="404 No") if n % 5 else b"HTTP/1.1 bad", number=n))
    content = b"".join(records)[:-30]
    whole = read(content, "a.warc")
    assert whole.reason == "truncated"
    for batch_rows in (1, 7):
        assert read(content, "a.warc", batch_rows=batch_rows).essence() == whole.essence()
    assert read(content, "a.warc", batch_bytes=2000).essence() == whole.essence()


def test_compressed_per_record_and_whole(read: Read) -> None:
    records = [warc(http(page(f"Page {n}"))) for n in range(20)]
    plain = read(b"".join(records), "a.warc").essence()
    assert read(b"".join(map(gzip.compress, records)), "a.warc.gz").essence() == plain
    assert read(gzip.compress(b"".join(records)), "b.warc.gz").essence() == plain


def test_arc(read: Read) -> None:
    got = read(
        arc_header()
        + arc(http(page("From an ARC.")))
        + arc(b"x", "dns:e.org", kind="text/dns")
        + arc(http(status="500 X")),
        "a.arc",
    )
    assert got.skipped == {"arc_header": 1, "dns": 1, "status_500": 1}
    (row,) = got.rows.values()
    assert (row["text"], row["record_id"], row["url"]) == (b"From an ARC.", None, b"http://example.org/")
    assert row["date"] == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert row["offset"] == len(arc_header())


def test_odd_headers_are_no_traceback(read: Read) -> None:
    got = read(
        warc(
            http(),
            WARC_Date="blue monday",
            WARC_Target_URI="<http://a/\udcff>".encode("utf-8", "replace").decode(),
            X="\u00e9",
        ),
        "a.warc",
    )
    assert got.rows[0]["date"] is None
    assert got.rows[0]["url"] == b"http://a/?"
    content = warc(http()).replace(b"http://example.org/1", b"http://example.org/\xff")
    assert read(content, "b.warc").rows[0]["url"] == "http://example.org/\ufffd".encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-06T07:08:09Z", datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)),
        ("2024-05-06T07:08:09.123456789Z", datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)),
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("20240506", datetime(2024, 5, 6, tzinfo=UTC)),
        ("20240506070809123", datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)),
        ("2024-13-01", None),
        ("٢٠٢٤", None),
        ("", None),
        (None, None),
    ],
)
def test_dates(text: str | None, expected: datetime | None) -> None:
    assert parse_date(text) == expected
