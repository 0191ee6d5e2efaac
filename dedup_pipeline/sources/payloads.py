"""What a payload is: HTML, other text, or no text. By its declared media type, else by its first bytes."""

from __future__ import annotations

from enum import IntEnum

_HTML = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_TEXT = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "application/ld+json",
        "application/x-ndjson",
        "application/xml-dtd",
        "application/rtf",
    }
)
_UNSAID = frozenset({"unknown/unknown", "application/unknown", "*/*", "no-type", "unk", "-"})

# after the pattern tables of the WHATWG standard "MIME Sniffing", sections 6 and 7
_BINARY = (
    b"\x89PNG\r\n",
    b"GIF8",
    b"\xff\xd8\xff",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"BM\x00",
    b"\x00\x00\x01\x00",
    b"OggS",
    b"ID3",
    b"wOFF",
    b"wOF2",
    b"FWS",
    b"CWS",
    b"Rar!",
    b"7z\xbc\xaf",
    b"\xca\xfe\xba\xbe",
    b"\x7fELF",
    b"MZ\x90",
)
_HTML_STARTS = (
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a ",
    b"<style",
    b"<title",
    b"<b>",
    b"<body",
    b"<br",
    b"<p>",
    b"<!--",
)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_CONTROLS = bytes(byte for byte in range(32) if byte not in (9, 10, 12, 13, 27))


class Payload(IntEnum):
    """How a payload becomes text. Stable: the numbers go over the pipe to the workers."""

    NO_TEXT = 0
    HTML = 1
    TEXT = 2


def payload_kind(content_type: str | None, body: bytes) -> Payload:
    """What ``body`` is; an empty one is text. A binary file announced as text is no text.

    >>> payload_kind("text/css", b"p{}"), payload_kind(None, b"<html>"), payload_kind("image/png", b"")
    (<Payload.TEXT: 2>, <Payload.HTML: 1>, <Payload.NO_TEXT: 0>)
    """
    unsaid = content_type is None or content_type in _UNSAID or "/" not in content_type
    if not unsaid and content_type is not None:
        if content_type in _HTML:
            return Payload.NO_TEXT if _is_binary(body) else Payload.HTML
        if content_type.startswith("text/") or content_type in _TEXT or content_type.endswith(("+json", "+xml")):
            return Payload.NO_TEXT if _is_binary(body) else Payload.TEXT
        return Payload.NO_TEXT
    if _is_binary(body):
        return Payload.NO_TEXT
    start = body[:1445]
    if not start.startswith(_BOMS) and any(byte in _CONTROLS for byte in start):
        return Payload.NO_TEXT
    return Payload.HTML if start.removeprefix(_BOMS[0]).lstrip().lower().startswith(_HTML_STARTS) else Payload.TEXT


def _is_binary(body: bytes) -> bool:
    return body.startswith(_BINARY)
