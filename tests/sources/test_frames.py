from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_pipeline.sources.frames import Arc, Dialect, Frame, Warc, base32, read_frames
from dedup_pipeline.sources.streams import ByteStream, StreamFault

from .archive_builder import arc, arc_header, http, warc

BLOCKS = [b"software: x\r\n", http(), http(b"second\r\n\r\nbody"), b"", http(b"last")]
RECORDS = [warc(block, "warcinfo" if n == 0 else "response", n) for n, block in enumerate(BLOCKS)]


def frames(
    path: Path, content: bytes, dialect: Dialect | None = None, limit: int = 10_000_000
) -> tuple[list[Frame], str | None]:
    path.write_bytes(content)
    out: list[Frame] = []
    with ByteStream(str(path), 2000) as stream:
        try:
            for frame in read_frames(stream, dialect or Warc(), limit):
                out.append(frame)
        except StreamFault as fault:
            return out, fault.reason
    return out, None


def short(out: tuple[list[Frame], str | None]) -> tuple[list[Any], str | None]:
    """Block of each frame, or the reason it has none."""
    return [frame.fault[0] if frame.fault else frame.block for frame in out[0]], out[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.warc"


def test_whole(path: Path) -> None:
    out, fault = frames(path, b"".join(RECORDS))
    assert fault is None
    assert [frame.block for frame in out] == BLOCKS
    starts = [sum(map(len, RECORDS[:n])) for n in range(len(RECORDS))]
    assert [frame.offset for frame in out] == starts
    assert out[1].head is not None
    assert (out[1].head.kind, out[1].head.url, out[1].head.length) == (
        "response",
        "http://example.org/1",
        len(BLOCKS[1]),
    )


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_line_ends_case_and_padding(path: Path, newline: bytes) -> None:
    record = warc(b"abc", "Response", newline=newline).replace(b"Content-Length", b"CONTENT-length")
    assert short(frames(path, record * 2)) == ([b"abc", b"abc"], None)
    assert short(frames(path, b"\r\n" + record.rstrip())) == ([b"abc"], None)
    assert short(frames(path, record + newline * 3 + record + bytes(5000))) == ([b"abc", b"abc"], None)


def test_every_cut_ends_in_truncation_and_gives_the_whole_records_before(path: Path) -> None:
    content = b"".join(RECORDS)
    ends = [sum(map(len, RECORDS[: n + 1])) for n in range(len(RECORDS))]
    for cut in range(1, len(content)):
        blocks, fault = short(frames(path, content[:cut]))
        whole = sum(cut >= end - 4 for end in ends)  # a block is whole before its two line ends
        assert blocks == BLOCKS[:whole], cut
        if all(not end - 4 <= cut <= end + 2 for end in ends):
            assert fault == "truncated", cut


def test_too_long_a_length_costs_one_record(path: Path) -> None:
    for extra in (5, 20, 300, len(RECORDS[2]) + 40):
        wrong = warc(BLOCKS[1], length=len(BLOCKS[1]) + extra)
        out = short(frames(path, RECORDS[0] + wrong + RECORDS[2] + RECORDS[4] * 3))
        assert out == ([BLOCKS[0], "wrong_length", BLOCKS[2], *[BLOCKS[4]] * 3], None), extra


def test_too_long_a_length_at_the_end(path: Path) -> None:
    wrong = warc(BLOCKS[1], length=5000)
    assert short(frames(path, RECORDS[0] + wrong)) == ([BLOCKS[0]], "truncated")
    assert short(frames(path, RECORDS[0] + wrong + RECORDS[2])) == ([BLOCKS[0], "wrong_length", BLOCKS[2]], None)


def test_too_short_a_length_costs_one_record(path: Path) -> None:
    for missing in (1, 2, 10, len(BLOCKS[1])):
        wrong = warc(BLOCKS[1], length=len(BLOCKS[1]) - missing)
        assert short(frames(path, RECORDS[0] + wrong + RECORDS[2])) == ([BLOCKS[0], "wrong_length", BLOCKS[2]], None)
        assert short(frames(path, RECORDS[0] + wrong)) == ([BLOCKS[0]], "wrong_length")


def test_zeros_that_belong_to_the_block_are_not_taken_for_padding(path: Path) -> None:
    block = b"ends in zeros\0\0"
    wrong = warc(block, length=len(block) - 2)
    assert short(frames(path, wrong + RECORDS[0])) == (["wrong_length", BLOCKS[0]], None)
    assert short(frames(path, wrong)) == ([], "wrong_length")


def test_a_length_that_stops_at_an_empty_line_is_found(path: Path) -> None:
    block = b"some text\r\n\r\nmore of it"
    assert short(frames(path, warc(block, length=9) + RECORDS[0])) == (["wrong_length", BLOCKS[0]], None)


@pytest.mark.parametrize("evidence", ["digest", "http"])
def test_junk_behind_a_proven_record_costs_nothing_but_itself(path: Path, evidence: str) -> None:
    if evidence == "digest":
        block = b"block"
        digest = base64.b32encode(hashlib.sha1(block).digest()).decode()
        record = warc(block, WARC_Block_Digest=f"sha1:{digest}")
    else:
        block = http(b"body", headers={"Content-Length": "4"})
        record = warc(block)
    assert short(frames(path, record + b"junk in between\r\n" + RECORDS[0])) == ([block, "bad_header", BLOCKS[0]], None)
    assert short(frames(path, record + b"junk at the end")) == ([block], "bad_header")


@pytest.mark.parametrize("length", ["", "-5", "many", "1e3", "9" * 30])
def test_no_length(path: Path, length: str) -> None:
    assert short(frames(path, warc(BLOCKS[1], length=length) + RECORDS[2])) == (["bad_header", BLOCKS[2]], None)
    assert short(frames(path, warc(b"", length=length) * 2)) == (["bad_header"] * 2, None)
    assert short(frames(path, warc(BLOCKS[1], length=length))) == ([], "bad_header")


def test_blocks_above_the_limit_are_not_held(path: Path) -> None:
    big = b"x" * 3_000_000
    out, fault = frames(path, RECORDS[0] + warc(big) + RECORDS[1], limit=100_000)
    assert fault is None
    assert [(frame.block, frame.fault) for frame in out] == [(BLOCKS[0], None), (None, None), (BLOCKS[1], None)]
    assert short(frames(path, RECORDS[0] + warc(big)[:-100], limit=100_000)) == ([BLOCKS[0]], "truncated")
    wrong = warc(big, length=len(big) - 1000)
    assert short(frames(path, wrong + RECORDS[0], limit=100_000)) == (["wrong_length", BLOCKS[0]], None)


def test_a_header_without_end(path: Path) -> None:
    assert short(frames(path, b"WARC/1.0\r\nA: b\r\n" + b"x: y\r\n" * 40_000 + RECORDS[0])) == (
        ["bad_header", BLOCKS[0]],
        None,
    )


def test_long_junk_between_records(path: Path) -> None:
    for size in (10, 64 << 10, (128 << 10) - 3, 128 << 10, 300_000):
        junk = (b"j" * 79 + b"\n") * (size // 80) + b"j" * (size % 80) + b"\n"
        proven = warc(http(b"b", headers={"Content-Length": "1"}))
        out, fault = frames(path, proven + junk + RECORDS[0] + RECORDS[1])
        assert fault is None
        assert [frame.fault and frame.fault[0] for frame in out] == [None, "bad_header", None, None], size
        assert out[2].offset == len(proven) + len(junk)


def test_arc_versions_and_urls_with_spaces(path: Path) -> None:
    second = b"http://example.org/a b 127.0.0.1 20240506070809 text/html 200 - - 1234 f.arc 3\nabc\n"
    for version, records in (
        (1, [arc(http()), arc(b"x", "dns:example.org"), arc(b"y", "http://e.org/a b c")]),
        (2, [second]),
    ):
        out, fault = frames(path, arc_header(version) + b"".join(records), Arc())
        assert fault is None
        assert [frame.fault for frame in out] == [None] * (1 + len(records))
        assert out[0].head is not None
        assert out[0].head.kind == "arc_header"
        assert out[-1].head is not None
        assert out[-1].head.url in ("http://e.org/a b c", "http://example.org/a b")
        assert out[-1].head.date == "20240506070809"


def test_arc_lengths(path: Path) -> None:
    good, start = arc(http(b"good")), arc_header()
    for extra in (-3, 5, 40, 400):
        wrong = arc(http(b"wrong"), length=len(http(b"wrong")) + extra)
        blocks, fault = short(frames(path, start + wrong + good * 4, Arc()))
        assert (blocks[1:], fault) == (["wrong_length", *[http(b"good")] * 4], None), extra
    content = start + good * 2
    for cut in range(len(start) + 1, len(content)):
        blocks, fault = short(frames(path, content[:cut], Arc()))
        assert blocks[1:] == [http(b"good")] * (len(blocks) - 1)
        assert (
            fault == "truncated"
            or content[cut:] in (b"", b"\n")
            or content[:cut].endswith(b"good\n")
            or cut == len(start) + len(good) - 1
        )


def test_base32_is_that_of_the_standard_library() -> None:
    for n in range(50):
        digest = hashlib.sha1(bytes([n])).digest()
        assert base32(digest) == base64.b32encode(digest)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.lists(st.sampled_from(RECORDS), min_size=1, max_size=5),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 30)), max_size=3),
    dialect=st.sampled_from([Warc(), Arc()]),
)
def test_any_damage_is_frames_or_a_fault(
    path: Path, order: list[bytes], edits: list[tuple[float, bytes, int]], dialect: Dialect
) -> None:
    content = b"".join(order)
    for where, new, gone in edits:
        at = int(where * len(content))
        content = content[:at] + new + content[at + gone :]
    out, fault = frames(path, content, dialect)
    # The damage may spell the magic number of a compression.
    assert fault in (None, "truncated", "wrong_length", "bad_header", "corrupt", "checksum", "unsupported_compression")
    offsets = [frame.offset for frame in out]
    assert offsets == sorted(set(offsets))
