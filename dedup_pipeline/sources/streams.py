"""The decompressed bytes of a file, with every fault of its container found.

Compression is recognised by content: gzip, zstd, bzip2 and LZ4 frames, any number of members one
behind the other, or none. What readers rely on:

- A member that stops before its end, fails its checksum or cannot be decoded is a `StreamFault`.
- A fault is raised only after everything known to be whole has been handed on. Of a member cut short,
  that is what could be decoded. Of a member that is corrupt or fails its checksum, nothing of its last 16 MiB or
  less: up to `HOLD` bytes of each member are held back until its checksum is known. Of a larger member the
  part beyond streams on unconfirmed, and the fault comes behind it.
- Padding with zero bytes behind a member is ignored. Other bytes behind the last member set
  `ByteStream.trailing_garbage`, unless they look like a damaged member or hide another one: then ``corrupt``.
- One level of compression is undone; a member that holds another compressed file is a fault.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import BinaryIO, Self

from dedup_pipeline.sources.codecs import DECODERS, MAGICS, UNREADABLE, CodecFault, codec_of, opens_member

HOLD = 16 << 20
"""Bytes of a member held back until its checksum has been seen."""

_CHUNK = 256 << 10
_FREE = 16 << 20  # decompressed bytes before the ratio is looked at
_GARBAGE = 1 << 20


class StreamFault(Exception):
    """Bytes that cannot be had: ``reason`` is a stable word, ``detail`` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


class ByteStream:
    """Reads a file once, decompressed.

    Attributes:
        codec: ``gzip``, ``zstd``, ``bzip2``, ``lz4``, or None for a file that is not compressed.
        consumed: bytes of the file read so far.
        trailing_garbage: whether bytes behind the last member were ignored; known at the end.
    """

    def __init__(self, path: str, decompression_ratio: int) -> None:
        self.codec: str | None = None
        self.consumed = 0
        self.trailing_garbage = False
        self._ratio = decompression_ratio
        self._produced = 0
        self._peeked = b""
        try:
            self._file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        except (OSError, ValueError) as error:
            raise StreamFault("unreadable", f"cannot be opened: {getattr(error, 'strerror', None) or error}") from error
        self._chunks = self._decoded()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._chunks.close()
        self._file.close()

    def peek(self, size: int) -> bytes:
        """Up to ``size`` bytes from the place reached, fewer only at the end; a fault behind them waits."""
        while len(self._peeked) < size:
            try:
                chunk = next(self._chunks, b"")
            except StreamFault as fault:
                self._chunks = _raising(fault)
                break
            if not chunk:
                break
            self._peeked += chunk
        return self._peeked[:size]

    def read(self) -> bytes:
        """The next bytes, empty at the end.

        Raises:
            StreamFault: after the last bytes that could be had.
        """
        if self._peeked:
            chunk, self._peeked = self._peeked, b""
            return chunk
        return next(self._chunks, b"")

    def _raw(self) -> bytes:
        try:
            chunk = self._file.read(_CHUNK)
        except OSError as error:
            raise StreamFault("unreadable", f"cannot be read at byte {self.consumed}: {error.strerror}") from error
        self.consumed += len(chunk)
        return chunk

    def _at_least(self, start: bytes, size: int) -> bytes:
        while len(start) < size and (more := self._raw()):
            start += more
        return start

    def _decoded(self) -> Generator[bytes, None, None]:
        start = self._at_least(b"", 16)
        self.codec = codec_of(start)
        if self.codec is None:
            for magic, kind in UNREADABLE.items():
                if start.startswith(magic):
                    raise StreamFault("unsupported_compression", f"{kind} is not read; repack it as gzip or zstd")
            if start.startswith(b"\x1f\x8b") and len(start) > 2:
                raise StreamFault("corrupt", "a gzip header with an unknown compression method at byte 0")
            while start:
                yield start
                start = self._raw()
            return
        while start:
            start = yield from self._member(start, self.codec)
            start = self._next_member(start, self.codec)

    def _member(self, piece: bytes, codec: str) -> Generator[bytes, None, bytes]:
        decoder = DECODERS[codec]()
        held: list[bytes] = []
        size = 0
        begins = self.consumed - len(piece)
        while not decoder.eof:
            if decoder.needs_input and not piece:
                piece = self._raw()
                if not piece:
                    yield from held
                    raise StreamFault(
                        "truncated", f"the {codec} member at byte {begins} does not end before byte {self.consumed}"
                    )
            try:
                out = decoder.decode(piece)
            except CodecFault as fault:
                raise StreamFault(
                    fault.reason, f"the {codec} member at byte {begins} cannot be decoded: {fault.detail}"
                ) from fault
            piece = b""
            if not out:
                continue
            self._count(out)
            size += len(out)
            held.append(out)
            if size > HOLD:
                yield from held
                held.clear()
        yield from held
        return decoder.unused

    def _count(self, out: bytes) -> None:
        if not self._produced and codec_of(out):
            raise StreamFault("nested_compression", f"{self.codec} around {codec_of(out)}; undo one of them")
        self._produced += len(out)
        if self._produced > _FREE and self._produced > self._ratio * self.consumed:
            raise StreamFault(
                "decompression_ratio",
                f"{self._produced} bytes out of {self.consumed}, more than {self._ratio} times; raise "
                "limits.decompression_ratio if the file is to be trusted",
            )

    def _next_member(self, start: bytes, codec: str) -> bytes:
        start = start.lstrip(b"\0")
        while not start and (more := self._raw()):
            start = more.lstrip(b"\0")
        start = self._at_least(start, 16)
        if not start or codec_of(start) == codec:
            return start
        begins = self.consumed - len(start)
        magic = MAGICS[codec]
        if len(start) < 16 and magic.startswith(start[: len(magic)]):
            raise StreamFault("truncated", f"the file ends inside the head of the {codec} member at byte {begins}")
        if sum(a == b for a, b in zip(start, magic, strict=False)) * 2 >= len(magic):
            raise StreamFault("corrupt", f"the head of the {codec} member at byte {begins} is damaged")
        start = self._at_least(start, _GARBAGE + 1)
        if len(start) > _GARBAGE:
            raise StreamFault("corrupt", f"more than {_GARBAGE} bytes from byte {begins} on are no {codec}")
        at = start.find(magic)
        while at >= 0:
            if opens_member(start[at : at + 4096], codec):
                raise StreamFault("corrupt", f"{at} bytes at byte {begins} are no {codec}, though a member follows")
            at = start.find(magic, at + 1)
        self.trailing_garbage = True
        return b""


def _raising(fault: StreamFault) -> Generator[bytes, None, None]:
    raise fault
    yield b""
