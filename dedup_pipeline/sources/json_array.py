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
        SourceBroken: the stream's fault; ``truncated`` where the array does not end; ``corrupt`` where other bytes follow it.
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
                    rows.add(position, row)
                    rows.repaired += repaired
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
    large = in_string = False
    depth = 0
    while True:
        if not window.need(1):
            raise window.fault or StreamFault("truncated", f"the array does not end before byte {window.offset}")
        end = len(window.buffer)
        at = window.at
        done = -1
        while at < end and done < 0:
            token = (_IN_STRING if in_string else _TOKEN).search(window.buffer, at)
            if token is None:
                at = end
                break
            byte = token[0]
            at = token.end()
            if byte == b'"':
                in_string = not in_string
            elif byte == b"\\":
                if at == end and not window.need(end - window.at + 1) > end - window.at:
                    break
                end = len(window.buffer)
                at += 1
            elif byte in _OPENING:
                depth += 1
            elif depth and byte in _CLOSING:
                depth -= 1
            elif not depth and byte != b"}":
                done = at
        stop = done - 1 if done >= 0 else at
        large = large or len(parts) + stop - window.at > limit
        if large:
            parts.clear()
        else:
            parts += window.buffer[window.at : stop]
        last = done >= 0 and window.buffer[done - 1] != 0x2C
        window.advance((done if done >= 0 else at) - window.at)
        if done >= 0:
            return (None if large else bytes(parts)), last
