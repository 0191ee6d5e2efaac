"""Lines of a byte stream, with a bound on what is held of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dedup_pipeline.sources.streams import ByteStream


class Line(NamedTuple):
    """A line without its line feed.

    Attributes:
        text: its bytes, or None when it is longer than the limit.
        ended: whether a line feed followed (only the last line of a file may lack one).
        quotes: number of ``"`` in it, counted only where ``text`` is None.
        size: bytes, the line feed not counted.
    """

    text: bytes | None
    ended: bool
    quotes: int
    size: int


def read_lines(stream: ByteStream, limit: int) -> Iterator[Line]:
    """The lines of ``stream``; a last line that is empty and not ended is none.

    Raises:
        StreamFault: the stream's own, after the last line that was whole; the started one is dropped.
    """
    held: list[bytes] = []
    size = quotes = 0
    while chunk := stream.read():
        pieces = chunk.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            if size:
                if size + len(piece) > limit:
                    yield Line(None, True, quotes + _quotes(held, piece), size + len(piece))
                else:
                    held.append(piece)
                    text = b"".join(held)
                    yield Line(text, True, 0, len(text))
                held, size, quotes = [], 0, 0
            elif len(piece) > limit:
                yield Line(None, True, piece.count(b'"'), len(piece))
            else:
                yield Line(piece, True, 0, len(piece))
        if last:
            size += len(last)
            held.append(last)
            if size > limit:
                quotes += _quotes(held, b"")
                held = []
    if size > limit:
        yield Line(None, False, quotes + _quotes(held, b""), size)
    elif size:
        yield Line(b"".join(held), False, 0, size)


def _quotes(held: list[bytes], piece: bytes) -> int:
    return sum(part.count(b'"') for part in held) + piece.count(b'"')
