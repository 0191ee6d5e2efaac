"""Laws of the canonical form: total, idempotent, never merging what differs, merging variants."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from url_strategies import anything, pairs, texts

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls import CANONICAL_VERSION, PROFILES, STATUSES, CanonicalURL, canonicalize_url
from dedup_pipeline.urls.canonical import _PLAIN
from dedup_pipeline.urls.parsing import parse_http
from dedup_pipeline.urls.rules import AGGRESSIVE, active_rules, apply_rules
from dedup_pipeline.urls.tracking import SERVICES, TRACKING_PARAMETERS, TRACKING_VERSION

profiles = st.sampled_from(PROFILES)
limits = st.sampled_from([16384, 16384, 40, 20])


def assert_lawful(url: str | bytes, profile: str, limit: int = 16384) -> CanonicalURL:
    found = canonicalize_url(url, profile, max_bytes=limit)
    assert found.status in STATUSES
    found.encode()
    again = canonicalize_url(found, profile, max_bytes=limit)
    assert (again.key, again.status) == (found.key, found.status), url
    if found.status == "ok":
        assert found.isascii()
        assert found.startswith(("http://", "https://"))
        assert len(found) <= limit
        assert again.rules == (), url
        assert "#" not in found
    return found


@settings(max_examples=1000, deadline=None)
@given(anything, profiles, limits)
def test_total_and_idempotent(url: str | bytes, profile: str, limit: int) -> None:
    assert_lawful(url, profile, limit)


@settings(max_examples=500, deadline=None)
@given(texts)
def test_a_looser_profile_only_merges_more(url: str) -> None:
    strict, default, aggressive = (canonicalize_url(url, profile) for profile in PROFILES)
    if strict.status == "ok":
        assert canonicalize_url(strict, "default") == default
        assert canonicalize_url(default, "aggressive") == aggressive


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["e", "com", "0x", "1", "xn", "-", "--", ".", "A", "_", ":80", "@"]), min_size=1, max_size=6
    ),
    st.lists(
        st.sampled_from(["/", "//", ".", "..", "a", "Z0", "~", ";", "(", "%41", ":", "=", "?", "#", "é"]), max_size=6
    ),
)
def test_what_passes_as_plain_is_left_alone_by_parser_and_rules(host: list[str], path: list[str]) -> None:
    url = f"http://{''.join(host)}.com/{''.join(path)}"
    if _PLAIN.fullmatch(url):
        parsed = parse_http(url)
        assert parsed is not None
        assert parsed[0] == url
        assert apply_rules(*parsed, active_rules(AGGRESSIVE)) == []


@settings(deadline=None)
@given(st.binary())
def test_bytes_and_their_surrogateescape_text_have_one_key(tail: bytes) -> None:
    url = b"http://e.com/" + tail
    assert canonicalize_url(url) == canonicalize_url(url.decode("utf-8", "surrogateescape"))


@settings(deadline=None)
@given(st.text())
def test_text_and_its_utf8_have_one_key(url: str) -> None:
    assert canonicalize_url(url) == canonicalize_url(url.encode())


@settings(deadline=None)
@given(pairs)
def test_pairs_are_kept_in_order_by_name(query: str) -> None:
    """Against a model: what is left is a stable sort by name of the pairs that are neither empty nor tracking."""
    found = canonicalize_url(f"http://e.com/?{query}")
    normal = [p.replace("%61", "a").replace("%20", "+").replace("%zz", "%25zz") for p in query.split("&")]
    left = [p for p in normal if p and p.partition("=")[0].lower() not in ("utm_source", "fbclid")]
    left.sort(key=lambda p: p.partition("=")[0])
    assert found == "http://e.com/" + ("?" + "&".join(left) if left else "")


DIFFERENT = [
    ["http://e.com/a%2Fb", "http://e.com/a/b"],
    ["http://e.com/a%252Fb", "http://e.com/a%2Fb"],
    ["http://e.com/?q=%E9", "http://e.com/?q=%E8", "http://e.com/?q=%C3%A9"],
    ["http://e.com/%E9", "http://e.com/%E8"],
    ["http://e.com/?a", "http://e.com/?a=", "http://e.com/"],
    ["http://e.com/?_gallery=1", "http://e.com/?_gallery=2", "http://e.com/", "http://e.com/?_gateway=1"],
    ["http://e.com/?uid=5", "http://e.com/?uid=6", "http://e.com/"],
    ["http://e.com/?ref=a", "http://e.com/?ref=b", "http://e.com/?source=a", "http://e.com/?keyword=a"],
    ["http://e.com/?a=1&a=2", "http://e.com/?a=2&a=1", "http://e.com/?a=1"],
    ["http://e.com/Path", "http://e.com/path"],
    ["http://e.com/a;v=1", "http://e.com/a;v=2", "http://e.com/a"],
    ["http://e.com/a", "http://e.com/a/"],
    ["http://e.com/", "https://e.com/", "http://www.e.com/", "http://e.com:8080/", "http://m.e.com/"],
    ["http://e.com/index.html", "http://e.com/"],
    ["http://e.com/a%26b%2Bc", "http://e.com/a&b+c"],
    ["http://e.com/?a=b%26c=d", "http://e.com/?a=b&c=d"],
    ["http://e.com/?q=a%2Bb", "http://e.com/?q=a+b"],
    ["http://e.com/a+b", "http://e.com/a%20b"],
    ["http://e.com/a%23b", "http://e.com/a#b"],
    ["http://e.com/a%3Fb", "http://e.com/a?b"],
    ["http://e.com/%EF%BD%9E", "http://e.com/~"],
    ["http://e.com/%C3%A9", "http://e.com/e%CC%81"],
    ["https://www3288.com/", "https://www57912.com/"],
    ["http://e.com/web/http://x/a//b", "http://e.com/web/http://x/a/b", "http://e.com/web/http:/x/a/b"],
    ["http://e.com/?utm_zone=33", "http://e.com/?utm_zone=34", "http://e.com/"],
    ["http://e.com/?sid=1", "http://e.com/?sid=2", "http://e.com/"],
    ["http://fass.example/", "http://faß.example/"],
    ["http://e.com/?a=1&amp;b=2", "http://e.com/?a=1&b=2"],
    ["http://e.com/\\a%5Cb", "http://e.com/a/b"],
    ["http://e.com/?a=A", "http://e.com/?a=a", "http://e.com/?A=a"],
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("urls", DIFFERENT, ids=lambda urls: urls[0])
def test_never_merges_what_differs(urls: list[str], profile: str) -> None:
    keys = [canonicalize_url(url, profile) for url in urls]
    assert all(key.status == "ok" for key in keys)
    assert len(set(keys)) == len(urls)


def test_variants_of_one_page_have_one_key() -> None:
    variants = [
        scheme_host + path + query + fragment
        for scheme_host, path, query, fragment in itertools.product(
            ["https://e.com", "HTTPS://E.com:443", "https://user:word@e.com.", "https://e.com:"],
            ["/~a/B%C3%A9", "//%7Ea/./B%c3%a9", "/x/../~a//Bé", "\\%7ea/x/%2e%2E/B%c3%A9"],
            ["?b=x+y&c=1&c=0", "?c=1&utm_source=s&b=x%20y&c=0", "?&c=1&&c=0&b=x y&fbclid=1"],
            ["", "#", "#top"],
        )
    ]
    assert {canonicalize_url(url).key for url in variants} == {"https://e.com/~a/B%C3%A9?b=x+y&c=1&c=0"}


def test_real_pages_and_their_variants_have_one_key(shared_data: Path) -> None:
    column = pq.read_table(shared_data / "urls" / "reddit_top_2013_link_posts.parquet")["url"]
    for url in column[::400].to_pylist():
        key = canonicalize_url(url)
        if key.status != "ok":
            continue
        scheme, _, rest = key.partition("://")
        host, slash, tail = rest.partition("/")
        path, mark, query = tail.partition("?")
        pairs_reversed = "&".join(reversed(["utm_medium=m", *query.split("&"), "gclid=g"]))
        once_each = len({p.partition("=")[0] for p in query.split("&")}) == len(query.split("&"))
        for variant in (
            f"{scheme.upper()}://{host.upper()}/{tail}#part",
            f"{scheme}://{host}{':443' if scheme == 'https' else ':80'}/{tail}" if ":" not in host else key,
            f"{scheme}://{host}/x/../{tail}",
            f"{scheme}://{host}/./{tail}{'&' if mark else '?'}utm_source=s",
            f"{scheme}://{host}/{path}?{pairs_reversed}" if once_each else key,
        ):
            assert canonicalize_url(variant) == key, variant


def real_urls(folder: Path) -> set[str]:
    """Every URL of the data, hard ones, probes and standard rows included."""
    urls = set(pq.read_table(folder / "reddit_top_2013_link_posts.parquet")["url"][::8].to_pylist())
    with gzip.open(folder / "urls_hard_real.jsonl.gz", "rt", encoding="utf-8") as file:
        urls.update(json.loads(line)["url"] for line in file)
    with gzip.open(folder / "urls_kasztp_mit.txt.gz", "rt", encoding="utf-8", errors="surrogateescape") as file:
        urls.update(line.rstrip("\n") for line in file)
    for name in ("whatwg_url_cases.jsonl", "library_behaviour_matrix.jsonl"):
        with (folder / name).open(encoding="utf-8") as file:
            urls.update(json.loads(line)["input"] for line in file)
    return urls


@pytest.mark.parametrize("profile", PROFILES)
def test_real_and_hard_urls_are_lawful(shared_data: Path, profile: str) -> None:
    for url in real_urls(shared_data / "urls"):
        assert_lawful(url, profile)


@pytest.mark.nightly
@pytest.mark.parametrize("profile", PROFILES)
def test_every_real_url_is_lawful(shared_data: Path, profile: str) -> None:
    column = pq.read_table(shared_data / "urls" / "reddit_top_2013_link_posts.parquet")["url"]
    for url in column.to_pylist():
        assert_lawful(url, profile)


def test_the_key_is_a_string_and_carries_how_it_came_about() -> None:
    found = canonicalize_url("HTTP://E.com/#x")
    assert (found, hash(found)) == ("http://e.com/", hash("http://e.com/"))
    assert isinstance(found, str)
    assert type(found.key) is str
    assert found.status == "ok"
    assert found.rules == ("scheme_case", "host_case", "fragment")
    for twin in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert (twin, twin.status, twin.rules) == (found, found.status, found.rules)


@pytest.mark.parametrize("name", ["", "Default", "none"])
def test_an_unknown_profile_names_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match="strict, default, aggressive"):
        canonicalize_url("http://e.com/", name)


def test_hostile_lengths_are_answered_quickly() -> None:
    for url in (
        "http://e.com/" + "a" * 1_000_000,
        "http://e.com/?" + "&".join(f"p{i}=1" for i in range(20_000)),
        b"http://e.com/" + b"%" * 1_000_000,
    ):
        started = time.perf_counter()
        assert canonicalize_url(url).status == "too_long"
        assert time.perf_counter() - started < 0.05
    for filling in ("/", "&", "%", ";jsessionid=", "a:", "http:", "/(S(", "?a=&", "=", "."):
        url = "http://e.com/" + filling * (16000 // len(filling))
        started = time.perf_counter()
        assert_lawful(url, "aggressive")
        assert time.perf_counter() - started < 1.0


def test_the_tracking_list_is_whole_names_in_lower_case_with_a_source_each() -> None:
    names = [name for service in SERVICES for name in service.parameters]
    assert len(names) == len(set(names)) == len(TRACKING_PARAMETERS)
    assert all(name == name.lower() and name.isascii() and "=" not in name for name in names)
    assert all(service.source for service in SERVICES)
    assert not TRACKING_PARAMETERS & {"ref", "source", "keyword", "campaign", "uid", "id", "sid", "utm_zone", "utm_x"}
    assert TRACKING_VERSION in CANONICAL_VERSION


def test_the_single_form_loads_neither_numba_nor_pyarrow() -> None:
    code = "import sys; from dedup_pipeline.urls import canonicalize_url as f; f('http://e.com'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "pyarrow", "pandas", "pyspark", "redis", "scrapy"} & set(loaded)
