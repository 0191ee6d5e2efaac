"""Writes the planted documents as a crawler does: one WARC file, a gzip member per record, and one JSON Lines feed.

The bytes depend on the documents alone: dates are counted up from a fixed one, ids come from the keys, and what is
compressed inside a payload uses stored blocks, which every zlib writes alike.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import struct
import uuid
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from sample_documents import Document

LICENCE = "Apache-2.0"
SOURCE_NOTE = "written for the dedup_pipeline sample"
START = datetime(2024, 3, 1, 4, 0, 0, tzinfo=UTC)
REVISIT = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
STATUS = {"404": "404 Not Found", "301": "301 Moved Permanently", "500": "500 Internal Server Error"}
DIRECTION = {"ar": ' dir="rtl"'}


def escape(text: str) -> str:
    """``text`` for an HTML element; apostrophes and quotes stay, as authors write them."""
    return html.escape(text, quote=False)


def page_html(page: Document) -> str:
    """The HTML of a page: article with its surroundings, or only what its form asks for."""
    text = page.text
    title = escape(text.title) if text else ""
    meta = f'<meta name="licence" content="{LICENCE}"><meta name="source" content="{SOURCE_NOTE}">'
    if text is None or page.form == "script":
        # Two pages of one group are meant to have the same bytes, others are not.
        app = page.key.rsplit("-", 1)[0]
        return f'<!DOCTYPE html><html><head><title>App</title>{meta}</head><body><div id="{app}"></div></body></html>\n'
    if page.form != "page":
        return f"<!DOCTYPE html><html><head>{meta}</head><body>{title}</body></html>\n"
    host = urlsplit(page.url or "").hostname or ""
    blocks = "\n".join(f"<p>{escape(block)}</p>" for block in text.blocks)
    aside = f'<aside class="ad-slot"><p>{escape(page.aside)}</p></aside>' if page.aside else ""
    return f"""<!DOCTYPE html>
<html lang="{page.language}"{DIRECTION.get(page.language, "")}>
<head><meta charset="{page.encoding}"><title>{title}</title>
{meta}
<link rel="stylesheet" href="/style.css"><script src="/menu.js" defer></script></head>
<body>
<nav class="top"><ul><li><a href="/">{host}</a></li><li><a href="/all">All pages</a></li>
<li><a href="/new">New pages</a></li><li><a href="/contact">Write to us</a></li></ul></nav>
<main>
<article>
<h1>{title}</h1>
{blocks}
</article>
</main>
{aside}
<footer><p>Pages of {host}, free to copy. <a href="/imprint">Imprint</a></p></footer>
</body>
</html>
"""


def stored(payload: bytes, wrap: int) -> bytes:
    """``payload`` as a deflate stream of stored blocks (RFC 1951 3.2.4) in a zlib (15) or gzip (31) wrapper."""
    pieces = [payload[start : start + 65535] for start in range(0, len(payload), 65535)] or [b""]
    blocks = [
        bytes([number == len(pieces) - 1]) + struct.pack("<HH", len(piece), len(piece) ^ 0xFFFF) + piece
        for number, piece in enumerate(pieces)
    ]
    if wrap == 15:
        return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(payload))
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return head + b"".join(blocks) + struct.pack("<II", zlib.crc32(payload), len(payload))


def image(shade: int) -> bytes:
    """A grey PNG picture of 8 x 8 pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    rows = (b"\0" + bytes([shade]) * 8) * 8
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    note = f"Comment\0{SOURCE_NOTE}; {LICENCE}".encode("latin-1")
    parts = chunk(b"IHDR", header) + chunk(b"tEXt", note) + chunk(b"IDAT", stored(rows, 15)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def digest(payload: bytes) -> str:
    """A labelled SHA-1 in base 32, as WARC files have it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode("ascii")


def response(page: Document) -> tuple[bytes, bytes, bytes]:
    """HTTP header block, body as sent, and the payload (the body without its chunks)."""
    if page.form == "image":
        payload, kind = image(40 if page.key.startswith("image-00") else 200), "image/png"
    else:
        payload = b"" if page.form == "empty" else page_html(page).encode(page.encoding)
        kind = f"text/html; charset={page.encoding}"
    fields = [f"HTTP/1.1 {STATUS.get(page.form, '200 OK')}", f"Content-Type: {kind}", "Server: sample"]
    if page.form == "301":
        fields.append("Location: https://tiny.example/elsewhere")
    body = payload
    if page.transfer == "gzip":
        body = payload = stored(payload, 31)
        fields.append("Content-Encoding: gzip")
    if page.transfer == "chunked":
        pieces = [payload[start : start + 700] for start in range(0, len(payload), 700)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        fields.append("Transfer-Encoding: chunked")
    else:
        fields.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*fields, "", ""]).encode("ascii"), body, payload


def request(page: Document) -> bytes:
    """The HTTP request that fetched the page."""
    parts = urlsplit(page.url or "")
    host = parts.netloc.encode("idna").decode("ascii") if not parts.netloc.isascii() else parts.netloc
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    method, more = ("POST", "Content-Length: 0\r\n") if page.form == "post" else ("GET", "")
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sample/1\r\n{more}\r\n".encode("ascii")


def record(kind: str, record_id: str, when: datetime, fields: list[tuple[str, str]], block: bytes) -> bytes:
    """One WARC/1.1 record (ISO 28500:2017) with its closing empty lines."""
    named = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", record_id),
        ("WARC-Date", when.strftime("%Y-%m-%dT%H:%M:%SZ")),
        *fields,
        ("WARC-Block-Digest", digest(block)),
        ("Sample-Licence", LICENCE),
        ("Sample-Source", SOURCE_NOTE),
        ("Content-Length", str(len(block))),
    ]
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named)
    return head.encode("utf-8") + b"\r\n" + block + b"\r\n\r\n"


def urn(name: str) -> str:
    """A record id made from ``name``."""
    return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'https://sample.example/' + name)}>"


def crawl_records(pages: list[Document]) -> Iterator[bytes]:
    """The records of the archive: warcinfo, then request and response of each page, revisits, one metadata record."""
    about = f"software: data/make_sample.py\r\nformat: WARC File Format 1.1\r\nlicence: {LICENCE}\r\nsource: {SOURCE_NOTE}\r\n"
    fields = [("WARC-Filename", "crawl.warc.gz"), ("Content-Type", "application/warc-fields")]
    yield record("warcinfo", urn("warcinfo"), START, fields, about.encode("ascii"))
    crawl = [page for page in pages if page.source == "crawl"]
    revisited = iter([(n, page) for n, page in enumerate(crawl) if page.plant == "ordinary" and not page.transfer])
    for number, page in enumerate(crawl):
        when, host = START + timedelta(seconds=3 * number), f"192.0.2.{1 + number % 250}"
        uri = ("WARC-Target-URI", page.url or "")
        common = [("WARC-Warcinfo-ID", urn("warcinfo")), ("WARC-IP-Address", host)]
        asked = urn("request/" + page.key)
        kind = ("Content-Type", "application/http; msgtype=request")
        yield record("request", asked, when, [uri, *common, kind], request(page))
        fields = [*common, ("WARC-Concurrent-To", asked), ("Content-Type", "application/http; msgtype=response")]
        if page.form == "revisit":
            before, first = next(revisited)
            head, _, payload = response(first)
            seen = (START + timedelta(seconds=3 * before)).strftime("%Y-%m-%dT%H:%M:%SZ")
            fields = [("WARC-Target-URI", first.url or ""), *fields, ("WARC-Profile", REVISIT)]
            fields += [("WARC-Refers-To", first.id), ("WARC-Refers-To-Target-URI", first.url or "")]
            fields += [("WARC-Refers-To-Date", seen), ("WARC-Payload-Digest", digest(payload))]
            yield record("revisit", page.id, when + timedelta(seconds=1), fields, head)
            continue
        head, body, payload = response(page)
        fields = [uri, *fields, ("WARC-Payload-Digest", digest(payload))]
        yield record("response", page.id, when + timedelta(seconds=1), fields, head + body)
    fields = [("WARC-Refers-To", crawl[0].id), ("Content-Type", "application/warc-fields")]
    yield record(
        "metadata", urn("metadata"), START, fields, b"via: https://www.harbour.example/\r\nhopsFromSeed: L\r\n"
    )


def crawl_bytes(pages: list[Document]) -> bytes:
    """The archive, one gzip member per record."""
    return b"".join(gzip.compress(one, compresslevel=9, mtime=0) for one in crawl_records(pages))


def feed_bytes(pages: list[Document]) -> bytes:
    """The feed: one JSON object per line."""
    lines = []
    feed = [page for page in pages if page.source == "feed"]
    for number, page in enumerate(feed):
        row: dict[str, object] = {"id": page.id, "url": page.url, "title": page.text.title if page.text else None}
        if page.form == "bare" and page.text:
            row |= {"title": None, "text": page.text.title}
        elif page.form != "missing":
            row["text"] = page.text.whole() if page.text else None
        when = START + timedelta(days=1, seconds=7 * number)
        row["fetched"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
        row["tags"] = [page.language, *(["short"] if page.form != "page" else [])]
        row |= {"source_note": SOURCE_NOTE, "licence": LICENCE}
        lines.append(json.dumps({k: v for k, v in row.items() if k != "url" or v is not None}, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode("utf-8")
