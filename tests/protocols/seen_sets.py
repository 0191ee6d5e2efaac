"""Every seen-set that the protocol tests run over, fresh and saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dedup_pipeline.store.key_runs import SortedRuns
from dedup_pipeline.store.seen_files import load_seen, save_seen
from dedup_pipeline.urls.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter, SeenFilter
from dedup_pipeline.urls.seen import ConfirmedBloom, ExactSet, RoutedSeenSet

SECRET = bytes(range(16))


@dataclass(frozen=True)
class Case:
    """One kind of seen-set.

    ``lossy`` filters may call something new seen; here they are so large that they practically never do.
    """

    name: str
    make: Callable[[Path], Any]
    lossy: bool = False
    secret: bytes | None = None


CASES = [
    Case("exact", lambda _: ExactSet()),
    Case("exact with a secret", lambda _: ExactSet(SECRET), secret=SECRET),
    Case("exact that spills", lambda folder: ExactSet(memory_limit=1, runs=SortedRuns(folder / "runs"))),
    Case("confirmed", lambda _: ConfirmedBloom(50, 0.2)),
    Case("confirmed that spills", lambda f: ConfirmedBloom(50, 0.2, runs=SortedRuns(f / "confirmed"), memory_limit=1)),
    Case("bloom", lambda _: BloomFilter(20_000, 1e-3 / 20_000), lossy=True),
    Case("bloom, two bits a word", lambda _: BloomFilter(2_000_000, 1e-4), lossy=True),
    Case("bloom, one bit a word", lambda _: BloomFilter(2_000_000, 1e-2), lossy=True),
    Case("bloom with a secret", lambda _: BloomFilter(20_000, 1e-7, SECRET), lossy=True, secret=SECRET),
    Case("scalable", lambda _: ScalableBloomFilter(10, 1e-7), lossy=True),
    Case("counting", lambda _: CountingBloomFilter(20_000, 1e-7), lossy=True),
    Case("routed", lambda _: RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(20_000, 1e-7)), lossy=True),
    Case("polynomial", lambda _: SeenFilter(4_000_003, 4), lossy=True),
    Case("blake2b_double", lambda _: SeenFilter(1 << 22, 8, "blake2b_double"), lossy=True),
    Case("murmur3_seeds", lambda _: SeenFilter(1 << 22, 8, "murmur3_seeds"), lossy=True),
]


def reopened(seen: Any, folder: Path, secret: bytes | None) -> Any:
    """Return the seen-set as its saved file gives it back."""
    path = folder / f"{id(seen)}.seen"
    save_seen(seen, path)
    return load_seen(path, secret=secret)
