"""One compressed member at a time, in bounded steps, for each codec that is read.

A decoder takes compressed bytes and gives at most `STEP` bytes or so per call, says when its member
has ended, and keeps what follows the member.
"""

from __future__ import annotations

import bz2
import zlib
from typing import Protocol

import lz4.frame
import zstandard

STEP = 1 << 20
"""Decompressed bytes asked for in one call."""

_ZSTD_SLICE = 1 << 10  # a zstd block of 4 bytes can stand for 128 KiB: a slice gives 32 MiB at worst
_ZSTD_WINDOW = 1 << 27  # what `zstd -d` takes without being told to use more memory

GZIP, ZSTD, BZIP2, LZ4 = "gzip", "zstd", "bzip2", "lz4"

MAGICS = {GZIP: b"\x1f\x8b\x08", ZSTD: b"\x28\xb5\x2f\xfd", BZIP2: b"BZh", LZ4: b"\x04\x22\x4d\x18"}
"""First bytes of a member (RFC 1952, RFC 8878, bzip2's format, the LZ4 frame format)."""

UNREADABLE = {
    b"\xfd7zXZ\x00": "xz",
    b"\x1f\x9d": "compress (.Z)",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"LZIP": "lzip",
    b"\x02\x21\x4c\x18": "legacy LZ4",
}
"""First bytes of compressed files that are not read, and what they are."""


class CodecFault(Exception):
    """A member that cannot be decoded; `reason` is ``corrupt`` or ``checksum``."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


class Decoder(Protocol):
    """Decodes one member."""

    @property
    def eof(self) -> bool:
        """Whether the member has ended, its checksum being right."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without further input."""

    @property
    def unused(self) -> bytes:
        """After the end: what was given and does not belong to the member."""

    def decode(self, piece: bytes) -> bytes:
        """The next bytes; ``piece`` is empty unless `needs_input`. Raises `CodecFault`."""


class GzipDecoder:
    """One gzip member."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        """See `Decoder`."""
        return not self._inflate.unconsumed_tail

    @property
    def unused(self) -> bytes:
        """See `Decoder`."""
        return self._inflate.unused_data

    def decode(self, piece: bytes) -> bytes:
        """See `Decoder`."""
        try:
            return self._inflate.decompress(self._inflate.unconsumed_tail + piece, STEP)
        except zlib.error as error:
            words = str(error)
            wrong = "incorrect data check" in words or "incorrect length check" in words
            raise CodecFault("checksum" if wrong else "corrupt", words) from error


class ZstdDecoder:
    """One zstd frame, skippable frames included."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        self._waiting = b""
        self._at = 0

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        """See `Decoder`."""
        return self._at >= len(self._waiting)

    @property
    def unused(self) -> bytes:
        """See `Decoder`."""
        return self._frame.unused_data + self._waiting[self._at :]

    def decode(self, piece: bytes) -> bytes:
        """See `Decoder`."""
        if piece:
            self._waiting, self._at = self._waiting[self._at :] + piece, 0
        out: list[bytes] = []
        size = 0
        while not self.needs_input and not self._frame.eof and size < STEP:
            portion = self._waiting[self._at : self._at + _ZSTD_SLICE]
            self._at += len(portion)
            try:
                part = self._frame.decompress(portion)
            except zstandard.ZstdError as error:
                words = str(error)
                raise CodecFault("checksum" if "checksum" in words else "corrupt", words) from error
            out.append(part)
            size += len(part)
        return b"".join(out)


class Bzip2Decoder:
    """One bzip2 stream."""

    def __init__(self) -> None:
        self._stream = bz2.BZ2Decompressor()

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        """See `Decoder`."""
        return self._stream.needs_input

    @property
    def unused(self) -> bytes:
        """See `Decoder`."""
        return self._stream.unused_data

    def decode(self, piece: bytes) -> bytes:
        """See `Decoder`."""
        try:
            return self._stream.decompress(piece, STEP)
        except (OSError, ValueError) as error:
            raise CodecFault("corrupt", f"bzip2: {error}") from error


class Lz4Decoder:
    """One LZ4 frame."""

    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameDecompressor()

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        """See `Decoder`."""
        return bool(self._frame.needs_input)

    @property
    def unused(self) -> bytes:
        """See `Decoder`."""
        return self._frame.unused_data or b""

    def decode(self, piece: bytes) -> bytes:
        """See `Decoder`."""
        try:
            return bytes(self._frame.decompress(piece, STEP))
        except (RuntimeError, EOFError, ValueError) as error:
            words = str(error)
            raise CodecFault("checksum" if "checksum" in words.lower() else "corrupt", words) from error


DECODERS: dict[str, type[GzipDecoder | ZstdDecoder | Bzip2Decoder | Lz4Decoder]] = {
    GZIP: GzipDecoder,
    ZSTD: ZstdDecoder,
    BZIP2: Bzip2Decoder,
    LZ4: Lz4Decoder,
}


def codec_of(start: bytes) -> str | None:
    """The codec whose member ``start`` begins with, or None.

    >>> codec_of(bytes.fromhex("1f8b0800"))
    'gzip'
    """
    for codec, magic in MAGICS.items():
        if start.startswith(magic):
            if codec == BZIP2 and not (len(start) >= 10 and start[3:4] in b"123456789" and _bzip2_block(start[4:10])):
                continue
            return codec
    if len(start) >= 4 and 0x50 <= start[0] <= 0x5F and start[1:4] == b"\x2a\x4d\x18":
        return ZSTD
    return None


def _bzip2_block(start: bytes) -> bool:
    return start in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")  # pi: a block follows; its square root: the end


def opens_member(start: bytes, codec: str) -> bool:
    """Whether a member of ``codec`` really begins here: its first bytes decode."""
    if codec_of(start) != codec:
        return False
    try:
        DECODERS[codec]().decode(start)
    except CodecFault:
        return False
    return True
