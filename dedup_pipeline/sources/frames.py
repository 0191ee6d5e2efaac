"""The records of WARC and ARC files, cut out of the byte stream.

Where a record ends is decided here and not by a WARC library, for those hand on a record that was cut in
its body as if it were whole. A record is whole when its block is as long as its header says and is
followed by line ends and then by another record or the end of the file. Otherwise, unless its own
digest or HTTP length proves the block, its length is wrong: it cannot be used, and reading goes on at the next line
that begins a record.

Formats: WARC 0.17 to 1.1 (ISO 28500 and the IIPC's specifications), ARC 1 and 2 (Internet Archive, 1996).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from dedup_pipeline.sources.http import Headers, HttpFault, parse_response
from dedup_pipeline.sources.streams import ByteStream, StreamFault
from dedup_pipeline.sources.window import LOOK, Window

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_WARC_START = re.compile(
    rb"^WARC/\d{1,2}\.\d{1,3}[ \t]{0,8}\r?\n(?=[A-Za-z][A-Za-z0-9_-]{0,99}[ \t]{0,8}:)", re.MULTILINE | re.IGNORECASE
)
_ARC_START = re.compile(rb"^[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\r\n]{1,20000}\r?\n", re.MULTILINE)
_WARC_CUT = re.compile(
    rb"W(?:A(?:R(?:C(?:/[\d.]{0,6}[ \t]{0,8}\r?\n?[A-Za-z0-9_-]{0,99}[ \t]{0,8})?)?)?)?", re.IGNORECASE
)
_ARC_CUT = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,30}(?::|$)")
_ARC_DATE = re.compile(rb"(?:19|20)\d{8,18}")
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [bytes((first, second)) for first in _ALPHABET for second in _ALPHABET]


def base32(digest: bytes) -> bytes:
    r"""Base32 (RFC 4648) of 20 bytes; the standard library's takes longer than the digest itself.

    >>> base32(bytes(19) + b"\x1f")
    b'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA7'
    """
    number = int.from_bytes(digest, "big")
    return b"".join([_PAIRS[number >> shift & 1023] for shift in range(150, -1, -10)])


@dataclass(frozen=True, slots=True)
class Head:
    """What the header of a record says.

    Attributes:
        kind: WARC-Type in lower case, empty where there is none; of ARC records ``response``, or
            ``arc_header`` for the first of a file.
        length: bytes of the block, None where that is not said or is no number.
        url, date, record_id, content_type, block_digest: as written, None where absent.
        concurrent_to: ids of records of the same exchange.
        truncated: whether the crawler says that it cut the payload.
        segmented: whether the record is one part of several.
    """

    kind: str
    length: int | None
    url: str | None = None
    date: str | None = None
    record_id: str | None = None
    content_type: str | None = None
    block_digest: str | None = None
    concurrent_to: tuple[str, ...] = ()
    truncated: bool = False
    segmented: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A record, or a stretch of bytes in the place of one.

    Attributes:
        offset: where it begins in the decompressed stream.
        head: its header; None where there is none.
        block: its bytes; None where they are more than the limit or cannot be trusted.
        fault: reason and detail where the record cannot be used.
    """

    offset: int
    head: Head | None
    block: bytes | None
    fault: tuple[str, str] | None = None


class Dialect(Protocol):
    """What tells WARC and ARC apart."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def start(self) -> re.Pattern[bytes]:
        """Matches a line that may begin a record."""

    def accept(self, line: bytes) -> bool:
        """Whether such a line does."""

    def may_grow(self, block: bytes) -> bool:
        """Whether ``block``, in which no record begins, would be one if more of it were there."""

    def head(self, block: bytes) -> tuple[Head | None, int]:
        """The header at the beginning of ``block`` and its size; size 0 where it does not end in ``block``."""


class Warc:
    """WARC: a version line, header lines, an empty line."""

    name = "WARC"
    start = _WARC_START

    def accept(self, line: bytes) -> bool:
        """See `Dialect`: the pattern says all."""
        return line[:1] in b"Ww"

    def may_grow(self, block: bytes) -> bool:
        """See `Dialect`."""
        return len(block) < 128 and _WARC_CUT.fullmatch(block) is not None

    def head(self, block: bytes) -> tuple[Head | None, int]:
        """See `Dialect`."""
        end = _HEAD_END.search(block)
        if end is None:
            return None, 0
        try:
            headers = Headers(block[: end.start()])
        except Exception:  # noqa: BLE001 - a library's complaint about a header is a bad header, whatever its class
            return None, end.end()
        kind = (headers.get("warc-type") or "").strip().lower()
        length = (headers.get("content-length") or "").strip()
        url = (headers.get("warc-target-uri") or "").strip()
        if url.startswith("<") and url.endswith(">"):
            url = url[1:-1]  # wget 1.14 to 1.19 wrote it so
        head = Head(
            kind=kind,
            length=int(length) if _DIGITS.fullmatch(length) else None,
            url=url or None,
            date=headers.get("warc-date"),
            record_id=headers.get("warc-record-id"),
            content_type=headers.get("content-type"),
            block_digest=headers.get("warc-block-digest"),
            concurrent_to=tuple(headers.get_all("warc-concurrent-to")),
            truncated=headers.get("warc-truncated") is not None,
            segmented=headers.get("warc-segment-number") is not None,
        )
        return head, end.end()


class Arc:
    """ARC: one line of fields, the URL first and the length last."""

    name = "ARC"
    start = _ARC_START

    def accept(self, line: bytes) -> bool:
        """See `Dialect`."""
        return line.startswith(b"filedesc:") or _arc_fields(line) is not None

    def may_grow(self, block: bytes) -> bool:
        """See `Dialect`."""
        return b"\n" not in block and _ARC_CUT.match(block) is not None

    def head(self, block: bytes) -> tuple[Head | None, int]:
        """See `Dialect`."""
        end = block.find(b"\n") + 1
        if not end:
            return None, 0
        line = block[:end].rstrip()
        last = line.rsplit(b" ", 1)[-1].decode("latin-1")
        length = int(last) if _DIGITS.fullmatch(last) else None
        if line.startswith(b"filedesc:"):
            return Head("arc_header", length), end
        fields = _arc_fields(line)
        if fields is None:
            return None, end
        url, date, content_type = fields
        return Head("response", length, url, date, content_type=content_type), end


def _arc_fields(line: bytes) -> tuple[str, str, str] | None:
    """URL, date and media type of a record's line; a URL may hold spaces, so it is read from the right."""
    tokens = line.rstrip().split(b" ")
    for at in range(len(tokens) - 3, max(1, len(tokens) - 10), -1):
        if _ARC_DATE.fullmatch(tokens[at]):
            url = b" ".join(tokens[: at - 1]).decode("utf-8", "replace")
            return url, tokens[at].decode(), tokens[at + 1].decode("latin-1")
    return None


def read_frames(stream: ByteStream, dialect: Dialect, limit: int) -> Iterator[Frame]:
    """The records of ``stream``, one frame each and one for each stretch of bytes that is none.

    Args:
        stream: decompressed bytes.
        dialect: `Warc` or `Arc`.
        limit: bytes of a block that is kept.

    Raises:
        StreamFault: behind the last frame: the stream's own, ``truncated`` for a record the file ends in,
            ``wrong_length`` or ``bad_header`` for one behind which no other is found.
    """
    window = Window(stream)
    while True:
        window.skip_blank()
        if not window.need(1):
            if window.fault:
                raise window.fault
            return
        yield _next_frame(window, dialect, limit)


def _next_frame(window: Window, dialect: Dialect, limit: int) -> Frame:
    offset = window.offset
    head, size = _read_head(window, dialect)
    if head is None:
        return _lost(
            window,
            dialect,
            Frame(offset, None, None),
            "bad_header",
            f"no {dialect.name} header can be read at byte {offset}",
        )
    if head.length is None:
        window.advance(size)
        return _unmeasured(window, dialect, offset, head)
    if head.length > limit:
        window.advance(size)
        return _oversized(window, dialect, offset, head)
    there = window.need(size + head.length) - size
    if there >= head.length:
        block = bytes(memoryview(window.buffer)[window.at + size : window.at + size + head.length])
        if _followed(window, dialect, size + head.length) or _proven(head, block):
            window.advance(size + head.length)
            return Frame(offset, head, block)
        detail = f"other bytes follow the {head.length} that the record at byte {offset} announces"
        window.advance(size - 1)
        return _lost(window, dialect, Frame(offset, head, None), "wrong_length", detail)
    if window.fault:
        raise _cut(window.fault, offset)
    detail = f"the record at byte {offset} announces {head.length} bytes, {there} are there"
    if window.find_within(dialect.start, dialect.accept, size, size + there):
        return Frame(offset, head, None, ("wrong_length", detail))
    raise StreamFault("truncated", detail)


def _cut(fault: StreamFault, offset: int) -> StreamFault:
    return StreamFault(fault.reason, f"in the record at byte {offset} of the content: {fault.detail}")


def _read_head(window: Window, dialect: Dialect) -> tuple[Head | None, int]:
    """The header where the window stands and its size, (None, 0) where there is none."""
    size = 2048
    while True:
        there = window.need(size)
        block = bytes(memoryview(window.buffer)[window.at : window.at + size])
        match = dialect.start.match(block)
        if match is not None and dialect.accept(match[0]):
            head, end = dialect.head(block)
            if end:
                return head, end
        elif not dialect.may_grow(block):
            return None, 0
        if there < size:
            raise _ends_in_head(window, dialect)
        if size >= LOOK:
            return None, 0
        size *= 4


def _ends_in_head(window: Window, dialect: Dialect) -> StreamFault:
    if window.fault:
        return _cut(window.fault, window.offset)
    return StreamFault("truncated", f"the file ends in the header of the {dialect.name} record at byte {window.offset}")


def _followed(window: Window, dialect: Dialect, size: int) -> bool:
    """Whether ``size`` bytes from here come line ends and then a record, or the end, padded or not."""
    ahead = size
    if window.need(ahead + 256) >= ahead + 256:  # the usual case, without copying
        bare = bytes(window.buffer[window.at + ahead : window.at + ahead + 256]).lstrip(b"\r\n")
        match = dialect.start.match(bare)
        if match is not None and dialect.accept(match[0]):
            return True
    while window.need(ahead + LOOK) > ahead:
        rest = bytes(memoryview(window.buffer)[window.at + ahead : window.at + ahead + LOOK])
        bare = rest.lstrip(b"\r\n")
        if bare:
            match = dialect.start.match(bare)
            if (match is not None and dialect.accept(match[0])) or dialect.may_grow(bare):
                return True
            # a zero right behind the block may be its cut-off end, behind a line end it is padding
            padding = not bare.strip(b"\r\n\0 \t\x1a" if len(bare) < len(rest) else b"\r\n \t")
            return padding and window.need(ahead + LOOK) - ahead < LOOK
        ahead += len(rest)
    return True


def _proven(head: Head, block: bytes) -> bool:
    """Whether the block is as long as it was, by its own digest or its HTTP length."""
    digest = (head.block_digest or "").strip()
    if digest.lower().startswith("sha1:"):
        return digest[5:].upper().encode("ascii", "replace") == base32(
            hashlib.sha1(block, usedforsecurity=False).digest()
        )
    if head.kind != "response":
        return False
    try:
        response = parse_response(block)
    except HttpFault:
        return False
    return response is not None and response.length == len(response.body)


def _lost(window: Window, dialect: Dialect, frame: Frame, reason: str, detail: str) -> Frame:
    """``frame`` with a fault, the window moved to the next record behind it."""
    if window.find(dialect.start, dialect.accept):
        return replace(frame, fault=(reason, detail))
    raise _cut(window.fault, frame.offset) if window.fault else StreamFault(reason, f"{detail}, and no record follows")


def _unmeasured(window: Window, dialect: Dialect, offset: int, head: Head) -> Frame:
    """A record whose header gives no length: it ends where the next begins."""
    detail = f"the header at byte {offset} gives no length"
    window.skip_blank()
    if head.kind == "arc_header":
        if window.need(1) and not window.find_within(dialect.start, dialect.accept, 0, 0):
            window.find(dialect.start, dialect.accept)
        return Frame(offset, head, b"")
    if not window.need(1) or window.find_within(dialect.start, dialect.accept, 0, 0):
        return Frame(offset, head, None, ("bad_header", detail))
    return _lost(window, dialect, Frame(offset, head, None), "bad_header", detail)


def _oversized(window: Window, dialect: Dialect, offset: int, head: Head) -> Frame:
    length = head.length or 0
    there = window.skip(length)
    if there < length:
        if window.fault:
            raise _cut(window.fault, offset)
        raise StreamFault("truncated", f"the record at byte {offset} announces {length} bytes, {there} are there")
    if not _followed(window, dialect, 0):
        detail = f"other bytes follow the {length} that the record at byte {offset} announces"
        return _lost(window, dialect, Frame(offset, head, None), "wrong_length", detail)
    return Frame(offset, head, None)
