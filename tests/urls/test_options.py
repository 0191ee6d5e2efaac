"""Options: laws that hold under every combination of them, hosts with options of their own, links on a base."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from url_strategies import anything, option_urls, options

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls import PROFILES, STATUSES, CanonicalURL, UrlOptions, canonicalize_url, canonicalize_urls
from dedup_pipeline.urls.bulk import NULL_STATUS
from dedup_pipeline.urls.canonical import rule_set, usable_base
from dedup_pipeline.urls.clearurls import load_clearurls
from dedup_pipeline.urls.options import HOST_SWITCHES, NO_OPTIONS, SUFFIX_SWITCHES, UrlSwitches, host_name
from dedup_pipeline.urls.parsing import repair
from dedup_pipeline.urls.rules import RULES

profiles = st.sampled_from(PROFILES)
urls = st.one_of(option_urls, anything)
hosts = st.dictionaries(
    st.sampled_from(["e.com", "www.example.com", "example.com", "x.example", "com", "1.2.3.4", "[::1]"]),
    options,
    max_size=2,
)
bases = st.one_of(st.none(), st.sampled_from(["http://e.com/a/b?c#d", "HTTPS://User@E.com", "ftp://x/", "", "a"]))
WITH_CLEARURLS = st.sampled_from(
    [None, *(load_clearurls(Path(__file__).parent / "clearurls.json", redirections=on) for on in (False, True))]
)


def assert_lawful(url: str | bytes, profile: str, limit: int, **asked: Any) -> CanonicalURL:
    found = canonicalize_url(url, profile, max_bytes=limit, **asked)
    again = canonicalize_url(found, profile, max_bytes=limit, **asked)
    assert found.status in STATUSES
    assert (again.key, again.status) == (found.key, found.status)
    if found.status == "ok":
        assert found.isascii() and found.startswith(("http://", "https://")) and len(found) <= limit
        assert again.rules == ()
    return found


@settings(max_examples=1500, deadline=None)
@given(urls, profiles, options, WITH_CLEARURLS, bases, st.sampled_from([16384, 16384, 40]))
def test_total_and_idempotent_under_any_options(
    url: str | bytes, profile: str, chosen: UrlOptions, clearurls: Any, base: str | None, limit: int
) -> None:
    assert_lawful(url, profile, limit, options=replace(chosen, clearurls=clearurls), base=base)


@settings(max_examples=300, deadline=None)
@given(urls, profiles, options, hosts)
def test_total_and_idempotent_with_hosts(
    url: str | bytes, profile: str, chosen: UrlOptions, by_host: dict[str, UrlOptions]
) -> None:
    assert_lawful(url, profile, 16384, options=chosen, hosts=by_host)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.none(), urls.map(repair)), max_size=8), profiles, options, WITH_CLEARURLS, hosts, bases)
def test_the_bulk_form_equals_the_single_form_under_options(
    column: list[str | None],
    profile: str,
    chosen: UrlOptions,
    clearurls: Any,
    by_host: dict[str, UrlOptions],
    base: str | None,
) -> None:
    asked: dict[str, Any] = {"options": replace(chosen, clearurls=clearurls), "hosts": by_host, "base": base}
    keys, codes = canonicalize_urls(pa.array(column, pa.string()), profile, **asked)
    singles = [None if url is None else canonicalize_url(url, profile, **asked) for url in column]
    assert codes.tolist() == [NULL_STATUS if one is None else STATUSES.index(one.status) for one in singles]
    assert keys.to_pylist() == [one.key if one is not None and one.status == "ok" else None for one in singles]


@pytest.mark.parametrize("switch", [entry.name for entry in fields(UrlSwitches) if entry.type == "bool"])
def test_the_bulk_form_equals_the_single_form_on_the_golden_table(switch: str) -> None:
    rows = map(json.loads, (Path(__file__).parent / "golden.jsonl").read_text(encoding="ascii").splitlines())
    column = pa.array([repair(row["input"]) for row in rows])
    chosen = UrlOptions(**{switch: True})  # type: ignore[arg-type]
    for profile in PROFILES:
        keys, codes = canonicalize_urls(column, profile, options=chosen)
        for url, key, code in zip(column.to_pylist(), keys.to_pylist(), codes.tolist(), strict=True):
            one = canonicalize_url(url, profile, options=chosen)
            assert (one.status, one.key if code == 0 else None) == (STATUSES[code], key)


def test_every_switch_is_off_by_default_and_has_a_rule_or_a_meaning_of_its_own() -> None:
    assert all(not getattr(NO_OPTIONS, entry.name) for entry in fields(UrlOptions))
    without_rule = {"default_scheme", "keep_fragment_routes", "keep_userinfo", "keep_parameters"}
    assert {entry.name for entry in fields(UrlOptions)} - without_rule <= {rule.name for rule in RULES}
    assert set(SUFFIX_SWITCHES) <= {entry.name for entry in fields(UrlSwitches)}
    for profile in PROFILES:
        assert rule_set(profile, UrlOptions()) == rule_set(profile)
        assert rule_set(profile).single_pass


OVERRIDES = {
    "example.com": UrlOptions(drop_www=True, strip_parameters=("ref",)),
    "news.example.com": UrlOptions(drop_trailing_slash=True),
    "Bücher.example.": UrlOptions(keep_fragment_routes=True),
    "10.2.3.4": UrlOptions(lower_path=True),
}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www.example.com/a/?ref=1", "http://example.com/a/"),
        ("http://shop.example.com/a/?ref=1", "http://shop.example.com/a/"),
        ("http://news.example.com/a/?ref=1", "http://news.example.com/a?ref=1"),
        ("http://a.news.example.com./a/", "http://a.news.example.com/a"),
        ("http://badexample.com/a/?ref=1", "http://badexample.com/a/?ref=1"),
        ("http://www.example.org/a/?ref=1", "http://www.example.org/a/?ref=1"),
        ("http://xn--bcher-kva.example/#!a", "http://xn--bcher-kva.example/#!a"),
        ("http://10.2.3.4/A", "http://10.2.3.4/a"),
        ("http://1.10.2.3.4/A", "http://1.10.2.3.4/A"),
    ],
)
def test_options_of_a_host_count_there_and_below_and_the_longest_name_wins(url: str, key: str) -> None:
    assert canonicalize_url(url, hosts=OVERRIDES).key == key
    keys, codes = canonicalize_urls(pa.array([url]), hosts=OVERRIDES)
    assert keys.to_pylist() == [key if codes[0] == 0 else None]


def test_options_of_a_host_stand_in_place_of_the_general_ones() -> None:
    asked: dict[str, Any] = {"options": UrlOptions(drop_index=True), "hosts": {"e.com": UrlOptions(drop_www=True)}}
    assert canonicalize_url("http://www.e.com/index.html", **asked) == "http://e.com/index.html"
    assert canonicalize_url("http://x.com/index.html", **asked) == "http://x.com/"


@pytest.mark.parametrize(
    "name", ["", "e.com/a", "e.com:81", "a b", "http://e.com", "u@e.com", "e.com?", "1.2.3.999", "["]
)
def test_what_is_no_host_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match="is no host"):
        canonicalize_url("http://e.com/", hosts={name: NO_OPTIONS})


def test_a_host_named_twice_is_refused() -> None:
    assert host_name("E.com.") == host_name("e.com")
    with pytest.raises(ConfigError, match=r"e\.com is named twice"):
        canonicalize_url("http://e.com/", hosts={"e.com": NO_OPTIONS, "E.com.": NO_OPTIONS})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"default_scheme": "ftp"}, "give http or https"),
        ({"strip_parameters": ["a=1"]}, "'a=1' is no name of a parameter"),
        ({"keep_parameters": [""]}, "'' is no name"),
        ({"only_parameters": "id"}, "give a list of names"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        UrlOptions(**given)


def test_options_are_hashable_and_survive_a_pickle() -> None:
    chosen = UrlOptions(drop_www=True, strip_parameters=["b", "a"])  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert hash(chosen) == hash(UrlOptions(drop_www=True, strip_parameters=("b", "a")))
    assert "clearurls" not in HOST_SWITCHES and "default_scheme" not in HOST_SWITCHES


def test_each_row_of_a_column_has_its_own_base() -> None:
    links = pa.array(["b", "/c", None, "d", "http://x.com/", "e"])
    pages = pa.array(["http://e.com/a/", "http://f.com/a/", "http://e.com/", None, "http://e.com/", "mailto:x"])
    keys, codes = canonicalize_urls(links, base=pages)
    assert keys.to_pylist() == ["http://e.com/a/b", "http://f.com/c", None, None, "http://x.com/", None]
    assert [None if code == NULL_STATUS else STATUSES[code] for code in codes] == [
        "ok",
        "ok",
        None,
        "relative",
        "ok",
        "relative",
    ]
    assert canonicalize_urls(links[1:], base=pages[1:])[0].equals(keys[1:])
    with pytest.raises(ConfigError, match="6 URLs but 1 bases"):
        canonicalize_urls(links, base=pages[:1])


def rows(shared_data: Path) -> list[dict[str, Any]]:
    """The rows with a base that can be one: the standard refuses the others whatever the link is."""
    with (shared_data / "urls" / "whatwg_url_cases.jsonl").open(encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if usable_base(row["base"]) is not None]


def test_links_resolve_as_the_standard_says(shared_data: Path) -> None:
    tested = 0
    for row in rows(shared_data):
        found = canonicalize_url(row["input"], "strict", base=row["base"], options=UrlOptions(keep_userinfo=True))
        if row.get("failure"):
            assert found.status in ("invalid", "not_crawlable")
        elif row["href"].startswith(("http:", "https:")):
            assert found.key == row["href"].partition("#")[0]
        else:
            assert found.status == "not_crawlable"
        tested += 1
    assert tested > 100


@lru_cache
def _everything() -> UrlOptions:
    names = [entry.name for entry in fields(UrlSwitches) if entry.type == "bool"]
    return UrlOptions(**dict.fromkeys(names, True), default_scheme="https")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "filling",
    ["/", "&", "%25", "%", ";", "&amp;", "http://a/", "?u=http://a/", "%CC%81", "/amp", "/index.html/", "a=&", "www."],
)
def test_hostile_lengths_are_answered_quickly_with_all_options(filling: str) -> None:
    url = "http://e.com/" + filling * (16000 // len(filling))
    started = time.perf_counter()
    assert_lawful(url, "aggressive", 16384, options=_everything())
    assert time.perf_counter() - started < 2.0
