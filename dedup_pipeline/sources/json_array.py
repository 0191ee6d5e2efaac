"""One JSON array of objects, as Scrapy's ``json`` feed and many exports write it, read element by element."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Batch
from dedup_pipeline.sources.batches import SeenRows
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.jsonl import BOM, NotUsable, parse_object
from dedup_pipeline.sources.options import ReadOptions
from dedup_pipeline.sources.streams import ByteStream, StreamFault
from dedup_pipeline.sources.window import Window

_TOKEN = re.compile(rb'["\\{}\[\],]')
_IN_STRING = re.compile(rb'["\\]')
_OPENING, _CLOSING = b"{[", b"}]"


def read_json(source: Source, stream: ByteStream, options: ReadOptions) -> Iterator[Batch]:
    """The elements of the array, a position per element.

    Raises:
        SourceBroken: the stream's fault; ``truncated`` where the array does not end; ``corrupt`` where
            other bytes follow it.
    """
    rows = SeenRows(source.name, options)
    position = 0
    try:
        for element in _elements(Window(stream), options.record_bytes):
            if element is None:
                rows.refuse(position, "too_large", f"an element of more than {options.record_bytes} bytes")
            else:
                try:
                    row, repaired = parse_object(element)
                except NotUsable as fault:
                    rows.refuse(position, fault.reason, fault.detail)
                else:
                    rows.repaired += rows.add(position, row) and repaired
            position += 1
            if rows.full:
                yield rows.take(stream.consumed)
        if stream.trailing_garbage:
            rows.skipped["trailing_garbage"] += 1
    except StreamFault as fault:
        if rows:
            yield rows.take(stream.consumed)
        raise SourceBroken(source.name, position, fault.reason, fault.detail) from fault
    if rows:
        yield rows.take(stream.consumed)


def _elements(window: Window, limit: int) -> Iterator[bytes | None]:
    """The bytes of each element, None for one above ``limit``."""
    if window.need(len(BOM)) and window.buffer.startswith(BOM):
        window.advance(len(BOM))
    window.skip_blank()
    if not window.need(1) or window.buffer[window.at] != 0x5B:
        raise StreamFault("corrupt", "no array begins here")
    window.advance(1)
    first = True
    while True:
        element, last = _element(window, limit)
        if not (last and first and element is not None and not element.strip()):
            yield element
        if last:
            break
        first = False
    window.skip_blank()
    if window.need(1):
        raise StreamFault("corrupt", f"other bytes follow the array at byte {window.offset}")
    if window.fault:
        raise window.fault


def _element(window: Window, limit: int) -> tuple[bytes | None, bool]:
    """An element up to the comma or bracket behind it, and whether it was the last."""
    parts = bytearray()
    scan = _Scan()
    large = False
    while True:
        if not window.need(1):
            raise window.fault or StreamFault("truncated", f"the array does not end before byte {window.offset}")
        stop = scan.run(window.buffer, window.at)
        large = large or len(parts) + stop - window.at > limit
        if large:
            parts.clear()
        else:
            parts += window.buffer[window.at : stop]
        last = scan.done and window.buffer[stop] != 0x2C
        window.advance(stop + scan.done - window.at)
        if scan.done:
            return (None if large else bytes(parts)), last


class _Scan:
    """Where in an element a scan is: inside a string or not, behind a backslash or not, how deep."""

    __slots__ = ("depth", "done", "escaped", "in_string")

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = self.escaped = self.done = False

    def run(self, buffer: bytearray, at: int) -> int:
        """Scans from ``at``: to the comma or bracket behind the element, ``done`` then, or to the end held."""
        while at < len(buffer):
            if self.escaped:
                self.escaped = False
                at += 1
                continue
            token = (_IN_STRING if self.in_string else _TOKEN).search(buffer, at)
            if token is None:
                return len(buffer)
            at = token.end()
            byte = token[0]
            if byte == b'"':
                self.in_string = not self.in_string
            elif byte == b"\\":
                self.escaped = True
            elif byte in _OPENING:
                self.depth += 1
            elif self.depth and byte in _CLOSING:
                self.depth -= 1
            elif not self.depth and byte != b"}":
                self.done = True
                return token.start()
        return at
