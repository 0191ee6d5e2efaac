"""What every seen-set offers, and what all that work on 128-bit keys have in common.

A seen-set answers one question in bulk: which of these URLs are new? Duplicates within one batch are
resolved in order, so a batch gives what offering its items one by one gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Bool, UInt64
from dedup_pipeline.errors import ConfigError, FilterFull
from dedup_pipeline.urls.keys import Items, checked_secret, key_batches, keys_of

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class SeenReport:
    """How a seen-set stands.

    Attributes:
        kind: ``exact``, ``bloom``, ...
        capacity: keys it was made for; None where it has no bound.
        inserted: keys let in as new.
        fill: share of the bits set, or None where there are no bits.
        error_rate: chance that a new URL is answered with "seen", as it stands.
        final_error_rate: the same at capacity.
        expected_lost: new URLs expected to have been answered with "seen" so far.
        bytes: memory it takes; what lies on disk does not count.
        estimated: whether ``inserted`` is estimated from the bits set.
    """

    kind: str
    capacity: int | None
    inserted: int
    fill: float | None
    error_rate: float
    final_error_rate: float
    expected_lost: float
    bytes: int
    estimated: bool = False


class SeenSet(Protocol):
    """One protocol for exact sets, filters and servers."""

    @property
    def kind(self) -> str:
        """The name of this kind of seen-set."""
        ...

    def add(self, items: Items) -> Bool:
        """Mark ``items`` as seen; return a bool array, true where an item was new. A null is never new."""
        ...

    def contains(self, items: Items) -> Bool:
        """Return a bool array, true where an item was seen; nothing changes."""
        ...

    def __len__(self) -> int:
        """Return how many items were new so far."""
        ...

    def describe(self) -> SeenReport:
        """Return capacity, fill and errors."""
        ...

    def union(self, other: Self) -> Self:
        """Return a set that has seen what either has; both stay as they are."""
        ...


class Saveable(SeenSet, Protocol):
    """A seen-set that a file can hold: parameters and arrays, nothing else."""

    def parameters(self) -> dict[str, Any]:
        """Return what must agree for two sets to be compatible, as plain values; never the secret."""
        ...

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the content."""
        ...


class KeyRuns(Protocol):
    """Sorted runs of 128-bit keys somewhere else than in memory. No key stands in two runs."""

    def append(self, keys: UInt64) -> None:
        """Take over ascending keys of shape (n, 2) that stand in no run yet."""
        ...

    def look_up(self, keys: UInt64, found: Bool) -> None:
        """Set ``found`` where a key stands in a run."""
        ...

    def __len__(self) -> int:
        """Return how many keys the runs hold."""
        ...

    def arrays(self) -> Iterator[UInt64]:
        """Yield the runs, each ascending, of shape (n, 2)."""
        ...


class KeyedSet(ABC):
    """A seen-set over 128-bit keys: hashing and batching in one place."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = checked_secret(secret)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of this kind of seen-set."""

    @abstractmethod
    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        """Add the wanted keys in order; set ``new`` where one was."""

    @abstractmethod
    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        """Set ``found`` where a wanted key was seen."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many items were new so far."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what must agree for two sets to be compatible."""

    def add(self, items: Items) -> Bool:
        """Mark ``items`` as seen; return a bool array, true where an item was new. A null is never new.

        Raises:
            FilterFull: a filter of fixed size reached its capacity.
        """
        masks: list[Bool] = []
        done = 0
        for keys, valid in key_batches(items, self._secret):
            new = np.zeros(len(keys), dtype=np.bool_)
            masks.append(new)
            try:
                self._let_in(keys, valid, new)
            except FilterFull as full:
                position = done + full.position
                raise FilterFull(full.kind, full.capacity, position, joined(masks)[:position]) from None
            done += len(keys)
        return joined(masks)

    def contains(self, items: Items) -> Bool:
        """Return a bool array, true where an item was seen; nothing changes."""
        masks: list[Bool] = []
        for keys, valid in key_batches(items, self._secret):
            found = np.zeros(len(keys), dtype=np.bool_)
            self._find(keys, valid, found)
            masks.append(found)
        return joined(masks)

    def __contains__(self, item: str | bytes) -> bool:
        return bool(self.contains(item)[0])


def check_union(one: Saveable, other: Saveable, *names: str) -> None:
    """Make sure that two sets can become one: their kinds and these of their parameters, or all, are equal.

    Raises:
        ConfigError: naming the first that differs.
    """
    mine, theirs = ({"kind": each.kind, **each.parameters()} for each in (one, other))
    for name in ("kind", *(names or list(mine)[1:])):
        if mine[name] != theirs.get(name):
            raise ConfigError(
                f"two seen-sets cannot be merged: {name} is {mine[name]!r} in one, {theirs.get(name)!r} in the other. "
                "Build both with the same parameters and secret."
            )


def secret_mark(secret: bytes | None) -> str | None:
    """Return 32 hex digits that tell secrets apart without giving them away; None without one."""
    if secret is None:
        return None
    keys, _ = keys_of("the mark of a secret", secret)
    return f"{int(keys[0, 0]):016x}{int(keys[0, 1]):016x}"


def joined(masks: list[Bool]) -> Bool:
    """Return masks one after the other."""
    if len(masks) == 1:
        return masks[0]
    return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)


def checked_capacity(capacity: int) -> int:
    """Return ``capacity`` if it is a number of keys.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int | np.integer) or not 1 <= capacity <= 1 << 50:
        raise ConfigError(f"capacity = {capacity!r}: give the number of URLs expected, at least 1")
    return int(capacity)


def checked_error_rate(error_rate: float) -> float:
    """Return ``error_rate`` if a filter can keep it.

    Raises:
        ConfigError: it is no probability, or so small that only an exact set will do.
    """
    if isinstance(error_rate, bool) or not isinstance(error_rate, int | float) or not 1e-15 <= error_rate < 1.0:
        raise ConfigError(
            f"error_rate = {error_rate!r}: give a probability of at least 1e-15 and below 1, for instance 0.0001; "
            "where nothing may be lost take an exact set"
        )
    return float(error_rate)
