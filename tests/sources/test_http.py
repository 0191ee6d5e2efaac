from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.sources.http import HttpFault, decode_body, parse_response, split_content_type

from .archive_builder import http

LIMIT = 1_000_000
TEXT = b"<p>" + b"Some words that repeat themselves. " * 200


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def chunked(data: bytes, size: int = 1000, last: bytes = b"0\r\n\r\n") -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + last


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def decoded(body: bytes, limit: int = LIMIT, partial: bool = False, **headers: str) -> bytes:
    response = parse_response(http(body, headers={name.replace("_", "-"): value for name, value in headers.items()}))
    assert response is not None
    return decode_body(response, limit, partial)


def test_head() -> None:
    response = parse_response(http(b"body", 'Text/HTML; Charset="Shift_JIS"', "404 Not Found", {"Content-Length": "4"}))
    assert response is not None
    assert (response.status, response.content_type, response.charset) == (404, "text/html", "Shift_JIS")
    assert (response.codings, response.length, response.body) == ((), 4, b"body")


@pytest.mark.parametrize("newline", [b"\r\n", b"\n"])
def test_line_ends_and_folded_lines(newline: bytes) -> None:
    block = newline.join([b"HTTP/1.0 200", b"X: 1", b"CONTENT-TYPE: text/plain;", b" charset=utf-8", b"", b"b\n\nc"])
    response = parse_response(block)
    assert response is not None
    assert (response.content_type, response.charset, response.body) == ("text/plain", "utf-8", b"b\n\nc")


def test_no_http_and_no_status() -> None:
    assert parse_response(b"20240101\nexample.org") is None
    assert parse_response(b"") is None
    for line in (b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 2000 x\r\n\r\n"):
        with pytest.raises(HttpFault) as caught:
            parse_response(line)
        assert caught.value.reason == "bad_http"
    assert parse_response(b"HTTP/2 200").status == 200  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (None, None)),
        ("", (None, None)),
        ("text/html", ("text/html", None)),
        ("text/html;charset='latin1'", ("text/html", "latin1")),
        ("text/html, text/html; charset=a", ("text/html", "a")),
        (";charset=utf-8", (None, "utf-8")),
    ],
)
def test_content_type(value: str | None, expected: tuple[str | None, str | None]) -> None:
    assert split_content_type(value) == expected


@pytest.mark.parametrize("coding", CODINGS)
def test_codings(coding: str) -> None:
    packed = CODINGS[coding](TEXT)
    assert decoded(packed, Content_Encoding=coding) == TEXT
    assert decoded(packed, Content_Encoding=coding.upper()) == TEXT
    assert decoded(chunked(packed), Content_Encoding=coding, Transfer_Encoding="chunked") == TEXT
    assert decoded(packed, Transfer_Encoding=coding) == TEXT
    assert decoded(b"", Content_Encoding=coding) == b""


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_that_had_been_decoded_is_taken_as_it_is(coding: str) -> None:
    assert decoded(TEXT, Content_Encoding=coding) == TEXT
    assert decoded(TEXT, Content_Encoding=coding, Transfer_Encoding="chunked") == TEXT


@pytest.mark.parametrize("coding", CODINGS)
def test_a_coding_that_breaks_off(coding: str) -> None:
    packed = CODINGS[coding](TEXT)
    for cut in (len(packed) // 2, len(packed) - 1):
        with pytest.raises(HttpFault) as caught:
            decoded(packed[:cut], Content_Encoding=coding)
        assert caught.value.reason == "bad_coding"
        assert TEXT.startswith(decoded(packed[:cut], partial=True, Content_Encoding=coding))


@pytest.mark.parametrize("coding", CODINGS)
def test_bombs(coding: str) -> None:
    with pytest.raises(HttpFault) as caught:
        decoded(CODINGS[coding](bytes(5_000_000)), limit=100_000, Content_Encoding=coding)
    assert caught.value.reason == "too_large"


def test_two_codings_and_unknown_ones() -> None:
    assert decoded(gzip.compress(zlib.compress(TEXT)), Content_Encoding="deflate, gzip") == TEXT
    assert decoded(raw_deflate(TEXT), Content_Encoding="deflate") == TEXT
    assert decoded(TEXT, Content_Encoding="identity") == TEXT
    assert decoded(TEXT, Content_Encoding="UTF-8") == TEXT
    with pytest.raises(HttpFault) as caught:
        decoded(TEXT, Content_Encoding="compress")
    assert caught.value.reason == "bad_coding"


def test_chunks() -> None:
    def of(body: bytes) -> bytes:
        return decoded(body, Transfer_Encoding="chunked")

    assert of(chunked(TEXT)) == TEXT
    assert of(chunked(TEXT, last=b"0;x=y\r\nTrailer: a\r\n\r\n")) == TEXT
    assert of(chunked(TEXT, last=b"")) == TEXT
    assert of(b"3 ;ext\nabc\n2\nde\n0\n\n") == b"abcde"
    assert of(b"0\r\n\r\n") == b""
    assert of(b"add nothing\r\n") == b"add nothing\r\n"
    assert of(b"fade\nto grey") == b"fade\nto grey"
    for damaged in (chunked(TEXT)[:2500], chunked(TEXT).replace(b"\r\n3e8\r\n", b"\r\nzzz\r\n", 1)):
        with pytest.raises(HttpFault):
            of(damaged)
        assert TEXT.startswith(decoded(damaged, partial=True, Transfer_Encoding="chunked"))


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=200), coding=st.sampled_from([*CODINGS, "chunked", "nonsense"]), partial=st.booleans())
def test_any_body_is_decoded_or_named(body: bytes, coding: str, partial: bool) -> None:
    reason = None
    try:
        assert isinstance(decoded(body, partial=partial, Content_Encoding=coding), bytes)
    except HttpFault as fault:
        reason = fault.reason
    assert reason in (None, "bad_coding", "too_large")


@settings(max_examples=300, deadline=None)
@given(block=st.binary(max_size=200))
def test_any_head_is_parsed_or_named(block: bytes) -> None:
    try:
        response = parse_response(b"HTTP/1.1 200 OK\r\n" + block)
    except HttpFault:
        return
    assert response is not None
    assert response.status == 200
