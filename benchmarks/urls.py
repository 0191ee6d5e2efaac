"""Canonical URLs per second, one thread: the bulk and the single form beside two libraries, in one run.

    python -m benchmarks.urls URLS.parquet [--single 100000] [--rounds 3]

URLS.parquet has a column ``url``. All take their turn in every round, and the least CPU time of a process
counts. Peers need ``can_ada`` and ``w3lib``. At the end: how many distinct URLs each rule helped to merge.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_pipeline.urls import PROFILES, canonicalize_url, canonicalize_urls


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


def merges(array: pa.Array) -> Counter[str]:
    """Distinct URLs merged into another, counted under the rules that not all URLs of the key share.

    Two URLs that fell to one and the same rules (two fragments of one page) count under those.
    """
    groups: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for url in array.unique().to_pylist():
        found = canonicalize_url(url)
        if found.status == "ok":
            groups[found.key].append(frozenset(found.rules))
    counts: Counter[str] = Counter()
    for rules in groups.values():
        if len(rules) > 1:
            differing = frozenset.union(*rules) - frozenset.intersection(*rules)
            counts[" + ".join(sorted(differing or rules[0]))] += len(rules) - 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", type=Path)
    parser.add_argument("--single", type=int, default=100_000, help="URLs for the slow contestants")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    array = pq.read_table(chosen.urls, columns=["url"])["url"].combine_chunks()
    best = speeds(array, chosen.single, chosen.rounds)
    print(f"{'':26}{'µs/URL':>10}{'URLs/s':>14}{'x w3lib':>10}{'/ can_ada':>11}")
    for name, micros in best.items():
        beside_w3lib = best["w3lib.canonicalize_url"] / micros
        beside_ada = micros / best["can_ada.parse"]
        print(f"{name:26}{micros:10.3f}{1e6 / micros:14,.0f}{beside_w3lib:10.1f}{beside_ada:11.2f}")
    counts = merges(array)
    print(f"\n{sum(counts.values()):,} distinct URLs merged into another by the default profile, by rule:")
    for rules, count in counts.most_common():
        print(f"{count:8,}  {rules}")


if __name__ == "__main__":
    main()
