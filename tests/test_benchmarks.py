"""The generators keep what they promise, and measuring measures."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parent.parent
if not (REPOSITORY / "benchmarks").is_dir():
    pytest.skip("benchmarks/ is no part of what is installed", allow_module_level=True)


def load(name: str) -> ModuleType:
    """A module of ``benchmarks/`` without the repository on the path (it would hide an installed wheel)."""
    if "benchmarks" not in sys.modules:
        folder = REPOSITORY / "benchmarks"
        spec = importlib.util.spec_from_file_location(
            "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules["benchmarks"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["benchmarks"])
    return importlib.import_module(f"benchmarks.{name}")


corpus = load("corpus")
warc = load("warc")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

TEXTS = [
    "The quick brown fox jumps over the lazy dog while 12 geese look on in 1999.",
    "The quick brown fox jumps over the lazy cat while 12 geese look on in 1999.",
    "THE QUICK brown fox, jumps over the lazy cat -- while 12 geese look on in 2001!",
    "Grüße aus Köln: der schnelle Fuchs, der Hund und 3 Gänse.",
    "",
    "Grüße aus Köln: der schnelle Fuchs, der Hund und 3 Gänse.",
]


def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))


def jaccard(a: str, b: str) -> float:
    one, other = shingles(a), shingles(b)
    return len(one & other) / len(one | other) if one | other else 0.0


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    rows = pa.table(
        {
            "id": [f"page-{n}" for n in range(len(TEXTS))],
            "url": ["https://site.example/a", None, "http://site.example/b?c=://d", None, None, None],
            "text": TEXTS,
            "source": ["made"] * len(TEXTS),
        }
    )
    file = tmp_path / "part-0.parquet"
    pq.write_table(rows, file, compression="zstd", row_group_size=4, use_dictionary=["source"])
    return [file]


def texts_of(file: Path) -> list[str]:
    texts: list[str] = pq.read_table(file).column("text").to_pylist()
    return texts


def test_copies_keep_every_similarity_and_length_within(sources: list[Path], tmp_path: Path) -> None:
    for file in corpus.enlarge(sources, tmp_path / "out", 4):
        made = texts_of(file)
        assert [len(t.encode()) for t in made] == [len(t.encode()) for t in TEXTS]
        for i, a in enumerate(TEXTS):
            for j, b in enumerate(TEXTS):
                assert jaccard(made[i], made[j]) == jaccard(a, b)
                assert (made[i] == made[j]) == (a == b)


def test_copies_share_nothing_between_them(sources: list[Path], tmp_path: Path) -> None:
    files = corpus.enlarge(sources, tmp_path / "out", 4)
    tables = [pq.read_table(file) for file in files]
    assert tables[0].equals(pq.read_table(sources[0]))
    for column in ("id", "url"):
        values = [v for table in tables for v in table.column(column).to_pylist() if v is not None]
        assert len(values) == len(set(values))
    assert tables[2].column("url").to_pylist()[2] == "http://copy2.site.example/b?c=://d"
    assert tables[2].column("id").to_pylist()[0] == "page-0~2"
    for n, one in enumerate(files):
        for other in files[:n]:
            assert all(jaccard(a, b) == 0 for a in texts_of(one) for b in texts_of(other))
    assert corpus.repeated_across_copies(files, 4) == 0
    assert corpus.repeated_across_copies([*files, *files], 2) == 4 * 4


def test_copies_are_the_same_each_time_and_laid_out_as_the_original(sources: list[Path], tmp_path: Path) -> None:
    first = corpus.enlarge(sources, tmp_path / "first", 3)
    second = corpus.enlarge(sources, tmp_path / "second", 3)
    assert [f.read_bytes() for f in first] == [f.read_bytes() for f in second]
    assert [f.name for f in first] == [f"copy-{k:03d}-part-0.parquet" for k in range(3)]
    for file in first:
        meta = pq.ParquetFile(file).metadata
        assert [meta.row_group(g).num_rows for g in range(meta.num_row_groups)] == [4, 2]
        columns = {meta.row_group(0).column(c).path_in_schema: meta.row_group(0).column(c) for c in range(4)}
        assert all(column.compression == "ZSTD" for column in columns.values())
        assert "RLE_DICTIONARY" in columns["source"].encodings
        assert "RLE_DICTIONARY" not in columns["text"].encodings


def test_files_of_another_seed_are_made_anew(sources: list[Path], tmp_path: Path) -> None:
    file = corpus.enlarge(sources, tmp_path / "out", 2)[1]
    before = file.stat().st_mtime_ns, texts_of(file)
    assert corpus.enlarge(sources, tmp_path / "out", 2)[1].stat().st_mtime_ns == before[0]
    corpus.enlarge(sources, tmp_path / "out", 2, seed=2)
    assert texts_of(file) != before[1]


@given(st.lists(st.none() | st.text(), max_size=20), st.integers(0, 99), st.integers(0, 9), st.data())
def test_renaming_commutes_with_words_and_case(
    texts: Sequence[str | None], copy: int, seed: int, draw: st.DataObject
) -> None:
    table = corpus.renaming(copy, seed)
    assert sorted(table) == list(range(256))
    start = draw.draw(st.integers(0, len(texts)))
    renamed = corpus.rename_words(pa.array(texts, pa.string()).slice(start), table)
    renamed.validate(full=True)

    def rename(text: str) -> str:
        return text.encode().translate(table).decode()

    assert renamed.to_pylist() == [None if t is None else rename(t) for t in texts[start:]]
    for text in filter(None, texts):
        assert re.findall(r"\w+", rename(text)) == [rename(w) for w in re.findall(r"\w+", text)]
        if text.isascii():
            assert rename(text).lower() == rename(text.lower())


def test_real_documents_keep_their_similarities(shared_data: Path, tmp_path: Path) -> None:
    part = pq.ParquetFile(shared_data / "corpus" / "part-0.parquet").read_row_group(0)
    texts = part.column("text").to_pylist()
    pq.write_table(part, tmp_path / "few.parquet")
    made = texts_of(corpus.enlarge([tmp_path / "few.parquet"], tmp_path / "out", 2)[1])
    assert len(set(made)) == len(set(texts))
    draws = np.random.default_rng(1).integers(0, len(texts), (300, 2))
    by_start = sorted(range(len(texts)), key=lambda n: texts[n])  # neighbours here are alike
    pairs = [*map(tuple, draws), *zip(by_start[100:5000:16], by_start[101:5001:16], strict=True)]
    similar = 0
    for a, b in pairs:
        assert jaccard(made[a], made[b]) == jaccard(texts[a], texts[b])
        assert jaccard(made[a], texts[b]) < 0.05 or len(shingles(texts[b])) < 5
        similar += jaccard(texts[a], texts[b]) > 0.5
    assert similar > 30


def test_a_warc_is_the_same_each_time_and_has_the_size_asked_for(tmp_path: Path) -> None:
    sizes = []
    for name in ("a.warc", "b.warc", "c.warc.gz"):
        pages = warc.write_warc(tmp_path / name, 1_000_000)
        sizes.append((tmp_path / name).stat().st_size)
        assert 10 <= pages <= 60
    plain = (tmp_path / "a.warc").read_bytes()
    assert plain == (tmp_path / "b.warc").read_bytes()
    assert gzip.decompress((tmp_path / "c.warc.gz").read_bytes()) == plain
    assert 1_000_000 <= sizes[0] < 1_100_000
    warc.write_warc(tmp_path / "d.warc", 1_000_000, seed=2)
    assert plain != (tmp_path / "d.warc").read_bytes()


def test_pages_of_a_warc_are_read_whole_and_have_main_text(tmp_path: Path) -> None:
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text

    pages = warc.write_warc(tmp_path / "a.warc.gz", 1_500_000)
    stream = io.BytesIO((tmp_path / "a.warc.gz").read_bytes())
    texts, payloads = [], []
    for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
        assert record.verify_payload_digest()
        payload = record.reader.read()
        assert len(payload) == int(record.http_headers["Content-Length"])
        payloads.append(payload)
        texts.append(extract_plain_text(payload.decode(record.http_charset or "utf-8", "replace"), main_content=True))
    assert len(texts) == pages
    assert all(15_000 < len(payload) < 100_000 for payload in payloads)
    assert 0.1 < sum(len(t) for t in texts) / sum(map(len, payloads)) < 0.25  # as real pages: 0.16
    assert max(jaccard(a, b) for n, a in enumerate(texts) for b in texts[:n]) < 0.2


@linux
def test_measure_sees_memory_time_and_output(tmp_path: Path) -> None:
    measure = load("measure").measure
    code = "import time; x = b'x' * 200_000_000; time.sleep(0.3); print('done')"
    run = measure([sys.executable, "-c", code], scratch=tmp_path)
    assert run.ok
    assert run.stdout == "done\n"
    assert run.stderr == ""
    assert 200e6 <= run.peak_anon <= 260e6
    assert run.peak_rss >= run.peak_anon
    assert run.max_rss >= 200e6
    assert 0.3 <= run.wall_s < 30
    assert 0 < run.cpu_s < run.wall_s + 1


@linux
def test_measure_adds_up_the_tree_orphans_included(tmp_path: Path) -> None:
    measure = load("measure").measure
    hold = "x = b'x' * 100_000_000; import time; time.sleep(0.5)"
    spin = "import time; s = time.process_time()\nwhile time.process_time() - s < 0.4: pass"
    code = (
        "import subprocess, sys\n"
        f"a = [subprocess.Popen([sys.executable, '-c', {hold!r}]) for _ in range(2)]\n"
        f"subprocess.Popen([sys.executable, '-c', {spin!r}])\n"  # nobody waits for this one
        "[p.wait() for p in a]\n"
        "import os; os._exit(0)"
    )
    run = measure([sys.executable, "-c", code], scratch=tmp_path)
    assert run.ok
    assert 200e6 <= run.peak_anon <= 300e6
    assert 100e6 <= run.max_rss < 200e6
    assert run.cpu_s >= 0.4


@linux
def test_measure_ends_the_whole_tree_in_time(tmp_path: Path) -> None:
    measure = load("measure").measure
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    started = time.perf_counter()
    run = measure([sys.executable, "-c", code], scratch=tmp_path, timeout_s=0.5)
    assert time.perf_counter() - started < 20
    assert run.timed_out
    assert not run.ok
    assert run.exit_code == 137


@linux
def test_a_contest_interleaves_and_names_failures(tmp_path: Path) -> None:
    contest = load("contest")
    order: list[str] = []

    def entrant(name: str, code: str) -> object:
        def command(output: Path) -> list[str]:
            order.append(name)
            return [sys.executable, "-c", code]

        return contest.Contestant(name, command, kept=contest.printed_count)

    good = [entrant(name, 'print(\'{"read": 9, "kept": 7}\')') for name in ("a", "b")]
    bad = entrant("bad", "raise SystemExit('no such table')")
    contest.hold([*good, bad], 2, tmp_path, warm_up=["a"])
    assert order == ["a", "a", "b", "bad", "a", "b"]
    text = contest.table([*good, bad], [good[0]], 9)
    assert re.search(r"^a +2 .* 7 +2 +1\.00$", text, re.MULTILINE)
    assert "not measured: bad: exit code 1: no such table" in text


def test_archives_are_read_alone_as_often_as_pages_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = warc.write_warc(tmp_path / "a.warc", 500_000)
    load("read_archive").main([str(tmp_path / "a.warc"), "--threads", "1"])
    assert json.loads(capsys.readouterr().out)["read"] == pages


def test_every_merge_of_urls_is_listed_with_its_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = load("urls")
    column = pa.array(
        ["http://e.com", "http://E.com/#a", "http://e.com/#!b", "http://e.com/", "mailto:x", "http://x.com/"]
    )
    found = list(urls.merges(column))
    assert [(merge.url, merge.first, merge.key, merge.rules) for merge in found] == [
        ("http://E.com/#a", "http://e.com", "http://e.com/", "empty_path + fragment + host_case"),
        ("http://e.com/#!b", "http://e.com", "http://e.com/", "empty_path + fragment"),
        ("http://e.com/", "http://e.com", "http://e.com/", "empty_path"),
    ]
    urls.write_merges(column, tmp_path / "merges.tsv", "default", None)
    assert len((tmp_path / "merges.tsv").read_text().splitlines()) == 4
    printed = capsys.readouterr().out
    assert "3 distinct URLs merged" in printed
    assert "1  of them with a fragment that may be a route" in printed
