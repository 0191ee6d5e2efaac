"""Lines of a byte stream, with a bound on what is held of one."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_pipeline.sources.streams import ByteStream

Line = tuple[bytes | None, bool, int, int]
"""A line without its line feed: its bytes, or None when it is longer than the limit; whether a line feed followed
(only the last line of a file may lack one); the number of ``"`` in it, counted only where the bytes are None; its size.
"""


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
                    yield (None, True, quotes + _quotes(held, piece), size + len(piece))
                else:
                    held.append(piece)
                    text = b"".join(held)
                    yield (text, True, 0, len(text))
                held, size, quotes = [], 0, 0
            elif len(piece) > limit:
                yield (None, True, piece.count(b'"'), len(piece))
            else:
                yield (piece, True, 0, len(piece))
        if last:
            size += len(last)
            held.append(last)
            if size > limit:
                quotes += _quotes(held, b"")
                held = []
    if size > limit:
        yield (None, False, quotes + _quotes(held, b""), size)
    elif size:
        yield (b"".join(held), False, 0, size)


def _quotes(held: list[bytes], piece: bytes) -> int:
    return sum(part.count(b'"') for part in held) + piece.count(b'"')
