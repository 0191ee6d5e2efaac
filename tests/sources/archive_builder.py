"""Small WARC and ARC files for tests."""

from __future__ import annotations

from collections.abc import Mapping


def http(
    body: bytes = b"<html><title>T</title><body><p>Hello there.</p></body></html>",
    content_type: str | None = "text/html; charset=utf-8",
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """An HTTP response as it is stored."""
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {content_type}"] if content_type else [])]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def warc(
    block: bytes,
    kind: str = "response",
    number: int = 1,
    length: int | str | None = None,
    newline: bytes = b"\r\n",
    **headers: str,
) -> bytes:
    """One WARC record; underscores in header names become hyphens."""
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{number:032d}>",
        "WARC-Date": "2024-05-06T07:08:09Z",
        "WARC-Target-URI": f"http://example.org/{number}",
        "Content-Type": "application/http; msgtype=response",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if length != "":
        fields["Content-Length"] = str(len(block) if length is None else length)
    head = newline.join([b"WARC/1.0", *[f"{name}: {value}".encode() for name, value in fields.items()]])
    return head + newline * 2 + block + newline * 2


def arc(block: bytes, url: str = "http://example.org/", length: int | None = None, kind: str = "text/html") -> bytes:
    """One record of ARC version 1."""
    size = len(block) if length is None else length
    return f"{url} 127.0.0.1 20240506070809 {kind} {size}\n".encode() + block + b"\n"


def arc_header(version: int = 1) -> bytes:
    """The first record of an ARC file."""
    fields = "URL IP-address Archive-date Content-type Archive-length"
    if version == 2:
        fields = "URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length"
    block = f"{version} 0 Somebody\n{fields}\n".encode()
    return f"filedesc://a.arc 0.0.0.0 20240506070809 text/plain {len(block)}\n".encode() + block + b"\n"
