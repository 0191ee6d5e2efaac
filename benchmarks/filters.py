"""Seen-sets of real URLs, one thread: time and memory beside three libraries, and error rates beside the models.

    python -m benchmarks.filters URLS.parquet [--rounds 3] [--rates] [--json FILE]

URLS.parquet has a column ``url``. Peers need ``abloom``, ``rbloom`` and ``pybloom_live``; one that is not installed
is left out by name. Every contestant starts from the Arrow array, hashes and adds the same URLs in bulk, in turn, in
every round, into a filter of error rate 0.001 that holds other URLs already: once into one that stays in the
processor's cache, once into one many times as large. Figures are the least CPU time of a process; a ratio is the
median of the quotients within the rounds.

``--rates`` counts wrong answers at n = 1,000,000: some minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from dedup_pipeline.urls.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter
from dedup_pipeline.urls.seen import ConfirmedBloom, ExactSet

RATE = 0.001
INSIDE, OUTSIDE = 400_000, 200_000_000
"""Capacities: 0.8 MB of filter, and 393 MB."""
RATES = (1e-2, 1e-3, 1e-4, 1e-6)
ITEMS = 1_000_000
TARGETS = {"abloom.update": 4.0, "rbloom.update, xxh3": 20.0, "pybloom_live.add": 100.0}

Contestant = Callable[[pa.Array, int, pa.Array], tuple[Callable[[], Any], Callable[[], int]]]
"""Makes a filter for so many URLs with other URLs in it; returns what adds the URLs, and what tells its bytes."""


def ours(kind: type) -> Contestant:
    """One of our seen-sets."""

    def make(array: pa.Array, capacity: int, others: pa.Array) -> tuple[Callable[[], Any], Callable[[], int]]:
        seen = kind() if kind is ExactSet else kind(capacity, RATE)
        seen.add(others)
        return (lambda: seen.add(array)), (lambda: seen.describe().bytes)

    return make


def with_abloom(array: pa.Array, capacity: int, others: pa.Array) -> tuple[Callable[[], Any], Callable[[], int]]:
    """Its bulk add, with its default hash, which is another in every process."""
    from abloom import BloomFilter as Abloom

    seen = Abloom(capacity, RATE)
    seen.update(others.to_pylist())
    return (lambda: seen.update(array.to_pylist())), (lambda: int(seen.byte_count))


def with_abloom_of_str(array: pa.Array, capacity: int, others: pa.Array) -> tuple[Callable[[], Any], Callable[[], int]]:
    """The same without the way from Arrow to ``str``. The texts are fresh: a ``str`` remembers its hash."""
    from abloom import BloomFilter as Abloom

    seen, urls = Abloom(capacity, RATE), array.to_pylist()
    seen.update(others.to_pylist())
    return (lambda: seen.update(urls)), (lambda: int(seen.byte_count))


def with_rbloom(array: pa.Array, capacity: int, others: pa.Array) -> tuple[Callable[[], Any], Callable[[], int]]:
    """Its bulk add with a hash that is the same in every process."""
    from rbloom import Bloom

    def stable(url: str) -> int:
        return xxhash.xxh3_128_intdigest(url.encode()) - (1 << 127)

    seen = Bloom(capacity, RATE, stable)
    seen.update(others.to_pylist())
    return (lambda: seen.update(array.to_pylist())), (lambda: seen.size_in_bits // 8)


def with_pybloom(array: pa.Array, capacity: int, others: pa.Array) -> tuple[Callable[[], Any], Callable[[], int]]:
    """It has no bulk form; a tenth of the URLs is enough."""
    from pybloom_live import BloomFilter as Pybloom

    seen = Pybloom(capacity, RATE)

    def add(urls: pa.Array = array) -> None:
        for url in urls.to_pylist():
            seen.add(url)

    add(others[: len(array)])
    return add, (lambda: seen.num_bits // 8)


CONTESTANTS: dict[str, Contestant] = {
    "BloomFilter": ours(BloomFilter),
    "ScalableBloomFilter": ours(ScalableBloomFilter),
    "CountingBloomFilter": ours(CountingBloomFilter),
    "ExactSet": ours(ExactSet),
    "ConfirmedBloom": ours(ConfirmedBloom),
    "abloom.update": with_abloom,
    "abloom.update, of str": with_abloom_of_str,
    "rbloom.update, xxh3": with_rbloom,
    "pybloom_live.add": with_pybloom,
}
FEW = {"pybloom_live.add": 10}
"""Contestants that get one URL in so many: they take too long."""


def speeds(array: pa.Array, capacity: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Nanoseconds of CPU per URL in each round, and bytes of the filter, by contestant."""
    told: dict[str, dict[str, Any]] = {}
    # Other URLs first, so that the system has given every page of the filter before the clock runs.
    others = pc.binary_join_element_wise(array, "?another", "")
    for name, make in CONTESTANTS.items():  # once uncounted: kernels load, modules are imported
        try:
            make(array[:100], 1000, others[:100])[0]()
        except ImportError as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
        else:
            told[name] = {"ns": [], "bytes": 0}
    for _ in range(rounds):
        for name, row in told.items():
            part = array[: len(array) // FEW.get(name, 1)]
            add, size = CONTESTANTS[name](part, capacity, others)
            started = time.process_time()
            add()
            row["ns"].append((time.process_time() - started) / len(part) * 1e9)
            row["bytes"] = size()
            del add, size
    return told


def show_speeds(title: str, told: dict[str, dict[str, Any]]) -> None:
    """Print one table; the last column compares with our Bloom filter, round by round."""
    print(f"\n{title}\n{'':<22} {'ns/URL':>9} {'memory':>10} {'/ BloomFilter':>14} {'asked':>7}")
    mine = told["BloomFilter"]["ns"]
    for name, row in told.items():
        ratio = statistics.median(other / own for other, own in zip(row["ns"], mine, strict=True))
        asked = f">= {TARGETS[name]:.0f}" if name in TARGETS else ""
        size = f"{row['bytes'] / 1e6:.1f} MB" if row["bytes"] else "not told"
        print(f"{name:<22} {min(row['ns']):>9.1f} {size:>10} {ratio:>14.1f} {asked:>7}")


def counted(seen: Any, queries: int) -> float:
    """The share of absent keys that are called seen."""
    wrong, asked, chosen = 0, 0, np.random.default_rng(99)
    while asked < queries:
        step = min(4_000_000, queries - asked)
        wrong += int(seen.contains(chosen.integers(0, 2**64, (step, 2), dtype=np.uint64)).sum())
        asked += step
    return wrong / asked


def rates() -> list[dict[str, Any]]:
    """Counted error rates beside those of the models."""
    rows = []
    for rate in RATES:
        queries = max(10_000_000, int(100 / rate))
        for kind, share in [(k, s) for k in (BloomFilter, CountingBloomFilter) for s in (0.5, 1.0)] + [
            (ScalableBloomFilter, s) for s in (0.5, 1.0, 10.0)
        ]:
            seen = kind(ITEMS, rate)
            offered = np.random.default_rng(1).integers(0, 2**64, (int(ITEMS * share), 2), dtype=np.uint64)
            seen.add(offered)
            forgotten = len(offered) - int(seen.contains(offered).sum())
            report = seen.describe()
            found = counted(seen, queries)
            sigma = math.sqrt(report.error_rate * (1 - report.error_rate) / queries)
            rows.append(
                {
                    "kind": report.kind,
                    "asked": rate,
                    "share": share,
                    "model": report.error_rate,
                    "counted": found,
                    "sigmas": (found - report.error_rate) / sigma if sigma else 0.0,
                    "bits_per_item": report.bytes * 8 / (report.capacity or 1),
                    "forgotten": forgotten,
                    "queries": queries,
                }
            )
            print(
                f"{report.kind:<9} p {rate:<7g} at {share:>4g} x: counted {found:.4g}, model {report.error_rate:.4g} "
                f"({rows[-1]['sigmas']:+.1f} sigma), {rows[-1]['bits_per_item']:.2f} bits an item, "
                f"{forgotten} forgotten",
                flush=True,
            )
    return rows


def stream(array: pa.Array) -> list[dict[str, Any]]:
    """The URLs in their order: repeats found, new ones lost, and how many were expected to be."""
    first = np.zeros(len(array), dtype=np.bool_)
    indices = pc.dictionary_encode(array).indices.to_numpy()
    first[np.unique(indices, return_index=True)[1]] = True
    rows = []
    for seen in (
        ExactSet(),
        ConfirmedBloom(len(array)),
        *(BloomFilter(len(array), rate) for rate in RATES),
        ScalableBloomFilter(10_000, 1e-3),
    ):
        new, report = seen.add(array), seen.describe()
        row = {
            "kind": report.kind,
            "asked": report.final_error_rate,
            "repeats_found": int((~first & ~new).sum()),
            "repeats": int((~first).sum()),
            "lost": int((first & ~new).sum()),
            "expected_lost": report.expected_lost,
        }
        rows.append(row)
        print(
            f"{row['kind']:<9} p {row['asked']:<9.2g} found {row['repeats_found']:,} of {row['repeats']:,} repeats, "
            f"lost {row['lost']:,} new URLs, expected {row['expected_lost']:.1f}"
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("urls", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="take so many URLs only")
    parser.add_argument("--rates", action="store_true", help="count wrong answers as well")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    array = pq.read_table(options.urls, columns=["url"]).column("url").combine_chunks()[: options.limit]
    told: dict[str, Any] = {}
    few = array[: INSIDE // 2]
    told["inside"] = speeds(few, INSIDE, options.rounds)
    show_speeds(f"{len(few):,} URLs into filters for {INSIDE:,}", told["inside"])
    told["outside"] = speeds(array, OUTSIDE, options.rounds)
    show_speeds(f"{len(array):,} URLs into filters for {OUTSIDE:,}", told["outside"])
    print(f"\n{len(array):,} URLs in their order")
    told["stream"] = stream(array)
    if options.rates:
        print(f"\nError rates, {ITEMS:,} keys")
        told["rates"] = rates()
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
