"""Canonical URLs per second, one thread: the bulk and the single form beside two libraries, in one run.

    python -m benchmarks.urls URLS.parquet [--single 100000] [--rounds 3]
    python -m benchmarks.urls URLS.parquet --merges merges.tsv [--option drop_www]

URLS.parquet has a column ``url``. All take their turn in every round, and the least CPU time of a process
counts. Peers need ``can_ada`` and ``w3lib``. At the end: how many distinct URLs each rule helped to merge.
With ``--merges`` nothing is measured: every URL that is merged into an earlier one is written to a table, with
that one, their key, and the rules that the two do not share.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_pipeline.urls import PROFILES, UrlOptions, canonicalize_url, canonicalize_urls


def each_with_can_ada(urls: list[str]) -> None:
    """Parse only, no canonical form; what it refuses is passed over."""
    import can_ada

    parse = can_ada.parse
    for url in urls:
        try:
            parse(url)
        except ValueError:
            continue


def each_with_w3lib(urls: list[str]) -> None:
    """Its canonical form; what it refuses is passed over."""
    from w3lib.url import canonicalize_url as canonicalize

    for url in urls:
        try:
            canonicalize(url)
        except ValueError:
            continue


def each_single(urls: list[str]) -> None:
    for url in urls:
        canonicalize_url(url)


def bulk(array: pa.Array, profile: str) -> Callable[[], None]:
    def call() -> None:
        canonicalize_urls(array, profile)

    return call


def speeds(array: pa.Array, single: int, rounds: int) -> dict[str, float]:
    """Microseconds of CPU per URL, the least of the rounds."""
    urls = array.to_pylist()
    few = urls[:single]
    contestants: dict[str, tuple[int, Callable[[], None]]] = {
        **{f"bulk, {profile}": (len(urls), bulk(array, profile)) for profile in PROFILES},
        "single, default": (len(few), lambda: each_single(few)),
        "can_ada.parse": (len(urls), lambda: each_with_can_ada(urls)),
        "w3lib.canonicalize_url": (len(few), lambda: each_with_w3lib(few)),
    }
    canonicalize_urls(array[:1])
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, (count, call) in contestants.items():
            started = time.process_time()
            call()
            best[name] = min(best[name], (time.process_time() - started) / count * 1e6)
    return best


class Merge(NamedTuple):
    """A distinct URL that falls to an earlier one. ``rules``: those that changed one of the two only, or both alike."""

    rules: str
    url: str
    first: str
    key: str


def merges(array: pa.Array, profile: str = "default", options: UrlOptions | None = None) -> Iterator[Merge]:
    """Every distinct URL merged into another, in the order of the column.

    Two URLs that fell to one and the same rules (two fragments of one page) stand under those.
    """
    firsts: dict[str, tuple[str, frozenset[str]]] = {}
    for url in array.unique().to_pylist():
        found = canonicalize_url(url, profile, options=options)
        if found.status != "ok":
            continue
        rules = frozenset(found.rules)
        first, its_rules = firsts.setdefault(found.key, (url, rules))
        if first != url:
            yield Merge(" + ".join(sorted(rules ^ its_rules or rules)), url, first, found.key)


def write_merges(array: pa.Array, path: Path | None, profile: str, options: UrlOptions | None) -> None:
    """Print how many merges there are by rule, and write each one of them to ``path``."""
    found = list(merges(array, profile, options))
    counts = Counter(merge.rules for merge in found)
    print(f"\n{len(found):,} distinct URLs merged into another by the profile {profile}, by rule:")
    for rules, count in counts.most_common():
        print(f"{count:8,}  {rules}")
    routes = sum(any(mark in url for url in (merge.url, merge.first) for mark in ("#!", "#/")) for merge in found)
    print(f"{routes:8,}  of them with a fragment that may be a route (#! or #/): see keep_fragment_routes")
    if path is not None:
        lines = ["\t".join(Merge._fields), *("\t".join(map(ascii, merge)) for merge in sorted(found))]
        path.write_text("\n".join(lines) + "\n", encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", type=Path)
    parser.add_argument("--single", type=int, default=100_000, help="URLs for the slow contestants")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--merges", type=Path, help="table to write, tab-separated")
    parser.add_argument("--profile", choices=PROFILES, default="default", help="of the merges")
    parser.add_argument("--option", action="append", default=[], help="a switch of UrlOptions, for the merges")
    chosen = parser.parse_args()
    array = pq.read_table(chosen.urls, columns=["url"])["url"].combine_chunks()
    if chosen.merges is None:
        print_speeds(speeds(array, chosen.single, chosen.rounds))
    switches: dict[str, Any] = dict.fromkeys(chosen.option, True)
    write_merges(array, chosen.merges, chosen.profile, UrlOptions(**switches))


def print_speeds(best: dict[str, float]) -> None:
    print(f"{'':26}{'µs/URL':>10}{'URLs/s':>14}{'x w3lib':>10}{'/ can_ada':>11}")
    for name, micros in best.items():
        beside_w3lib = best["w3lib.canonicalize_url"] / micros
        beside_ada = micros / best["can_ada.parse"]
        print(f"{name:26}{micros:10.3f}{1e6 / micros:14,.0f}{beside_w3lib:10.1f}{beside_ada:11.2f}")


if __name__ == "__main__":
    main()
