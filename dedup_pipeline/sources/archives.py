"""Documents of web archives: WARC (responses), WET (conversions) and ARC.

A document is an HTTP response to GET with an allowed status, or a conversion record. Positions count
every record of the file, skipped ones too. The method is that of the request record beside the response
where there is one, and GET where nothing is said. Columns: `dedup_pipeline.schema.ARCHIVE`, of which

- ``text``: the main content of HTML, other text as it is; null for payloads that are no text;
- ``title``: of HTML only; ``charset``: the one that text was read in;
- ``content_type``: media type as announced, lower case; ``status``: null for conversions;
- ``date``: as the archive says, null where it says nothing readable;
- ``payload_digest``: ``sha1:`` and Base32, always computed here, over the payload with its transfer and
  content codings undone, so that records of different archives compare (the header of the record often
  covers the coded bytes);
- ``offset``: of the record in the decompressed content.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Batch
from dedup_pipeline.sources.batches import ArchiveRows
from dedup_pipeline.sources.extraction import Extraction, ExtractionFailed, Ticket
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.frames import Dialect, Frame, Head, base32, read_frames
from dedup_pipeline.sources.http import HttpFault, Response, decode_body, parse_response, split_content_type
from dedup_pipeline.sources.options import ReadOptions
from dedup_pipeline.sources.payloads import Payload, payload_kind
from dedup_pipeline.sources.streams import ByteStream, StreamFault

_AHEAD_RECORDS = 512
_AHEAD_BYTES = 32 << 20
_KNOWN_KINDS = frozenset({"warcinfo", "request", "metadata", "revisit", "resource", "continuation", "arc_header"})
_METHODS = frozenset({"head", "post", "put", "delete", "connect", "options", "trace", "patch"})


@dataclass(slots=True)
class _Outcome:
    """What became of a record: one of a kind skipped, a fault, or a document."""

    position: int
    skipped: str | None = None
    fault: tuple[str, str] | None = None
    ticket: Ticket | None = None
    row: tuple[object, ...] = ()
    text: bytes | None = None
    repaired: bool = False
    size: int = 0


def read_archive(
    source: Source, stream: ByteStream, dialect: Dialect, options: ReadOptions, extraction: Extraction
) -> Iterator[Batch]:
    """The documents of an archive, at least one batch.

    Raises:
        SourceBroken: the faults of the stream and of `dedup_pipeline.sources.frames.read_frames`.
    """
    rows = ArchiveRows(source.name, options)
    ahead: deque[_Outcome] = deque()
    waiting = 0
    broken: SourceBroken | None = None
    outcomes = _outcomes(source, stream, dialect, options, extraction)
    while True:
        try:
            outcome = next(outcomes, None)
        except SourceBroken as fault:
            broken, outcome = fault, None
        if outcome is not None:
            ahead.append(outcome)
            waiting += outcome.size
            if len(ahead) > _AHEAD_RECORDS or waiting > _AHEAD_BYTES:
                _wait_for_half(ahead)
        while ahead and (outcome is None or ahead[0].ticket is None or ahead[0].ticket.ready or waiting > _AHEAD_BYTES):
            first = ahead.popleft()
            waiting -= first.size
            _settle(rows, first, options)
            if rows.full:
                yield rows.take(stream.consumed)
        if outcome is None:
            break
    if stream.trailing_garbage:
        rows.skipped["trailing_garbage"] += 1
    yield rows.take(stream.consumed)
    if broken is not None:
        raise broken


def _wait_for_half(ahead: deque[_Outcome]) -> None:
    """Waits for a text in the middle: one wait, behind which many are ready."""
    for place in range(len(ahead) // 2, len(ahead)):
        ticket = ahead[place].ticket
        if ticket is not None:
            with contextlib.suppress(ExtractionFailed):
                ticket.result()
            return


def _settle(rows: ArchiveRows, outcome: _Outcome, options: ReadOptions) -> None:
    """Adds a finished outcome to the batch."""
    if outcome.skipped is not None:
        rows.skipped[outcome.skipped] += 1
        return
    if outcome.fault is not None:
        rows.refuse(outcome.position, *outcome.fault)
        return
    url, content_type, date, status, record_id, digest, offset = outcome.row
    title: bytes | None = None
    text, charset = outcome.text, b"utf-8" if outcome.text is not None else None
    if outcome.ticket is not None:
        try:
            extracted = outcome.ticket.result()
        except ExtractionFailed as failure:
            rows.refuse(outcome.position, failure.reason, failure.detail)
            return
        text, title, charset = extracted.text, extracted.title, extracted.charset.encode()
    if text is not None and len(text) > options.record_bytes:
        rows.refuse(outcome.position, "too_large", f"a text of {len(text)} bytes, more than {options.record_bytes}")
        return
    row = (url, title, text, date, status, content_type, charset, record_id, digest, offset)
    rows.repaired += outcome.repaired
    rows.add(outcome.position, row, len(text or b"") + len(title or b"") + 300)


def _outcomes(
    source: Source, stream: ByteStream, dialect: Dialect, options: ReadOptions, extraction: Extraction
) -> Iterator[_Outcome]:
    """One outcome per record, in order; a response waits until the record behind it shows its request."""
    judge = _Judge(options, extraction)
    position = -1
    held: tuple[int, Frame] | None = None
    before: Frame | None = None
    try:
        for position, frame in enumerate(read_frames(stream, dialect, options.record_bytes)):
            if held is not None:
                yield judge.response(*held, method_of(held[1], before, frame))
                before, held = held[1], None
            if frame.head is not None and frame.fault is None and frame.head.kind == "response":
                held = position, frame
            else:
                yield judge.other(position, frame)
                before = frame
    except StreamFault as fault:
        if held is not None:
            yield judge.response(*held, method_of(held[1], before, None))
        raise SourceBroken(source.name, position + 1, fault.reason, fault.detail) from fault
    if held is not None:
        yield judge.response(*held, method_of(held[1], before, None))


def method_of(response: Frame, before: Frame | None, after: Frame | None) -> str:
    """The method, in lower case, of the request that one of the two neighbours holds; ``get`` if neither does.

    A request belongs to the response when one names the other as concurrent; a request that names nobody,
    beside a response that names nobody, when their URLs are equal.
    """
    for neighbour in (after, before):
        if neighbour is None or neighbour.head is None or neighbour.head.kind != "request" or not neighbour.block:
            continue
        if response.head is not None and _belongs(neighbour.head, response.head):
            word = neighbour.block[:16].split(b" ", 1)[0].decode("ascii", "replace").lower()
            return word if word in _METHODS or word == "get" else "other"
    return "get"


def _belongs(request: Head, response: Head) -> bool:
    if request.concurrent_to or response.concurrent_to:
        return response.record_id in request.concurrent_to or request.record_id in response.concurrent_to
    return request.url == response.url


class _Judge:
    """Decides what a record is, and hands its text over for extraction."""

    def __init__(self, options: ReadOptions, extraction: Extraction) -> None:
        self._limit = options.record_bytes
        self._status = frozenset(options.status)
        self._extraction = extraction

    def other(self, position: int, frame: Frame) -> _Outcome:
        """Of anything but a response."""
        head = frame.head
        if frame.fault is not None or head is None:
            return _Outcome(position, fault=frame.fault)
        if not head.kind:
            return _Outcome(position, fault=("bad_header", f"the record at byte {frame.offset} has no WARC-Type"))
        if head.kind == "conversion":
            return self._conversion(position, frame, head)
        return _Outcome(position, skipped=head.kind if head.kind in _KNOWN_KINDS else "unknown")

    def response(self, position: int, frame: Frame, method: str) -> _Outcome:
        """Of a response, given the method of its request."""
        head = frame.head
        if head is None or frame.fault is not None:
            return _Outcome(position, fault=frame.fault)
        if _is_dns(head):
            return _Outcome(position, skipped="dns")
        if frame.block is None:
            return _Outcome(position, fault=_too_large(head, self._limit))
        try:
            answer = parse_response(frame.block)
            if answer is None:
                return _Outcome(position, skipped="not_http")
            if method != "get":
                return _Outcome(position, skipped=f"method_{method}")
            if answer.status not in self._status:
                return _Outcome(position, skipped=f"status_{answer.status}")
            if head.segmented:
                return _Outcome(position, fault=("segmented", "the payload is spread over several records"))
            body = decode_body(answer, self._limit, head.truncated)
        except HttpFault as fault:
            return _Outcome(position, fault=(fault.reason, fault.detail))
        except Exception as error:  # noqa: BLE001 - whatever FastWARC makes of a header, the record is named
            return _Outcome(position, fault=("bad_http", f"the HTTP header cannot be read: {type(error).__name__}"))
        return self._document(position, frame, head, answer, body)

    def _document(self, position: int, frame: Frame, head: Head, answer: Response, body: bytes) -> _Outcome:
        kind = payload_kind(answer.content_type, body)
        row = _row(head, answer.content_type, answer.status, body, frame.offset)
        if kind is Payload.NO_TEXT:
            return _Outcome(position, row=row)
        if not body:
            return _Outcome(position, row=row, text=b"")
        ticket = self._extraction.submit(body, kind, answer.charset)
        return _Outcome(position, row=row, ticket=ticket, size=len(body))

    def _conversion(self, position: int, frame: Frame, head: Head) -> _Outcome:
        if frame.block is None:
            return _Outcome(position, fault=_too_large(head, self._limit))
        if head.segmented:
            return _Outcome(position, fault=("segmented", "the payload is spread over several records"))
        content_type, charset = split_content_type(head.content_type)
        row = _row(head, content_type, None, frame.block, frame.offset)
        if payload_kind(content_type or "text/plain", frame.block) is Payload.NO_TEXT:
            return _Outcome(position, row=row)
        if charset is not None and charset.lower() not in ("utf-8", "utf8"):
            return _Outcome(position, row=row, ticket=self._extraction.submit(frame.block, Payload.TEXT, charset))
        try:
            frame.block.decode()
        except UnicodeDecodeError:
            text = frame.block.decode("utf-8", "replace").encode()
            return _Outcome(position, row=row, text=text, repaired=True, size=len(text))
        return _Outcome(position, row=row, text=frame.block, size=len(frame.block))


def _too_large(head: Head, limit: int) -> tuple[str, str]:
    return "too_large", f"a record of {head.length} bytes, more than {limit}"


def _is_dns(head: Head) -> bool:
    return (head.url or "").lower().startswith("dns:") or (head.content_type or "").lower().startswith("text/dns")


def _row(head: Head, content_type: str | None, status: int | None, payload: bytes, offset: int) -> tuple[object, ...]:
    digest = b"sha1:" + base32(hashlib.sha1(payload, usedforsecurity=False).digest())
    record_id = head.record_id.strip() if head.record_id else None
    return (
        _utf8(head.url),
        _utf8(content_type),
        parse_date(head.date),
        status,
        _utf8(record_id),
        digest,
        offset,
    )


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


_ISO = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?)?Z?", re.ASCII)
_DIGITS = re.compile(r"(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\d*", re.ASCII)


def parse_date(text: str | None) -> datetime | None:
    """A WARC-Date (ISO 8601 in UTC, any precision) or ARC date (14 digits, or fewer), else None.

    >>> parse_date("2014-01-27T17:12"), parse_date("blue monday")
    (datetime.datetime(2014, 1, 27, 17, 12, tzinfo=datetime.timezone.utc), None)
    """
    found = (_ISO.fullmatch(text.strip()) or _DIGITS.fullmatch(text.strip())) if text else None
    if found is None:
        return None
    year, month, day, hour, minute, second, *fraction = found.groups()
    micro = int(fraction[0].ljust(6, "0")[:6]) if fraction and fraction[0] else 0
    try:
        return datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micro, UTC
        )
    except ValueError:
        return None
