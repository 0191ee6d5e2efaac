"""Seen-sets that lose no URL: exact, confirmed, and exact for chosen hosts; and which one to take.

`ExactSet` keeps 128-bit keys. `ConfirmedBloom` asks a Bloom filter first and looks only what that calls
"seen" up among exact keys, which may lie on disk. `RoutedSeenSet` keeps chosen hosts exact and leaves the
rest to another set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.compiled import Bool, UInt64
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter
from dedup_pipeline.urls.key_table import SLOT_BYTES, KeyTable, find_sorted, merge_sorted, slots_for
from dedup_pipeline.urls.keys import Items, as_strings
from dedup_pipeline.urls.position_schemes import SeenFilter
from dedup_pipeline.urls.protocol import (
    Arrays,
    KeyedSet,
    KeyRuns,
    Saveable,
    SeenReport,
    SeenSet,
    check_union,
    joined,
    secret_mark,
)

__all__ = [
    "ConfirmedBloom",
    "ExactSet",
    "KeyRuns",
    "MemoryRuns",
    "RoutedSeenSet",
    "SeenReport",
    "SeenSet",
    "choose_seen",
    "exact_bytes",
    "restore",
]

_MOST_RUNS = 8
_CONFIRMED_MEMORY = 64 * 1000**2


class MemoryRuns:
    """Sorted runs as arrays: in memory, or mapped from a saved set."""

    def __init__(self, runs: Iterable[UInt64] = ()) -> None:
        self._runs = [run for run in runs if len(run)]

    def append(self, keys: UInt64) -> None:
        """Take over ascending keys that stand in no run yet; small runs are merged, so that there are few."""
        self._runs.append(keys)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            self._merge_last()

    def _merge_last(self) -> None:
        right, left = self._runs.pop(), self._runs.pop()
        merged: UInt64 = np.empty((len(left) + len(right), 2), dtype=np.uint64)
        merge_sorted(left, right, np.zeros(2, dtype=np.int64), merged)
        self._runs.append(merged)

    def look_up(self, keys: UInt64, found: Bool) -> None:
        """Set ``found`` where a key stands in a run."""
        for run in self._runs:
            find_sorted(run, keys, ~found, found)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def arrays(self) -> Iterator[UInt64]:
        """Yield the runs, each ascending, at most eight of them."""
        while len(self._runs) > _MOST_RUNS:
            self._merge_last()
        yield from self._runs


class ExactSet(KeyedSet):
    """128-bit keys of all URLs seen: two of 10^12 share one with a chance of 10^-15.

    Args:
        secret: 16 random bytes against URLs crafted to collide; keep them, a saved set does not hold them.
        memory_limit: bytes of keys in memory; beyond it they go to ``runs``. None for no limit.
        runs: where they go, for instance ``store.key_runs.SortedRuns`` on disk.

    Raises:
        ConfigError: a memory limit without runs.

    >>> seen = ExactSet()
    >>> seen.add(["http://example.com/", "http://example.com/", "http://example.org/"]).tolist()
    [True, False, True]
    """

    def __init__(
        self, secret: bytes | None = None, memory_limit: int | None = None, runs: KeyRuns | None = None
    ) -> None:
        super().__init__(secret)
        if memory_limit is not None and runs is None:
            raise ConfigError("memory_limit: say where keys go beyond it, for instance runs=SortedRuns(folder)")
        self._limit = memory_limit
        self._runs: KeyRuns = MemoryRuns() if runs is None else runs
        self._table = KeyTable()

    @property
    def kind(self) -> str:
        """``exact``."""
        return "exact"

    def __len__(self) -> int:
        return len(self._table) + len(self._runs)

    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        wanted, at = self._not_in_runs(keys, wanted), 0
        while (at := self._table.add(keys, wanted, new, at)) < len(keys):
            if self._limit is None or self._table.bytes_when_grown <= self._limit:
                self._table.grow()
                continue
            self.spill()
            wanted[:at] = False
            wanted = self._not_in_runs(keys, wanted)

    def _not_in_runs(self, keys: UInt64, wanted: Bool) -> Bool:
        if not len(self._runs):
            return wanted.copy()
        found = ~wanted
        self._runs.look_up(keys, found)
        return ~found

    def spill(self) -> None:
        """Move all keys from memory to the runs."""
        if len(self._table):
            self._runs.append(self._table.keys())
            self._table = KeyTable()

    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        self._table.find(keys, wanted, found)
        if len(self._runs):
            passed = found | ~wanted
            self._runs.look_up(keys, passed)
            found |= passed & wanted

    def describe(self) -> SeenReport:
        """Return count and memory; an exact set loses nothing."""
        return SeenReport(self.kind, None, len(self), None, 0.0, 0.0, 0.0, self._table.nbytes)

    def union(self, other: Self) -> Self:
        """Return a set with the keys of both, in memory.

        Raises:
            ConfigError: they were made with different secrets.
        """
        check_union(self, other)
        merged = type(self)(self._secret)
        for each in (self, other):
            for keys in each.to_arrays().values():
                merged.add(keys)
        return merged

    def parameters(self) -> dict[str, Any]:
        """Return the mark of the secret."""
        return {"secret": secret_mark(self._secret)}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the keys as ascending arrays, no key in two of them."""
        runs = [*self._runs.arrays(), *([self._table.keys()] if len(self._table) else [])]
        return {f"run/{number}": run for number, run in enumerate(runs)}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the set that `parameters` and `to_arrays` describe; mapped arrays are read as they are needed."""
        del parameters  # nothing but the secret's mark, which the caller has compared
        return cls(secret, runs=MemoryRuns(arrays[name] for name in sorted(arrays, key=_number)))


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


class ConfirmedBloom(KeyedSet):
    """A Bloom filter in front of exact keys: no URL is lost, and most new ones cost no look-up.

    What the filter calls new is new; what it calls seen is looked up. With ``runs`` on disk the memory is that
    of the filter.

    Args:
        capacity: URLs expected; beyond it the filter grows.
        error_rate: share of the new URLs that cost a look-up.
        secret: as for `ExactSet`.
        runs: where the exact keys go; None keeps them in memory.
        memory_limit: bytes of keys in memory before they go to ``runs``.
    """

    def __init__(
        self,
        capacity: int,
        error_rate: float = 1e-3,
        secret: bytes | None = None,
        runs: KeyRuns | None = None,
        memory_limit: int = _CONFIRMED_MEMORY,
    ) -> None:
        super().__init__(secret)
        self._front = ScalableBloomFilter(capacity, error_rate, secret)
        self._exact = ExactSet(secret, memory_limit if runs is not None else None, runs)

    @property
    def kind(self) -> str:
        """``confirmed``."""
        return "confirmed"

    def __len__(self) -> int:
        return len(self._exact)

    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        surely = np.zeros(len(keys), dtype=np.bool_)
        self._front._let_in(keys, wanted, surely)
        unsure = wanted & ~surely
        # A key that the filter let in cannot have come before, and one that it did not let in may have come
        # before within this very batch: so the former go in first.
        self._exact._let_in(keys, surely, new)
        self._exact._let_in(keys, unsure, new)

    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        maybe = np.zeros(len(keys), dtype=np.bool_)
        self._front._find(keys, wanted, maybe)
        self._exact._find(keys, maybe, found)

    def describe(self) -> SeenReport:
        """Return count, and room and fill of the filter; nothing is lost."""
        front, exact = self._front.describe(), self._exact.describe()
        return SeenReport(
            self.kind, front.capacity, len(self), front.fill, 0.0, 0.0, 0.0, front.bytes + exact.bytes, False
        )

    def union(self, other: Self) -> Self:
        """Return a set with the keys of both, in memory.

        Raises:
            ConfigError: they were made with different parameters.
        """
        check_union(self, other)
        merged = type(self)(max(1, len(self) + len(other)), self._front.error_rate, self._secret)
        for each in (self, other):
            for keys in each._exact.to_arrays().values():
                merged.add(keys)
        return merged

    def parameters(self) -> dict[str, Any]:
        """Return the filter's error rate and the mark of the secret."""
        return {"error_rate": self._front.error_rate, "secret": secret_mark(self._secret)}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the exact keys; the filter is made of them again."""
        return self._exact.to_arrays()

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the set that `parameters` and `to_arrays` describe."""
        made = cls(max(1, sum(len(keys) for keys in arrays.values())), parameters["error_rate"], secret)
        for keys in arrays.values():
            made._front.add(keys)
        made._exact = ExactSet.from_arrays({}, arrays, secret)
        return made


class RoutedSeenSet:
    """Chosen hosts in one seen-set, everything else in another.

    Args:
        exact_hosts: host names; their subdomains belong to them.
        exact: the seen-set for these hosts, for instance an `ExactSet`.
        other: the one for the rest, for instance a `BloomFilter`.

    Raises:
        ConfigError: no host, or something that is none.

    >>> seen = RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(1000))
    >>> seen.add(["http://www.example.com/a", "http://example.org/", "http://www.example.com/a"]).tolist()
    [True, True, False]
    """

    def __init__(self, exact_hosts: Iterable[str], exact: SeenSet, other: SeenSet) -> None:
        self._hosts = sorted({host.lower().strip(".") for host in exact_hosts})
        if not self._hosts or any(not host or re.search(r"[/:@\s]", host) for host in self._hosts):
            raise ConfigError(f"exact_hosts = {self._hosts}: give host names, for instance example.com")
        self._by_labels = {
            labels: pa.array([host for host in self._hosts if host.count(".") + 1 == labels])
            for labels in sorted({host.count(".") + 1 for host in self._hosts})
        }
        self._exact, self._other = exact, other

    @property
    def kind(self) -> str:
        """``routed``."""
        return "routed"

    def __len__(self) -> int:
        return len(self._exact) + len(self._other)

    def _routes(self, urls: pa.Array) -> Bool:
        """Return a bool array over binary URLs, true where the host is one of the chosen ones or lies below it."""
        # Undecodable bytes may stand in a path; the host is ASCII wherever it is one of the chosen.
        matched = pc.extract_regex(
            urls,
            r"(?s)^[\x00-\x20]*[A-Za-z][A-Za-z0-9+.\-]*:[/\\]{2}(?:[^/?#\\]*@)?(?P<host>[^/:?#\\@]+)",
        )
        host = matched.field("host") if len(matched) else pa.array([], pa.large_binary())
        host = pc.if_else(matched.is_valid(), host, None) if len(matched) else host
        plain = pc.ascii_trim(pc.ascii_lower(_ascii_only(host)), ".")
        chosen = np.zeros(len(urls), dtype=np.bool_)
        for labels, hosts in self._by_labels.items():
            pattern = r"(?P<end>" + r"[^.]+\." * (labels - 1) + r"[^.]+)$"
            ends = pc.extract_regex(plain, pattern).field("end") if len(plain) else plain
            chosen |= pc.is_in(ends, value_set=hosts.cast(ends.type)).to_numpy(zero_copy_only=False)
        return chosen

    def add(self, items: Items) -> Bool:
        """Mark ``items`` as seen; return a bool array, true where an item was new. Ready-made keys are refused."""
        masks: list[Bool] = []
        for strings in as_strings(items):
            urls = strings.cast(pa.large_binary())
            chosen = self._routes(urls)
            new = np.zeros(len(urls), dtype=np.bool_)
            new[chosen] = self._exact.add(urls.filter(pa.array(chosen)))
            new[~chosen] = self._other.add(urls.filter(pa.array(~chosen)))
            masks.append(new)
        return joined(masks)

    def contains(self, items: Items) -> Bool:
        """Return a bool array, true where an item was seen; nothing changes."""
        masks: list[Bool] = []
        for strings in as_strings(items):
            urls = strings.cast(pa.large_binary())
            chosen = self._routes(urls)
            found = np.zeros(len(urls), dtype=np.bool_)
            found[chosen] = self._exact.contains(urls.filter(pa.array(chosen)))
            found[~chosen] = self._other.contains(urls.filter(pa.array(~chosen)))
            masks.append(found)
        return joined(masks)

    def __contains__(self, item: str | bytes) -> bool:
        return bool(self.contains(item)[0])

    def describe(self) -> SeenReport:
        """Return the figures of the set for the rest, with the count and the memory of both."""
        exact, other = self._exact.describe(), self._other.describe()
        return SeenReport(
            kind=self.kind,
            capacity=other.capacity,
            inserted=exact.inserted + other.inserted,
            fill=other.fill,
            error_rate=other.error_rate,
            final_error_rate=other.final_error_rate,
            expected_lost=exact.expected_lost + other.expected_lost,
            bytes=exact.bytes + other.bytes,
            estimated=exact.estimated or other.estimated,
        )

    def union(self, other: Self) -> Self:
        """Return a routed set whose parts are the unions of theirs.

        Raises:
            ConfigError: other hosts, or parts that cannot be merged.
        """
        check_union(self, other, "hosts")
        return type(self)(self._hosts, self._exact.union(other._exact), self._other.union(other._other))

    def _parts(self) -> Iterator[tuple[str, Saveable]]:
        for name, part in (("exact", self._exact), ("other", self._other)):
            if part.kind not in KINDS:
                raise ConfigError(f"a routed seen-set whose part {name!r} is {part.kind} has no parameters to save")
            yield name, part  # type: ignore[misc]

    def parameters(self) -> dict[str, Any]:
        """Return the hosts, and kind and parameters of both parts."""
        parts = {name: {"kind": part.kind, "parameters": part.parameters()} for name, part in self._parts()}
        return {"hosts": self._hosts, **parts}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of both parts."""
        return {f"{name}/{key}": array for name, part in self._parts() for key, array in part.to_arrays().items()}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the set that `parameters` and `to_arrays` describe; ``secret`` is that of both parts."""
        parts = []
        for name in ("exact", "other"):
            own = {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}/")}
            parts.append(restore(parameters[name]["kind"], parameters[name]["parameters"], own, secret))
        return cls(parameters["hosts"], *parts)


def _ascii_only(hosts: pa.Array) -> pa.Array:
    """Return binary host names as text; what is no ASCII becomes null."""
    plain = pc.match_substring_regex(hosts, r"^[\x21-\x7e]*$")
    return pc.if_else(plain, hosts, None).cast(pa.large_string())


KINDS: dict[str, Any] = {
    "exact": ExactSet,
    "confirmed": ConfirmedBloom,
    "bloom": BloomFilter,
    "scalable": ScalableBloomFilter,
    "counting": CountingBloomFilter,
    "routed": RoutedSeenSet,
    "scheme": SeenFilter,
}
"""The seen-sets that a file can hold, by kind."""


def restore(kind: str, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Saveable:
    """Return the seen-set that was taken apart into parameters and arrays.

    Raises:
        ConfigError: an unknown kind, or a part that does not fit.
    """
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; known are {', '.join(KINDS)}")
    made: Saveable = KINDS[kind].from_arrays(parameters, arrays, secret)
    return made


def exact_bytes(expected: int) -> int:
    """Return the memory that an `ExactSet` takes at most while it comes to hold this many keys."""
    return slots_for(expected) * SLOT_BYTES * 3 // 2


def choose_seen(expected: int, memory_limit: int) -> str:
    """Return ``exact`` while the keys of this many URLs fit into the memory, else ``confirmed``.

    >>> choose_seen(1_000_000, 2_000_000_000), choose_seen(1_000_000_000, 2_000_000_000)
    ('exact', 'confirmed')
    """
    return "exact" if exact_bytes(expected) <= memory_limit else "confirmed"
