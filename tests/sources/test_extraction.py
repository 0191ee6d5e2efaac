from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str
from resiliparse.parse.html import HTMLTree

from dedup_pipeline.errors import BackendError
from dedup_pipeline.sources import Extraction, ReadOptions, extractor_version
from dedup_pipeline.sources.extraction import ExtractionFailed
from dedup_pipeline.sources.extraction_worker import extract_payload
from dedup_pipeline.sources.payloads import Payload

from .archive_builder import http, warc
from .conftest import Read, Reading, read_whole

# A worker like ours in all but the parser: what it does is written in the payload.
STRANGE = """
import os, signal, sys, time
sys.argv = ["w", sys.argv[1], sys.argv[2]]
import dedup_pipeline.sources.extraction_worker as worker
def strange(payload, kind, declared):
    if payload.startswith(b"crash"): os.kill(os.getpid(), signal.SIGSEGV)
    if payload.startswith(b"exit"): os._exit(3)
    if payload.startswith(b"hang"): time.sleep(600)
    if payload.startswith(b"raise"): raise ValueError("no")
    if payload.startswith(b"print"): print("x" * 100)
    return payload.decode("latin-1"), None, "utf-8"
worker.extract_payload = strange
worker.main(float(sys.argv[1]), int(sys.argv[2]))
"""


MARKUP = [b"<p>", b"</p>", b"<article>", b"<title>t", b"</title>", b"<meta charset=latin-1>", b"<b", b"&amp;", b"a"]
BYTES = [
    "é€😀".encode(),
    b"\xef\xbb\xbf",
    b"\xef\xbf\xbe",
    b"\0",
    b"\x1a",
    b"\r\n",
    b"\xe9",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(MARKUP + BYTES), max_size=12).map(b"".join))
def test_the_shorter_way_of_decoding_gives_what_resiliparse_gives(page: bytes) -> None:
    tree = HTMLTree.parse(bytes_to_str(page, "utf-8", errors="replace", fallback_encodings=()))
    text = extract_plain_text(tree, main_content=True)
    expected = text if text.strip() else extract_plain_text(tree)
    assert extract_payload(page, Payload.HTML, "utf-8") == (expected, (tree.title or "").strip() or None, "utf-8")


def strange_pool(workers: int = 2, **options: float) -> Extraction:
    pool = Extraction(workers, **options)  # type: ignore[arg-type]
    pool._command[1:4] = ["-c", STRANGE]
    return pool


def answers(pool: Extraction, payloads: list[bytes]) -> list[bytes | str]:
    """The text for each payload, or the reason there is none."""
    tickets = [pool.submit(payload, Payload.HTML, None) for payload in payloads]
    out: list[bytes | str] = []
    for ticket in tickets:
        try:
            out.append(ticket.result().text)
        except ExtractionFailed as failure:
            out.append(failure.reason)
    return out


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_answers_are_those_of_the_parser_in_order(pool: Extraction) -> None:
    pages = [f"<title>{n}</title><p>{'word ' * (n * 37 % 900)}{n}</p>".encode() for n in range(200)]
    tickets = [pool.submit(page, Payload.HTML, "utf-8") for page in pages]
    for page, ticket in zip(pages, tickets, strict=True):
        text, title, charset = extract_payload(page, Payload.HTML, "utf-8")
        got = ticket.result()
        assert (got.text.decode(), got.title and got.title.decode(), got.charset) == (text, title, charset)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_costs_one_record(workers: int) -> None:
    payloads = [
        b"crash" if n % 7 == 3 else b"exit" if n % 11 == 5 else b"raise" if n == 40 else b"page %d" % n
        for n in range(60)
    ]
    expected = [p if p.startswith(b"page") else "parser_crash" for p in payloads]
    with strange_pool(workers) as pool:
        assert answers(pool, payloads) == expected


def test_a_parser_that_does_not_end_costs_one_record() -> None:
    with strange_pool(1, time_limit=0.5) as pool:
        assert answers(pool, [b"a", b"hang", b"b", b"c"]) == [b"a", "parser_timeout", b"b", b"c"]


def test_payloads_larger_than_pipes_and_printing_parsers() -> None:
    payloads = [b"%d" % n + b"x" * 3_000_000 for n in range(12)] + [b"print"]
    with strange_pool(2) as pool:
        assert answers(pool, payloads) == payloads


def test_what_is_in_flight_is_bounded() -> None:
    with strange_pool(1, in_flight_bytes=100_000) as pool:
        tickets = []
        for n in range(50):
            tickets.append(pool.submit(b"%d" % n + b"x" * 40_000, Payload.HTML, None))
            assert sum(len(ticket.payload) for ticket in tickets) <= 100_000 + 2 * 40_002
        assert all(ticket.result().text for ticket in tickets)


def test_no_process_before_the_first_payload(read: Read) -> None:
    with Extraction(2) as pool:
        assert pool.pids == ()
    assert read(b'{"a":1}\n').rows


def test_workers_end_with_the_pool() -> None:
    with strange_pool(2) as pool:
        answers(pool, [b"a", b"b", b"c"])
        pids = pool.pids
        late = pool.submit(b"hang", Payload.HTML, None)
        assert len(pids) == 2
    assert all(map(gone, pids))
    with pytest.raises(BackendError):
        late.result()
    with pytest.raises(BackendError):
        pool.submit(b"x", Payload.HTML, None).result()
    pool.close()


def test_workers_end_when_their_parent_is_killed() -> None:
    script = (
        "import os, time\nfrom dedup_pipeline.sources import Extraction\npool = Extraction(2)\n"
        "pool.submit(b'<p>x', 1, None).result()\nprint(*pool.pids, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while not all(map(gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(gone, pids))


def test_workers_that_cannot_start_are_an_error_and_not_a_crash_of_records() -> None:
    pool = Extraction(1)
    pool._command[1:4] = ["-c", "raise SystemExit(1)"]
    with pool, pytest.raises(BackendError, match="end as soon as they are started"):
        pool.submit(b"x", Payload.HTML, None).result()
    pool = Extraction(1)
    pool._command[1:4] = [
        "-c",
        "import sys; sys.modules['resiliparse'] = None\n"
        + STRANGE.split("worker.extract", maxsplit=1)[0].split("def strange", maxsplit=1)[0]
        + "worker.main(1.0, 0)",
    ]
    with pool, pytest.raises(BackendError, match="Resiliparse cannot be used"):
        pool.submit(b"x", Payload.HTML, None).result()


def test_memory_of_a_worker_is_bounded() -> None:
    pool = Extraction(1, memory_bytes=200 << 20)
    with pool:
        big = b"<p>" + b"<b>x" * 20_000_000
        tickets = [pool.submit(big, Payload.HTML, None), pool.submit(b"<p>small</p>", Payload.HTML, None)]
        with pytest.raises(ExtractionFailed) as caught:
            tickets[0].result()
        assert caught.value.reason == "parser_crash"
        assert tickets[1].result().text == b"small"


def test_a_crash_in_an_archive_is_one_bad_record(write: object, tmp_path: Path) -> None:
    content = b"".join(
        warc(http(body), number=n) for n, body in enumerate([b"one", b"crash", b"two", b"exit", b"three"])
    )
    path = tmp_path / "a.warc"
    path.write_bytes(content)
    from dedup_pipeline.sources import Source

    with strange_pool(2) as pool:
        got: Reading = read_whole(Source("a.warc", str(path), 1), ReadOptions(), pool)
    assert got.reasons == {1: "parser_crash", 3: "parser_crash"}
    assert [row["text"] for row in got.rows.values()] == [b"one", b"two", b"three"]


def test_a_worker_imports_little() -> None:
    code = (
        "import sys, dedup_pipeline.sources.extraction_worker as w; w.extract_payload(b'<p>x', 1, '')\n"
        "heavy = {'pyarrow', 'numpy', 'fastwarc', 'duckdb', 'numba', 'lz4'}\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resiliparse.py").write_text("raise SystemExit(9)")
    (tmp_path / "struct.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    with Extraction(1) as pool:
        assert pool.submit(b"<p>fine</p>", Payload.HTML, None).result().text == b"fine"


def test_descriptors_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with strange_pool(2) as pool:
            answers(pool, [b"a", b"crash", b"b"])
    assert len(os.listdir("/proc/self/fd")) <= before


def test_version_names_the_extractor() -> None:
    name, number = extractor_version().split(" ", 1)
    assert name == "resiliparse"
    assert number[0].isdigit()
