"""A moving view of a byte stream, for readers that look ahead and search."""

from __future__ import annotations

import re
from collections.abc import Callable

from dedup_pipeline.sources.streams import ByteStream, StreamFault

LOOK = 64 << 10
"""No header line, and no beginning of a record, is recognised beyond this many bytes."""

_BLANK = re.compile(rb"[\r\n\t \0]*")


class Window:
    """A view of a byte stream; a fault of the stream counts as its end and is kept.

    Attributes:
        buffer: bytes held; at most one byte before the place, what was asked for behind it.
        at: the place in ``buffer``.
        fault: the fault with which the stream ended, None while there is none.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._base = 0
        self._ended = False
        self.buffer = bytearray()
        self.at = 0
        self.fault: StreamFault | None = None

    @property
    def offset(self) -> int:
        """The place in the stream."""
        return self._base + self.at

    def need(self, size: int) -> int:
        """The bytes held from the place on: ``size`` or more, fewer only where the stream ends."""
        while len(self.buffer) - self.at < size and not self._ended:
            try:
                chunk = self._stream.read()
            except StreamFault as fault:
                self.fault = fault
                chunk = b""
            if not chunk:
                self._ended = True
            self.buffer += chunk
        return len(self.buffer) - self.at

    def advance(self, size: int) -> None:
        """Moves on over bytes that are held, and lets go of what lies behind."""
        self.at += size
        if self.at > 1 << 20:
            gone = self.at - 1  # one byte stays, so that a search knows whether a line begins here
            del self.buffer[:gone]
            self._base += gone
            self.at = 1

    def skip(self, size: int) -> int:
        """Moves on by ``size`` bytes, held or not; returns how many there were."""
        passed = 0
        while passed < size and (there := self.need(1)):
            step = min(size - passed, there)
            self.advance(step)
            passed += step
        return passed

    def skip_blank(self) -> None:
        """Moves over line ends, spaces and zero bytes."""
        while self.need(1):
            found = _BLANK.match(self.buffer, self.at)
            self.advance(found.end() - self.at if found else 0)
            if self.at < len(self.buffer):
                return

    def find_within(self, pattern: re.Pattern[bytes], accept: Callable[[bytes], bool], start: int, size: int) -> bool:
        """Moves to the first accepted match that begins ``start`` to ``size`` bytes from here, else stays."""
        self.need(size + LOOK)
        for match in pattern.finditer(self.buffer, self.at + start):
            if match.start() > self.at + size:
                return False
            if accept(match[0]):
                self.advance(match.start() - self.at)
                return True
        return False

    def find(self, pattern: re.Pattern[bytes], accept: Callable[[bytes], bool]) -> bool:
        """Moves to the first accepted match behind the place; to the end where there is none."""
        first = 1
        while True:
            there = self.need(2 * LOOK)
            for match in pattern.finditer(self.buffer, self.at + first):
                if accept(match[0]):
                    self.advance(match.start() - self.at)
                    return True
            if there < 2 * LOOK:
                self.advance(there)
                return False
            self.advance(there - LOOK)
            first = 0
