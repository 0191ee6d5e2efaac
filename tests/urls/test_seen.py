"""Seen-sets that lose nothing: spilling, confirming, routing, and which one is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dedup_pipeline.errors import ConfigError, FilterFull
from dedup_pipeline.store.key_runs import SortedRuns
from dedup_pipeline.urls.bloom import BloomFilter, ScalableBloomFilter
from dedup_pipeline.urls.keys import keys_of
from dedup_pipeline.urls.seen import (
    KINDS,
    ConfirmedBloom,
    ExactSet,
    MemoryRuns,
    RoutedSeenSet,
    choose_seen,
    exact_bytes,
    restore,
)


def keys(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return random keys, ready made."""
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


class CountingRuns(MemoryRuns):
    """Runs that count what they are asked."""

    asked = 0

    def look_up(self, keys: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
        """Count, then look."""
        self.asked += int((~found).sum())
        super().look_up(keys, found)


def test_an_exact_set_spills_and_still_knows_everything(tmp_path: Path) -> None:
    seen = ExactSet(memory_limit=200_000, runs=SortedRuns(tmp_path))
    offered = keys(50_000, 1)
    assert seen.add(offered).all()
    assert seen.describe().bytes <= 200_000
    assert list(tmp_path.iterdir())
    assert seen.contains(offered).all()
    assert not seen.add(offered).any()
    assert not seen.contains(keys(1000, 2)).any()
    assert len(seen) == 50_000


def test_duplicates_across_a_spill_within_one_batch_are_found(tmp_path: Path) -> None:
    seen = ExactSet(memory_limit=1, runs=SortedRuns(tmp_path))  # spills whenever 716 keys are in
    offered = np.concatenate([keys(5000, 1)] * 3)
    new = seen.add(offered)
    assert new[:5000].all()
    assert not new[5000:].any()


def test_a_memory_limit_needs_somewhere_to_go() -> None:
    with pytest.raises(ConfigError, match="SortedRuns"):
        ExactSet(memory_limit=1000)


def test_spilling_nothing_makes_no_run() -> None:
    seen = ExactSet()
    seen.spill()
    assert seen.to_arrays() == {}
    seen.add("http://example.com/")
    seen.spill()
    seen.spill()
    assert len(seen.to_arrays()) == 1


def test_memory_runs_stay_few() -> None:
    runs, everything = MemoryRuns(), []
    for seed in range(40):
        seen = ExactSet()
        seen.add(keys(100, seed))
        everything.append(keys(100, seed))
        runs.append(seen.to_arrays()["run/0"])
    assert len(runs) == 4000
    assert len(list(runs.arrays())) <= 8
    found = np.zeros(4000, np.bool_)
    runs.look_up(np.concatenate(everything), found)
    assert found.all()


def test_many_equal_runs_are_merged_before_they_are_saved() -> None:
    runs = MemoryRuns([ExactSetOf(seed, 100 * 3**seed) for seed in range(9, -1, -1)])
    assert len(list(runs.arrays())) == 8


def ExactSetOf(seed: int, count: int) -> np.ndarray[Any, Any]:  # noqa: N802 - reads as what it gives
    """Return sorted keys."""
    seen = ExactSet()
    seen.add(keys(count, seed))
    return seen.to_arrays()["run/0"]


def test_confirmed_loses_nothing_however_bad_its_filter(tmp_path: Path) -> None:
    seen = ConfirmedBloom(100, 0.5, runs=SortedRuns(tmp_path))
    offered = keys(30_000, 1)
    assert seen.add(offered).all()
    assert not seen.add(offered).any()
    report = seen.describe()
    assert report.expected_lost == report.error_rate == report.final_error_rate == 0.0
    assert report.inserted == 30_000


def test_new_urls_seldom_cost_a_look_up() -> None:
    runs = CountingRuns()
    seen = ConfirmedBloom(100_000, 1e-2, runs=runs, memory_limit=1)
    seen.add(keys(20_000, 1))
    seen._exact.spill()
    before = runs.asked
    seen.contains(keys(10_000, 2))
    assert runs.asked - before < 150


def test_routing_by_host_and_what_lies_below() -> None:
    exact, other = ExactSet(), ExactSet()
    seen = RoutedSeenSet(["Example.com", "shop.example.org."], exact, other)
    ours = [
        "http://example.com/a",
        "https://www.example.com:8080/a",
        "HTTP://user:pw@EXAMPLE.com",
        "http://example.com?x",
        "http://example.com#x",
        "http://a.b.shop.example.org/",
        "  http://example.com./a",
        b"http://example.com/\xff",
        "http:\\\\example.com\\a",
    ]
    theirs = [
        "http://notexample.com/",
        "http://example.com.evil.example/",
        "http://example.org/",
        "http://example.net/http://example.com/",
        "http://example.net/?u=http://example.com/",
        "http://evil.example/@example.com/",
        "example.com",
        "mailto:a@example.com",
        "",
        b"\xff\xfe",
        "http://\u00e9xample.com/",
        "http://[::1]/",
    ]
    assert seen.add(ours + theirs).all()
    assert exact.contains(ours).all()
    assert len(exact) == len(ours)
    assert other.contains(theirs).all()
    assert len(seen) == len(ours) + len(theirs)
    assert seen.contains(ours + theirs).all()


@pytest.mark.parametrize("hosts", [[], [""], ["http://example.com/"], ["a b"], ["example.com:80"]])
def test_hosts_that_are_none_are_refused(hosts: list[str]) -> None:
    with pytest.raises(ConfigError, match="exact_hosts"):
        RoutedSeenSet(hosts, ExactSet(), ExactSet())


def test_routing_needs_urls() -> None:
    with pytest.raises(ConfigError, match="no host"):
        RoutedSeenSet(["example.com"], ExactSet(), ExactSet()).add(keys(1, 1))


def test_a_routed_report_sums_both_parts() -> None:
    seen = RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(100, 1e-3))
    seen.add(["http://example.com/", "http://example.org/"])
    report = seen.describe()
    assert (report.kind, report.inserted, report.capacity) == ("routed", 2, 100)
    assert report.final_error_rate <= 1e-3
    assert report.bytes > ExactSet().describe().bytes


def test_a_part_that_is_full_says_so() -> None:
    seen = RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(1, 1e-3))
    with pytest.raises(FilterFull):
        seen.add(["http://example.org/1", "http://example.org/2"])


def test_the_choice_is_by_what_fits() -> None:
    for count in (1000, 10**6, 10**8):
        assert choose_seen(count, exact_bytes(count)) == "exact"
        assert choose_seen(count, exact_bytes(count) - 1) == "confirmed"


def test_exact_bytes_bounds_the_table() -> None:
    seen = ExactSet()
    seen.add(keys(100_000, 1))
    assert seen._table.bytes_when_grown / 2 <= exact_bytes(100_000)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'cuckoo'; known are exact"):
        restore("cuckoo", {}, {})


def test_every_kind_gives_its_name() -> None:
    for kind, cls in KINDS.items():
        assert cls.kind.__doc__ == f"``{kind}``."


def test_ready_made_keys_are_the_keys_of_the_urls() -> None:
    seen = ExactSet()
    seen.add(keys_of(["http://example.com/"])[0])
    assert "http://example.com/" in seen


def test_the_real_stream_in_order(shared_data: Path) -> None:
    urls = pq.read_table(shared_data / "urls" / "reddit_top_2013_link_posts.parquet").column("url")
    indices = urls.combine_chunks().dictionary_encode().indices.to_numpy()
    first = np.zeros(len(indices), np.bool_)
    first[np.unique(indices, return_index=True)[1]] = True
    assert int((~first).sum()) == 18_273
    for exact in (ExactSet(), ConfirmedBloom(100_000)):
        assert (exact.add(urls) == first).all()
    for lossy in (BloomFilter(800_000, 1e-3), BloomFilter(800_000, 1e-2), ScalableBloomFilter(10_000, 1e-2)):
        new = lossy.add(urls)
        assert not (new & ~first).any()
        lost, expected = int((first & ~new).sum()), lossy.describe().expected_lost
        assert lost <= expected + 3 * expected**0.5
        assert lost >= expected - 4 * expected**0.5
