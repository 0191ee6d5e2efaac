"""Variants of real pages, made at random from a fixed seed, have one key each."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_pipeline.urls import canonicalize_urls
from dedup_pipeline.urls.tracking import TRACKING_PARAMETERS

PAGES, VARIANTS = 10_000, 10
_KEY = re.compile(r"(https?)://([^/]*)(/[^?]*)(?:\?(.*))?")
_NAMES = sorted(TRACKING_PARAMETERS)


def mixed_case(text: str, rng: random.Random) -> str:
    return "".join(rng.choice((c.upper(), c.lower())) for c in text)


def with_port(scheme: str, host: str, rng: random.Random) -> str:
    if re.search(r":[0-9]*$", host):
        return host
    port = "80" if scheme == "http" else "443"
    return host + rng.choice(("", ".", ":", f":{port}", f":0{port}", f".:{port}"))


def with_detours(path: str, rng: random.Random) -> str:
    return rng.choice(("", "/.", "/x/..", "/a/b/../..", "/%2e", "/x/%2E.", "/")) + path


def other_escapes(text: str, rng: random.Random) -> str:
    """Escapes in mixed case, and a letter or digit escaped here and there."""
    return re.sub(
        r"%[0-9A-F]{2}|[A-Za-z0-9\-_~]",
        lambda m: mixed_case(m[0], rng) if len(m[0]) == 3 else f"%{ord(m[0]):02x}" if rng.random() < 0.05 else m[0],
        text,
    )


def other_query(query: str | None, rng: random.Random) -> str:
    """Pairs in another order (those of one name stay in theirs), with tracking parameters and nothing among them."""
    pairs = query.split("&") if query else []
    order = list(dict.fromkeys(pair.partition("=")[0] for pair in pairs))
    rng.shuffle(order)
    pairs = [pair for name in order for pair in pairs if pair.partition("=")[0] == name]
    if rng.random() < 0.3:
        pairs = [other_escapes(pair, rng) for pair in pairs]
    for _ in range(rng.randrange(3)):
        name = mixed_case(rng.choice(_NAMES), rng)
        pairs.insert(rng.randrange(len(pairs) + 1), rng.choice((f"{name}=x%20y", name, "")))
    # A sole empty pair is an empty query, and goes as well.
    return "?" + "&".join(pairs) if pairs or rng.random() < 0.2 else ""


def variant(key: str, rng: random.Random) -> str:
    """Another spelling of the page whose key is ``key``."""
    match = _KEY.fullmatch(key)
    assert match is not None
    scheme, host, path, query = match.groups()
    change: Callable[[float], bool] = lambda share: rng.random() < share  # noqa: E731
    return "".join(
        [
            rng.choice(("", " ", "\t")),
            mixed_case(scheme, rng) if change(0.5) else scheme,
            "://",
            "user:word@" if change(0.1) else "",
            with_port(scheme, mixed_case(host, rng) if change(0.5) else host, rng),
            with_detours(other_escapes(path, rng), rng) if change(0.7) else path,
            other_query(query, rng),
            rng.choice(("", "", "#", "#top", "#a?b/c")),
        ]
    )


def real_keys(shared_data: Path) -> list[str]:
    column = pq.read_table(shared_data / "urls" / "reddit_top_2013_link_posts.parquet")["url"].combine_chunks()
    with_query = column.filter(pa.compute.match_substring(column, "?"))
    keys: dict[str, None] = {}
    for array in (with_query[::13], column[::101], column[::7]):
        keys.update(dict.fromkeys(canonicalize_urls(array)[0].drop_null().to_pylist()))
    return list(keys)[:PAGES]


@pytest.mark.parametrize("profile", ["default", "aggressive"])
def test_variants_of_ten_thousand_real_pages_have_one_key_each(shared_data: Path, profile: str) -> None:
    keys, codes = canonicalize_urls(pa.array(real_keys(shared_data)), profile)
    assert len(keys) == PAGES and not codes.any()
    rng = random.Random(20131)
    expected = [key for key in keys.to_pylist() for _ in range(VARIANTS)]
    variants = [variant(key, rng) for key in expected]
    assert len(set(variants)) > 0.9 * len(variants)
    found, codes = canonicalize_urls(pa.array(variants), profile)
    assert not codes.any()
    wrong = [(v, f, e) for v, f, e in zip(variants, found.to_pylist(), expected, strict=True) if f != e]
    assert wrong == []
