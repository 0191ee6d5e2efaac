"""The sample crawl in ``data/``: the committed files are what the script makes, and what was planted is in them.

The check shares no code with the package: WARC members are split with zlib, texts come from Resiliparse as the
README of the sample says, similarity is counted over plain Python sets, and the rule that all stages together equal
is replayed in a few lines.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text

DATA = Path(__file__).parents[1] / "data"
FILES = ("sample/crawl.warc.gz", "sample/feed.jsonl", "expected.csv", "labels.csv")
SOURCES = FILES[:2]
RELATED = {"chain", "nearest", "star", "heavy_edit", "copy_of_changed", "twin_of_dropped"}
SCRIPTIO_CONTINUA = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class Seen(NamedTuple):
    """A document as the files hold it."""

    id: str
    source: str
    url: str | None
    text: str | None
    digest: str | None


def members(raw: bytes) -> list[bytes]:
    """The contents of the gzip members of ``raw``."""
    found = []
    while raw:
        inflate = zlib.decompressobj(31)
        found.append(inflate.decompress(raw))
        assert inflate.eof
        raw = inflate.unused_data
    return found


def headers(block: bytes) -> tuple[str, dict[str, str], bytes]:
    """First line, fields and the rest of a WARC record or an HTTP message."""
    head, _, rest = block.partition(b"\r\n\r\n")
    first, *lines = head.decode("utf-8").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), rest


def http_body(fields: dict[str, str], body: bytes) -> tuple[bytes, bytes]:
    """The payload (without chunks), and the same with its content encoding undone."""
    if fields.get("Transfer-Encoding") == "chunked":
        pieces = []
        while True:
            size, _, body = body.partition(b"\r\n")
            if int(size, 16) == 0:
                break
            pieces.append(body[: int(size, 16)])
            body = body[int(size, 16) + 2 :]
        body = b"".join(pieces)
    plain = zlib.decompress(body, 31) if fields.get("Content-Encoding") == "gzip" else body
    return body, plain


def visible(html: str) -> str:
    """Main text of a page, all of its text where there is no main text."""
    return extract_plain_text(html, main_content=True) or extract_plain_text(html, main_content=False)


def archive_documents() -> Iterator[Seen]:
    methods = {}
    for member in members((DATA / SOURCES[0]).read_bytes()):
        _, named, rest = headers(member)
        block = rest[:-4]
        if named["WARC-Type"] == "request":
            methods[named["WARC-Record-ID"]] = block.split(b" ", 1)[0]
        if named["WARC-Type"] != "response" or methods[named["WARC-Concurrent-To"]] != b"GET":
            continue
        status, fields, body = headers(block)
        if status.split()[1] != "200":
            continue
        kind, _, charset = fields["Content-Type"].partition("; charset=")
        text = visible(http_body(fields, body)[1].decode(charset)) if kind == "text/html" else None
        url, payload_digest = named["WARC-Target-URI"], named["WARC-Payload-Digest"]
        yield Seen(named["WARC-Record-ID"], SOURCES[0], url, text, payload_digest)


def feed_rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / SOURCES[1]).read_text(encoding="utf-8").splitlines()]


@cache
def seen() -> dict[str, Seen]:
    """Every document by id, in the order of priority."""
    found = list(archive_documents())
    for row in feed_rows():
        url, text = row.get("url"), row.get("text")
        assert isinstance(url, str | None)
        assert isinstance(text, str | None)
        found.append(Seen(str(row["id"]), SOURCES[1], url, text, None))
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def planned() -> dict[str, dict[str, str]]:
    """The expected outcome of every document by id; what is skipped left out."""
    return {row["id"]: row for row in rows("expected.csv") if row["expected"] != "skipped"}


def shingles(text: str | None, words: str = "plain") -> frozenset[tuple[str, ...]]:
    """Sets of three tokens; with ``words="split"`` letters of scripts without spaces and marks go with the package."""
    text = (text or "").lower()
    if words == "split":
        text = SCRIPTIO_CONTINUA.sub(r" \g<0> ", text)
        text = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
        tokens = text.split()
    else:
        tokens = re.findall(r"\w+", text)
    if len(tokens) < 3:
        return frozenset({tuple(tokens)} if tokens else ())
    return frozenset(zip(tokens, tokens[1:], tokens[2:], strict=False))


@cache
def sets(words: str = "plain") -> dict[str, frozenset[tuple[str, ...]]]:
    return {name: shingles(one.text, words) for name, one in seen().items()}


def jaccard(a: str, b: str, words: str = "plain") -> float:
    left, right = sets(words)[a], sets(words)[b]
    return len(left & right) / len(left | right) if left and right else 0.0


@cache
def similar(words: str = "plain") -> dict[tuple[str, str], float]:
    """Jaccard of every pair of documents that share a shingle, the earlier one first."""
    holders: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, found in sets(words).items():
        for one in found:
            holders[one].append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for names in holders.values():
        shared.update(combinations(names, 2))
    sizes = {name: len(found) for name, found in sets(words).items()}
    return {(a, b): n / (sizes[a] + sizes[b] - n) for (a, b), n in shared.items()}


def replayed(words: str) -> dict[str, tuple[str, str, str]]:
    """Expected outcome, stage and keeper of every document by the rule of the three stages."""
    near: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (a, b), value in similar(words).items():
        if value >= 0.8:
            near[b].append((value, a))
    order = {name: number for number, name in enumerate(seen())}
    by_address: dict[str, str] = {}
    by_fingerprint: dict[str, str] = {}
    kept: dict[str, tuple[str, str, str]] = {}
    for name, one in seen().items():
        address = planned()[name]["address"]
        fingerprint = f"text {one.text}" if one.text else f"payload {one.digest}" if one.digest else ""
        close = [(-value, order[a], a) for value, a in near[name] if kept[a][0] == "kept"]
        if address and address in by_address:
            kept[name] = ("dropped", "urls", by_address[address])
        elif fingerprint and fingerprint in by_fingerprint:
            kept[name] = ("dropped", "records", by_fingerprint[fingerprint])
        elif close:
            kept[name] = ("dropped", "near", min(close)[2])
        else:
            kept[name] = ("kept", "", "")
            by_address.setdefault(address, name)
            by_fingerprint.setdefault(fingerprint, name)
    return kept


def plant(name: str) -> list[dict[str, str]]:
    return [row for row in planned().values() if row["plant"] == name]


# ------------------------------------------------------------------ the files


def test_files_are_what_the_script_makes(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(DATA / "make_sample.py"), str(tmp_path)]
    env = {"PYTHONHASHSEED": "7", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, check=True, capture_output=True, env=env)
    for name in FILES:
        made, committed = (tmp_path / name).read_bytes(), (DATA / name).read_bytes()
        if name.endswith(".gz"):
            # zlib-ng and the like compress otherwise: there the members must be equal, not the deflate streams.
            assert members(made) == members(committed)
            if not re.fullmatch(r"1\.[\d.]+", zlib.ZLIB_RUNTIME_VERSION):
                continue
        assert made == committed, name


def test_nothing_else_lies_there_and_it_is_small() -> None:
    texts = {f"texts/{name}.txt" for name in ("english", "other", "parts")}
    scripts = {"make_sample.py", *(f"sample_{name}.py" for name in ("documents", "files", "plan", "special", "texts"))}
    caches = {"__pycache__", ".mypy_cache", ".ruff_cache"}
    found = [path for path in DATA.rglob("*") if path.is_file() and not caches & set(path.parts)]
    assert {str(path.relative_to(DATA)) for path in found} == {*FILES, *texts, *scripts, "README.md"}
    assert sum(path.stat().st_size for path in found) < 5_000_000


def test_warc_records_are_whole_and_digests_true() -> None:
    kinds: Counter[str] = Counter()
    ids = set()
    for member in members((DATA / SOURCES[0]).read_bytes()):
        version, named, rest = headers(member)
        assert version == "WARC/1.1"
        assert rest.endswith(b"\r\n\r\n")
        assert int(named["Content-Length"]) == len(rest) - 4
        block = rest[:-4]
        assert named["WARC-Block-Digest"] == sha1(block)
        assert named["Sample-Licence"] == "Apache-2.0"
        assert named["Sample-Source"] == "written for the dedup_pipeline sample"
        assert re.fullmatch(r"<urn:uuid:[0-9a-f-]{36}>", named["WARC-Record-ID"])
        ids.add(named["WARC-Record-ID"])
        kinds[named["WARC-Type"]] += 1
        if named["WARC-Type"] == "response":
            assert named["WARC-Concurrent-To"] in ids
            payload, _ = http_body(*headers(block)[1:])
            assert named["WARC-Payload-Digest"] == sha1(payload)
        if named["WARC-Type"] == "revisit":
            assert named["WARC-Refers-To"] in ids
    assert len(ids) == kinds.total()
    assert kinds["warcinfo"] == kinds["metadata"] == 1
    assert kinds["revisit"] == 2
    assert kinds["request"] == kinds["response"] + kinds["revisit"] > 500


def sha1(block: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(block).digest()).decode("ascii")


def test_fastwarc_reads_the_same_pages() -> None:
    stream = io.BytesIO((DATA / SOURCES[0]).read_bytes())
    found = {}
    for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True, auto_decode="all"):
        if record.http_content_type == "text/html" and record.http_headers.status_code == 200:
            found[record.record_id] = (record.headers["WARC-Target-URI"], record.reader.read(), record.http_charset)
    pages = {one.id: one for one in seen().values() if one.source == SOURCES[0] and one.text is not None}
    assert pages.keys() <= found.keys()
    assert len(found) == len(pages) + 1
    for name, one in pages.items():
        url, payload, charset = found[name]
        assert (url, visible(payload.decode(str(charset)))) == (one.url, one.text)


def test_the_archive_has_the_dresses_a_crawler_meets() -> None:
    dresses: Counter[str] = Counter()
    for member in members((DATA / SOURCES[0]).read_bytes()):
        _, named, rest = headers(member)
        if named["WARC-Type"] == "response":
            status, fields, _ = headers(rest[:-4])
            dress = [f"{name}: {fields[name]}" for name in fields if name.endswith(("Encoding", "Type"))]
            dresses.update([status.split()[1], *dress])
    assert dresses["Content-Encoding: gzip"] >= 10
    assert dresses["Transfer-Encoding: chunked"] >= 10
    assert dresses["Content-Type: text/html; charset=iso-8859-1"] == 1
    assert dresses["Content-Type: text/html; charset=windows-1251"] == 1
    assert dresses["Content-Type: image/png"] == 3
    assert {"404", "301", "500"} <= dresses.keys()


def test_feed_names_source_and_licence_in_every_line() -> None:
    for row in feed_rows():
        assert {"id", "title", "fetched", "tags", "source_note", "licence"} <= row.keys()
        assert row["licence"] == "Apache-2.0"
        assert isinstance(row["tags"], list)
        assert row["tags"]
    for column in ("url", "text"):
        assert 0 < sum(column not in row for row in feed_rows()) < 20
    assert any(row.get("text", "") is None for row in feed_rows())


def test_hosts_are_reserved_names() -> None:
    hosts = {re.sub(r":\d+$", "", one.url.split("/")[2]).rstrip(".").lower() for one in seen().values() if one.url}
    assert all(re.fullmatch(r"(.+\.)?example(\.org|\.com|\.net)?", host) for host in hosts)


def test_no_page_was_lost_in_extraction() -> None:
    for name, one in seen().items():
        if planned()[name]["plant"] not in ("short", "empty", "image"):
            assert one.text is not None, name
            assert len(one.text) > 300, name
            assert "Write to us" not in one.text
            assert ("Sponsored" in one.text) == (planned()[name]["plant"] == "ad_slot")


# ----------------------------------------------------------------- the plants


def test_expected_lists_every_document_once_in_order() -> None:
    assert list(planned()) == list(seen())
    assert all(planned()[name]["source"] == one.source for name, one in seen().items())
    assert 600 <= len(seen()) <= 1500


@pytest.mark.parametrize("words", ["plain", "split"])
def test_expected_outcomes_follow_from_the_rule(words: str) -> None:
    outcomes = {name: (row["expected"], row["stage"], row["keeper"]) for name, row in planned().items()}
    assert outcomes == replayed(words)


@pytest.mark.parametrize("words", ["plain", "split"])
def test_near_copies_are_clearly_above_the_threshold_and_nothing_else_is_close(words: str) -> None:
    for row in planned().values():
        if row["stage"] == "near":
            assert jaccard(row["id"], row["keeper"], words) >= 0.85, row
    group = {name: row["keeper"] or name for name, row in planned().items()}
    for (a, b), value in similar(words).items():
        one, other = planned()[a], planned()[b]
        kinds = {one["plant"], other["plant"]}
        if kinds == {"short"} or group[a] == group[b]:
            continue
        if kinds <= {"template", "template_copy"}:
            assert value <= 0.7, (a, b)
        elif len(kinds) == 1 and kinds <= RELATED:
            assert value <= 0.785 or "dropped" in (one["expected"], other["expected"]), (a, b)
        else:
            assert value < 0.3, (a, b, value)


def test_template_pages_are_hard_and_have_real_copies() -> None:
    names = {row["id"] for row in plant("template")}
    values = [value for pair, value in similar().items() if names.issuperset(pair)]
    assert max(values) > 0.6
    assert sum(value > 0.5 for value in values) > 100
    assert len(plant("template_copy")) == 9


def test_chains_break_in_the_middle() -> None:
    members_of: dict[str, list[str]] = defaultdict(list)
    pages = [row["id"] for row in plant("chain")]
    for a, b in combinations(pages, 2):
        if jaccard(a, b) > 0.5:
            members_of[a].append(b)
    chains = [(a, *bc) for a, bc in members_of.items() if len(bc) == 2]
    assert len(chains) == 6
    for a, b, c in chains:
        assert [planned()[one]["expected"] for one in (a, b, c)] == ["kept", "dropped", "kept"]
        assert jaccard(a, b) >= 0.85
        assert jaccard(b, c) >= 0.85
        assert jaccard(a, c) <= 0.785


def test_same_content_is_told_truly() -> None:
    for row in planned().values():
        assert (row["same_content"] != "") == (row["stage"] == "urls")
        if row["stage"] == "urls":
            same = seen()[row["id"]].text == seen()[row["keeper"]].text
            assert row["same_content"] == ("true" if same else "false")
    assert {row["same_content"] for row in plant("changed")} == {"", "false"}


def test_url_variants_differ_as_written_and_share_an_address() -> None:
    variants = [row for row in plant("url_variant") if row["expected"] == "dropped"]
    assert len({row["note"] for row in variants}) >= 19
    for row in variants:
        assert seen()[row["id"]].url != seen()[row["keeper"]].url
        assert row["address"] == planned()[row["keeper"]]["address"]
    addresses = [row["address"] for row in plant("url_distinct")]
    assert len(set(addresses)) == len(addresses) == 16


def test_both_sources_meet() -> None:
    dropped = [row for row in planned().values() if row["keeper"]]
    crossed = Counter(row["stage"] for row in dropped if planned()[row["keeper"]]["source"] != row["source"])
    assert min(crossed[stage] for stage in ("urls", "records", "near")) >= 10


# ----------------------------------------------------------------- the labels


def test_labels_name_documents_and_are_ordered() -> None:
    pairs = [(row["id_a"], row["id_b"]) for row in rows("labels.csv")]
    assert len(set(pairs)) == len(pairs)
    assert 180 <= len(pairs) <= 260
    assert all(a < b and {a, b} <= seen().keys() for a, b in pairs)
    assert Counter(row["is_duplicate"] for row in rows("labels.csv")).keys() == {"true", "false"}


def test_no_threshold_is_free_of_error_yet_0_8_makes_no_false_pair() -> None:
    values: dict[str, list[float]] = {"true": [], "false": []}
    for row in rows("labels.csv"):
        values[row["is_duplicate"]].append(jaccard(row["id_a"], row["id_b"]))
    assert max(values["false"]) > min(values["true"])
    assert max(values["false"]) < 0.8
    assert sum(value > 0.5 for value in values["false"]) >= 10
    assert sum(value < 0.8 for value in values["true"]) >= 20
    assert sum(value >= 0.8 for value in values["true"]) >= 90


def test_readme_counts_are_the_counts() -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows("expected.csv"):
        counts[row["plant"]][row["stage"] or row["expected"]] += 1
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \|.*" + r"\| (\d+) " * 4 + r"\|$", readme, re.M)
    assert f"{len(rows('labels.csv'))} pairs are labelled" in readme
    told = {name: tuple(map(int, figures)) for name, *figures in table}
    found = {name: tuple(c[stage] for stage in ("kept", "urls", "records", "near")) for name, c in counts.items()}
    found.pop("skipped")
    assert told == found
