from __future__ import annotations

import bz2
import gzip
import random
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.sources import streams
from dedup_pipeline.sources.streams import ByteStream, StreamFault

Packer = Callable[[bytes], bytes]
PACKERS: dict[str, Packer] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bzip2": bz2.compress,
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
}
TEXT = "".join(f'{{"n": {n}, "t": "{random.Random(n).random()}"}}\n' for n in range(3000)).encode()

packers = pytest.mark.parametrize("codec", PACKERS)


def unpack(path: Path, ratio: int = 2000) -> tuple[bytes, str | None, bool]:
    """What comes out, the reason it stopped for, whether garbage was ignored."""
    out = b""
    reason = None
    try:
        with ByteStream(str(path), ratio) as stream:
            while chunk := stream.read():
                out += chunk
    except StreamFault as fault:
        reason = fault.reason
    return out, reason, stream.trailing_garbage


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[..., tuple[bytes, str | None, bool]]:
    def call(content: bytes, ratio: int = 2000) -> tuple[bytes, str | None, bool]:
        path = tmp_path / "file"
        path.write_bytes(content)
        return unpack(path, ratio)

    return call


def test_plain_and_empty(unpacked: Callable[..., object]) -> None:
    assert unpacked(TEXT) == (TEXT, None, False)
    assert unpacked(b"") == (b"", None, False)


@packers
def test_members_and_empty_members(codec: str, unpacked: Callable[..., object]) -> None:
    pack = PACKERS[codec]
    assert unpacked(pack(TEXT)) == (TEXT, None, False)
    assert unpacked(pack(b"")) == (b"", None, False)
    assert unpacked(pack(b"") + pack(TEXT) + pack(b"") + pack(b"more") + pack(b"")) == (TEXT + b"more", None, False)


@packers
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.binary(max_size=3000), max_size=5))
def test_any_members(codec: str, parts: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(b"".join(map(PACKERS[codec], [b"x", *parts])))
    assert unpack(path) == (b"x" + b"".join(parts), None, False)


@packers
def test_every_cut_is_found_and_what_comes_out_is_a_prefix(codec: str, unpacked: Callable[..., object]) -> None:
    first, second = PACKERS[codec](TEXT), PACKERS[codec](TEXT[:100])
    whole = first + second
    cuts = {round(len(whole) * step / 200) for step in range(1, 200)} | set(range(len(first) - 6, len(whole)))
    for cut in sorted(cuts - {0}):
        out, reason, garbage = unpacked(whole[:cut])  # type: ignore[misc]
        assert (TEXT + TEXT[:100]).startswith(out) or cut < 10
        if cut == len(first):
            assert (out, reason) == (TEXT, None)
        elif cut >= 12:
            assert reason == "truncated", cut
            assert not garbage
            if cut > len(first):
                assert out.startswith(TEXT)


@packers
def test_garbage_behind_the_last_member(codec: str, unpacked: Callable[..., object]) -> None:
    packed = PACKERS[codec](TEXT)
    assert unpacked(packed + b"junk") == (TEXT, None, True)
    assert unpacked(packed + b"junk" * 100) == (TEXT, None, True)
    assert unpacked(packed + bytes(1000)) == (TEXT, None, False)
    assert unpacked(packed + bytes(200_000) + packed) == (TEXT * 2, None, False)
    assert unpacked(packed + b"J" * ((1 << 20) + 1))[1] == "corrupt"  # type: ignore[index]


@packers
def test_garbage_in_front_of_another_member_is_no_end(codec: str, unpacked: Callable[..., object]) -> None:
    packed = PACKERS[codec](TEXT)
    assert unpacked(packed + b"junk" + packed) == (TEXT, "corrupt", False)


@packers
def test_a_damaged_member_head_is_no_end(codec: str, unpacked: Callable[..., object]) -> None:
    packed = PACKERS[codec](TEXT)
    damaged = bytearray(packed * 2)
    damaged[len(packed) + 1] ^= 0x40
    out, reason, garbage = unpacked(bytes(damaged))  # type: ignore[misc]
    assert (out, reason, garbage) == (TEXT, "corrupt", False)


@packers
def test_a_flipped_bit_is_found_and_nothing_of_the_member_comes_out(
    codec: str, unpacked: Callable[..., object]
) -> None:
    pack = PACKERS[codec]
    good, packed = pack(b"good\n"), pack(TEXT)
    for place in range(len(packed) // 4, len(packed) - 8, len(packed) // 9):
        damaged = bytearray(packed)
        damaged[place] ^= 0x10
        out, reason, _ = unpacked(good + bytes(damaged) + good)  # type: ignore[misc]
        assert reason in ("corrupt", "checksum", "truncated"), place
        if reason != "truncated":
            assert out == b"good\n"


def test_gzip_checksum_and_length(unpacked: Callable[..., object]) -> None:
    packed = gzip.compress(TEXT)
    for place in (-8, -1):
        damaged = bytearray(packed)
        damaged[place] ^= 1
        assert unpacked(bytes(damaged)) == (b"", "checksum", False)


def test_up_to_the_hold_nothing_of_a_damaged_member_comes_out(unpacked: Callable[..., object]) -> None:
    noise = random.Random(1).randbytes(3 << 20)
    damaged = bytearray(gzip.compress(noise))
    damaged[-8] ^= 1
    assert unpacked(bytes(damaged)) == (b"", "checksum", False)


def test_beyond_the_hold_a_member_streams(unpacked: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HOLD", 10_000)
    noise = random.Random(1).randbytes(3 << 20)
    damaged = bytearray(gzip.compress(noise))
    damaged[-8] ^= 1
    out, reason, _ = unpacked(bytes(damaged))  # type: ignore[misc]
    assert reason == "checksum"
    assert noise.startswith(out)
    assert len(out) > len(noise) // 2


@packers
def test_nested(codec: str, unpacked: Callable[..., object]) -> None:
    assert unpacked(PACKERS[codec](gzip.compress(TEXT))) == (b"", "nested_compression", False)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bzip2"])
def test_bomb(codec: str, unpacked: Callable[..., object]) -> None:
    packed = PACKERS[codec](bytes(40 << 20))
    out, reason, _ = unpacked(packed, 100)  # type: ignore[misc]
    assert reason == "decompression_ratio"
    assert len(out) <= 18 << 20
    assert unpacked(PACKERS[codec](bytes(1 << 20)), 2)[1] is None  # type: ignore[index]  # small files may shrink as they like


def test_zstd_of_a_huge_window_is_refused(unpacked: Callable[..., object]) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    out, reason, _ = unpacked(packed.compress(TEXT * 10) + packed.flush())  # type: ignore[misc]
    assert (out, reason) == (b"", "corrupt")


def test_zstd_skippable_frames(unpacked: Callable[..., object]) -> None:
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    packed = PACKERS["zstd"](TEXT)
    assert unpacked(skippable + packed + skippable + packed) == (TEXT * 2, None, False)


@pytest.mark.parametrize("start", [b"\xfd7zXZ\x00", b"\x1f\x9d", b"7z\xbc\xaf\x27\x1c"])
def test_compression_that_is_not_read(start: bytes, unpacked: Callable[..., object]) -> None:
    assert unpacked(start + bytes(100)) == (b"", "unsupported_compression", False)


def test_gzip_of_another_method(unpacked: Callable[..., object]) -> None:
    assert unpacked(b"\x1f\x8b\x07" + bytes(30)) == (b"", "corrupt", False)


def test_text_that_begins_like_bzip2_is_text(unpacked: Callable[..., object]) -> None:
    assert unpacked(b"BZh9 is a name") == (b"BZh9 is a name", None, False)


def test_peek_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(TEXT)[:-20])
    with ByteStream(str(path), 2000) as stream:
        assert stream.peek(10) == TEXT[:10]
        assert len(stream.peek(1 << 30)) > 1000
        out = stream.read()
        with pytest.raises(StreamFault):
            stream.read()
    assert TEXT.startswith(out)
    assert len(out) > 1000


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StreamFault) as caught:
        ByteStream(str(tmp_path / "none"), 2000)
    assert caught.value.reason == "unreadable"


def test_decoders_take_any_split_of_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_CHUNK", 7)
    for pack in PACKERS.values():
        path = tmp_path / "f"
        path.write_bytes(pack(TEXT[:5000]) + pack(b"") + pack(TEXT[:77]))
        assert unpack(path) == (TEXT[:5000] + TEXT[:77], None, False)
