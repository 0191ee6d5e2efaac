"""The bulk form equals the single form, whatever the array."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from url_strategies import anything

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls import PROFILES, STATUSES, canonicalize_url, canonicalize_urls
from dedup_pipeline.urls.parsing import repair
from dedup_pipeline.urls.rules import AGGRESSIVE, DEFAULT, STRICT, Profile
from dedup_pipeline.urls.scan import NOT_SURE, ONLY_PAIRS, kept_lengths, scanner
from dedup_pipeline.urls.tracking import TRACKING_PARAMETERS

PLAIN = "http://i.example.com/a/b-c_d~e.html"


def assert_equals_single(urls: list[str | None], array: pa.Array, profile: str, limit: int = 16384) -> None:
    keys, codes = canonicalize_urls(array, profile, max_bytes=limit)
    keys.validate(full=True)
    assert codes.dtype == np.uint8
    singles = [None if url is None else canonicalize_url(url, profile, max_bytes=limit) for url in urls]
    assert codes.tolist() == [255 if single is None else STATUSES.index(single.status) for single in singles]
    assert keys.to_pylist() == [
        single.key if single is not None and single.status == "ok" else None for single in singles
    ]


scanner_of = lru_cache(scanner)


def kept(url: str, profile: Profile) -> int:
    """What the scan says of one URL: length of the key, NOT_SURE or ONLY_PAIRS."""
    text = np.frombuffer(url.encode() + b"\0", np.uint8)
    out = np.empty(1, np.int64)
    kept_lengths(text, np.array([0, len(text) - 1], np.int32), np.ones(1, np.bool_), scanner_of(profile), 16384, out)
    return max(int(out[0]), ONLY_PAIRS)


columns = st.lists(st.one_of(st.none(), anything.map(repair), st.just(PLAIN)), max_size=12)


@settings(max_examples=200, deadline=None)
@given(columns, st.sampled_from(PROFILES), st.sampled_from([16384, 40]), st.integers(0, 4), st.integers(0, 4))
def test_equals_the_single_form_on_any_array(
    urls: list[str | None], profile: str, limit: int, front: int, back: int
) -> None:
    whole = pa.array(urls, pa.string())
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        array = whole.dictionary_encode() if pa.types.is_dictionary(kind) else whole.cast(kind)
        rest = slice(front, max(front, len(urls) - back))
        assert_equals_single(urls[rest], array[rest], profile, limit)


@settings(max_examples=1000, deadline=None)
@given(anything.map(repair), st.sampled_from([STRICT, DEFAULT, AGGRESSIVE]))
def test_the_scan_is_never_wrong(url: str, profile: Profile) -> None:
    length = kept(url, profile)
    if length >= 0:
        found = canonicalize_url(url, profile.name)
        assert (found.key, found.status) == (url.encode()[:length].decode(), "ok")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("place", ["/a{}b", "/?a={}b", "/?{}=b", "/a{}", "/?{}", "/a#{}", "/?b{}=1&a=2", "/?b=1&{}&a"])
def test_every_byte_in_every_place(profile: str, place: str) -> None:
    pieces = [piece for code in range(1, 256) for piece in (chr(code), f"%{code:02X}", f"%{code:02x}")]
    urls: list[str | None] = [
        head + place.format(piece) for head in ("http://e.com", "https://www.e.co.uk") for piece in pieces
    ]
    assert_equals_single(urls, pa.array(urls), profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_byte_in_a_host(profile: str) -> None:
    hosts = ["{}e.com", "e{}.com", "e.{}om", "e.com{}", "{}", "1.2.3.{}", "a.{}", "xn-{}a.com"]
    urls: list[str | None] = [f"http://{host.format(chr(code))}/aaaa" for host in hosts for code in range(1, 128)]
    assert_equals_single(urls, pa.array(urls), profile)


@pytest.mark.parametrize(
    ("url", "length"),
    [
        (PLAIN, len(PLAIN)),
        (f"{PLAIN}#part?x", len(PLAIN)),
        (f"{PLAIN}?", len(PLAIN)),
        (f"{PLAIN}?#part", len(PLAIN)),
        (f"{PLAIN}?a=1&b=2#part", len(PLAIN) + 8),
        (f"{PLAIN}?a&a=2&ab", len(PLAIN) + 9),
        (f"{PLAIN}/%C3%A9", len(PLAIN) + 7),
        (f"{PLAIN}/%c3%a9", NOT_SURE),
        (f"{PLAIN}/%7E", NOT_SURE),
        (f"{PLAIN}/%", NOT_SURE),
        (f"{PLAIN}?b=2&a=1", ONLY_PAIRS),
        (f"{PLAIN}?ab&a", ONLY_PAIRS),
        (f"{PLAIN}?a=1&&b=2", ONLY_PAIRS),
        (f"{PLAIN}?a=1&", ONLY_PAIRS),
        (f"{PLAIN}?a=%20", NOT_SURE),
        (f"{PLAIN}?UTM_source=1", ONLY_PAIRS),
        (f"{PLAIN}//a", NOT_SURE),
        (f"{PLAIN}/../a", NOT_SURE),
        ("http://e.com", NOT_SURE),
        ("http://1.2.3.4/a", NOT_SURE),
        ("http://e.com./a", NOT_SURE),
        ("http://xn--a.com/a", NOT_SURE),
        ("http://E.com/a", NOT_SURE),
        ("http://e.com:80/a", NOT_SURE),
        ("http://u@e.com/a", NOT_SURE),
        ("ftp://e.com/aaa", NOT_SURE),
        ("", NOT_SURE),
    ],
)
def test_what_the_scan_accepts_by_default(url: str, length: int) -> None:
    assert kept(url, DEFAULT) == length


@pytest.mark.parametrize("name", sorted(TRACKING_PARAMETERS))
def test_the_scan_never_accepts_a_tracking_name(name: str) -> None:
    for query in (f"{name}=1", name, f"0=1&{name}=1", f"{name.upper()}=1"):
        assert kept(f"{PLAIN}?{query}", DEFAULT) == ONLY_PAIRS
        assert kept(f"{PLAIN}?{query}", STRICT) == len(f"{PLAIN}?{query}")


@pytest.mark.parametrize("profile", PROFILES)
def test_equals_the_single_form_on_the_golden_table(profile: str) -> None:
    rows = map(json.loads, (Path(__file__).parent / "golden.jsonl").read_text(encoding="ascii").splitlines())
    urls: list[str | None] = [repair(row["input"]) for row in rows]
    assert_equals_single(urls, pa.array(urls), profile)


@pytest.mark.parametrize("tail", ["", "#part", "?b=1&a=2", "?"])
def test_the_limit_counts_the_url_as_it_stands(tail: str) -> None:
    url = f"{PLAIN}{tail}"
    for limit in range(len(url) - 6, len(url) + 2):
        assert_equals_single([url], pa.array([url]), "default", limit)
        assert (canonicalize_urls(pa.array([url]), max_bytes=limit)[1][0] == 0) == (len(url) <= limit)


def test_canonical_columns_come_back_without_a_copy() -> None:
    array = pa.array([PLAIN, f"{PLAIN}?a=1"])
    keys, codes = canonicalize_urls(array)
    assert keys.buffers()[2].address == array.buffers()[2].address
    assert codes.tolist() == [0, 0]


def test_types_and_lengths_of_what_comes_back() -> None:
    for kind, expected in (
        (pa.string(), pa.string()),
        (pa.large_string(), pa.large_string()),
        (pa.null(), pa.string()),
    ):
        keys, codes = canonicalize_urls(pa.array([None, None], kind))
        assert (keys.type, keys.null_count, codes.tolist()) == (expected, 2, [255, 255])
        keys, codes = canonicalize_urls(pa.array([], kind))
        assert (keys.type, len(keys), len(codes)) == (expected, 0, 0)


def test_text_that_is_not_utf8_is_read_as_the_single_form_reads_bytes() -> None:
    url = b"http://e.com/\xe9"
    buffers = [None, pa.py_buffer(np.array([0, len(url)], np.int32)), pa.py_buffer(url)]
    keys, _ = canonicalize_urls(pa.Array.from_buffers(pa.string(), 1, buffers))
    assert keys.to_pylist() == [canonicalize_url(url).key] == ["http://e.com/%E9"]


def test_errors_name_the_column_type_and_the_profiles() -> None:
    with pytest.raises(ConfigError, match="int64"):
        canonicalize_urls(pa.array([1]))
    with pytest.raises(ConfigError, match="strict, default, aggressive"):
        canonicalize_urls(pa.array(["x"]), "none")


def hard_urls(folder: Path) -> list[str]:
    with gzip.open(folder / "urls_hard_real.jsonl.gz", "rt", encoding="utf-8") as file:
        urls = [json.loads(line)["url"] for line in file]
    with gzip.open(folder / "urls_kasztp_mit.txt.gz", "rt", encoding="utf-8", errors="replace") as file:
        urls += [line.rstrip("\n") for line in file]
    return urls


@pytest.mark.parametrize("profile", PROFILES)
def test_equals_the_single_form_on_hard_urls(shared_data: Path, profile: str) -> None:
    urls = hard_urls(shared_data / "urls")
    assert_equals_single(list(urls), pa.array(urls), profile)


@pytest.mark.nightly
@pytest.mark.parametrize("profile", PROFILES)
def test_equals_the_single_form_on_every_real_url(shared_data: Path, profile: str) -> None:
    array = pq.read_table(shared_data / "urls" / "reddit_top_2013_link_posts.parquet")["url"].combine_chunks()
    assert_equals_single(array.to_pylist(), array, profile)


def test_several_threads_at_once_get_the_same_answers(shared_data: Path) -> None:
    array = pa.array(hard_urls(shared_data / "urls"))
    expected, codes = canonicalize_urls(array)
    with ThreadPoolExecutor(4) as pool:
        for keys, found in pool.map(lambda _: canonicalize_urls(array), range(8)):
            assert keys.equals(expected)
            assert np.array_equal(found, codes)
