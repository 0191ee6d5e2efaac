"""HTTP responses as archives keep them (RFC 9112), tolerant of what crawlers really wrote.

Header lines may end in LF alone; a body may have been de-chunked or decompressed by the crawler while
the headers still announce the coding; then it is taken as it is.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from fastwarc.warc import HeaderMap

from dedup_pipeline.sources.codecs import MAGICS, ZSTD, CodecFault, ZstdDecoder

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t\r\n]|$)")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_STEP = 1 << 16


class HttpFault(Exception):
    """A response that cannot be used: ``bad_http``, ``bad_coding`` or ``too_large``."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Response:
    """A parsed response.

    Attributes:
        status: the status code.
        content_type: media type in lower case without parameters, or None.
        charset: the charset parameter as written, or None.
        codings: codings of the body as announced, the one applied last first (``chunked``, ``gzip``, ...).
        length: the Content-Length header, where it is a number.
        body: the body as it was sent.
    """

    status: int
    content_type: str | None
    charset: str | None
    codings: tuple[str, ...]
    length: int | None
    body: bytes


class Headers:
    """Header fields by name in any case, in the order they were written.

    FastWARC splits the lines and joins folded ones; its own look-up releases the interpreter lock, which costs more
    than the parsing where another thread is busy, so the fields are taken over once.
    """

    __slots__ = ("_fields",)

    def __init__(self, block: bytes) -> None:
        if block.count(b"\n") != block.count(b"\r\n"):
            block = block.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        parsed = HeaderMap()
        parsed.parse(io.BytesIO(block + b"\r\n\r\n"))
        fields: dict[str, list[str]] = {}
        for name, value in parsed.items():
            fields.setdefault(name.lower(), []).append(value)
        self._fields = fields

    def get(self, name: str) -> str | None:
        """The first value of the field, ``name`` in lower case."""
        values = self._fields.get(name)
        return values[0] if values else None

    def get_all(self, name: str) -> list[str]:
        """All values of the field, ``name`` in lower case."""
        return self._fields.get(name, [])


def split_content_type(value: str | None) -> tuple[str | None, str | None]:
    """Media type and charset of a Content-Type.

    >>> split_content_type('Text/HTML; charset="utf-8"')
    ('text/html', 'utf-8')
    """
    if not value:
        return None, None
    found = _CHARSET.search(value)
    return value.split(";", 1)[0].split(",", 1)[0].strip().lower() or None, found[1] if found else None


def parse_response(block: bytes) -> Response | None:
    """The response that ``block`` holds, None where it does not begin like one.

    Raises:
        HttpFault: ``bad_http`` where the status line has no status.
    """
    if not block.startswith(b"HTTP/"):
        return None
    status = _STATUS_LINE.match(block)
    if status is None:
        raise HttpFault("bad_http", "the status line has no status code")
    end = _HEAD_END.search(block)
    head, body = (block[: end.start()], block[end.end() :]) if end else (block, b"")
    headers = Headers(head)
    content_type, charset = split_content_type(headers.get("content-type"))
    length = headers.get("content-length")
    codings = [*_tokens(headers, "content-encoding"), *_tokens(headers, "transfer-encoding")]
    return Response(
        status=int(status[1]),
        content_type=content_type,
        charset=charset,
        codings=tuple(reversed([coding for coding in codings if coding != "identity"])),
        length=int(length) if length and length.isascii() and length.strip().isdigit() and len(length) < 19 else None,
        body=body,
    )


def _tokens(headers: Headers, name: str) -> list[str]:
    values = headers.get_all(name)
    return [token.strip().lower() for value in values for token in value.split(",") if token.strip()]


def decode_body(response: Response, limit: int, partial: bool) -> bytes:
    """The body with its codings undone.

    Args:
        response: as parsed.
        limit: bytes the result may have.
        partial: whether a body that ends early is taken as far as it goes (the crawler said it cut it).

    Raises:
        HttpFault: ``bad_coding`` where a coding is not known or breaks off; ``too_large``.
    """
    body = response.body
    for coding in response.codings:
        if not body:
            break
        decode = _CODINGS.get(coding)
        if decode is None:
            if coding in _NO_CODINGS:
                continue
            raise HttpFault("bad_coding", "the body has a content coding that is not read")
        body = decode(body, limit, partial)
    return body


_NO_CODINGS = {"none", "utf-8", "8bit", "7bit", "binary", "text/html", "iso-8859-1", "windows-1252"}


def _dechunk(body: bytes, limit: int, partial: bool) -> bytes:  # noqa: ARG001 - never longer than what was sent
    parts: list[bytes] = []
    at = 0
    while True:
        size = _CHUNK_SIZE.match(body, at)
        if size is None:
            if not parts or (at < len(body) and not partial and body[at:].strip(b"\r\n\0")):
                if parts:
                    raise HttpFault("bad_coding", f"no chunk begins at byte {at} of the chunked body")
                return body  # it had been de-chunked before it was stored
            break  # the last chunk is missing, those there are whole
        length = int(size[1], 16)
        if not length:
            break
        part = body[size.end() : size.end() + length]
        if len(part) < length and not partial:
            if not parts:
                return body  # a text that happens to begin like a chunk
            raise HttpFault("bad_coding", f"the chunk at byte {at} of the body has {len(part)} of {length} bytes")
        parts.append(part)
        at = size.end() + length
        at += 2 if body[at : at + 2] == b"\r\n" else 1 if body[at : at + 1] == b"\n" else 0
    return b"".join(parts)


def _inflate(body: bytes, limit: int, partial: bool, wbits: int) -> bytes:
    out: list[bytes] = []
    size = 0
    while body:
        stream = zlib.decompressobj(wbits)
        try:
            while not stream.eof:
                part = stream.decompress(body, _STEP)
                if not part and not stream.unconsumed_tail and not stream.eof:
                    if partial:
                        return b"".join(out)
                    raise HttpFault("bad_coding", "the compressed body breaks off")
                out.append(part)
                size += len(part)
                if size > limit:
                    raise HttpFault("too_large", f"the body decodes to more than {limit} bytes")
                body = stream.unconsumed_tail
        except zlib.error as error:
            if partial:
                return b"".join(out)
            raise HttpFault("bad_coding", f"the compressed body is damaged: {error}") from error
        body = stream.unused_data if wbits == 31 and stream.unused_data.startswith(b"\x1f\x8b") else b""
    return b"".join(out)


def _gunzip(body: bytes, limit: int, partial: bool) -> bytes:
    return _inflate(body, limit, partial, 31) if body.startswith(b"\x1f\x8b") else body


def _deflate(body: bytes, limit: int, partial: bool) -> bytes:
    if len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0:
        return _inflate(body, limit, partial, 15)
    try:
        return _inflate(body, limit, partial, -15)
    except HttpFault as fault:
        if fault.reason == "bad_coding" and _looks_like_text(body):
            return body
        raise


def _unbrotli(body: bytes, limit: int, partial: bool) -> bytes:
    import brotli  # few archives need it

    stream = brotli.Decompressor()
    out: list[bytes] = []
    size = 0
    piece = body
    try:
        while not stream.is_finished():
            part = stream.process(piece, output_buffer_limit=_STEP)
            piece = b""
            out.append(part)
            size += len(part)
            if size > limit:
                raise HttpFault("too_large", f"the body decodes to more than {limit} bytes")
            if not part and stream.can_accept_more_data() and not stream.is_finished():
                if partial:
                    break
                raise HttpFault("bad_coding", "the compressed body breaks off")
    except brotli.error as error:
        if not size and _looks_like_text(body):
            return body
        if not partial:
            raise HttpFault("bad_coding", "the brotli body is damaged") from error
    return b"".join(out)


def _unzstd(body: bytes, limit: int, partial: bool) -> bytes:
    if not body.startswith(MAGICS[ZSTD]):
        return body
    stream = ZstdDecoder()
    out: list[bytes] = []
    size = 0
    piece = body
    while not stream.eof:
        if stream.needs_input and not piece:
            if partial:
                break
            raise HttpFault("bad_coding", "the compressed body breaks off")
        try:
            out.append(stream.decode(piece))
        except CodecFault as fault:
            if partial:
                break
            raise HttpFault("bad_coding", f"the compressed body is damaged: {fault.detail}") from fault
        piece = b""
        size += len(out[-1])
        if size > limit:
            raise HttpFault("too_large", f"the body decodes to more than {limit} bytes")
    return b"".join(out)


def _looks_like_text(body: bytes) -> bool:
    start = body[:512]
    return not any(byte < 9 or 13 < byte < 32 for byte in start)


_CODINGS: dict[str, Callable[[bytes, int, bool], bytes]] = {
    "chunked": _dechunk,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _deflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
