"""Bloom filters: fixed, growing, and with removal.

A filter answers "new" only for what is new, and "seen" for a share of what is new as well: each such URL
is lost. `SeenReport` says how many are to be expected; `ConfirmedBloom` in `urls.seen` loses none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Bool, Bytes, UInt64, kernel
from dedup_pipeline.errors import ConfigError, FilterFull
from dedup_pipeline.urls import layouts
from dedup_pipeline.urls.keys import Items, key_batches
from dedup_pipeline.urls.layouts import classic_rate, plan_classic, plan_layout, position
from dedup_pipeline.urls.position_schemes import SeenFilter
from dedup_pipeline.urls.protocol import (
    Arrays,
    KeyedSet,
    SeenReport,
    check_union,
    checked_capacity,
    checked_error_rate,
    joined,
    secret_mark,
)

__all__ = [
    "BloomFilter",
    "BloomSize",
    "CountingBloomFilter",
    "ScalableBloomFilter",
    "SeenFilter",
    "actual_error",
    "bloom_size",
]

_GROWTH = 2
_SHARE = 0.5
"""Of the error rate that is left, what the next slice of a growing filter may use."""
_MOST_COUNT = 15
_OVERSHOT = 1.02
"""How far an estimated count may stand above the capacity before a union is refused: the estimate is noisy."""


class BloomSize(NamedTuple):
    """The classic size of a Bloom filter: ``bits`` (m) and ``hashes`` (k)."""

    bits: int
    hashes: int


def bloom_size(items: int, error_rate: float) -> BloomSize:
    """Return the textbook size: m = ceil(-n ln p / (ln 2)^2) bits and k = round(m / n ln 2) positions.

    k is a whole number, so `actual_error` of this size stands up to some per cent above ``error_rate``.
    The filters here are sized by their own models instead, which keep what is asked.

    Raises:
        ConfigError: no filter has that capacity or that error rate.

    >>> bloom_size(1_000_000, 0.01)
    BloomSize(bits=9585059, hashes=7)
    """
    items, error_rate = checked_capacity(items), checked_error_rate(error_rate)
    bits = math.ceil(-items * math.log(error_rate) / math.log(2) ** 2)
    return BloomSize(bits, max(1, round(bits / items * math.log(2))))


def actual_error(m: int, k: int, n: float) -> float:
    """Return (1 - (1 - 1/m)^(k n))^k, the error rate of m bits and k positions after n keys (Bloom 1970).

    Raises:
        ConfigError: a number below its least: 1 bit, 1 position, 0 keys.

    >>> round(actual_error(9585059, 7, 1_000_000), 5)
    0.01004
    """
    if m < 1 or k < 1 or n < 0:
        raise ConfigError(f"m = {m}, k = {k}, n = {n}: give at least 1 bit, 1 position and 0 keys")
    return classic_rate(m, k, n)


def _share_of_ones(words: UInt64, bits: int) -> float:
    """Return the share of bits set, without an array of the filter's size."""
    step = 1 << 20
    ones = sum(int(np.bitwise_count(words[at : at + step]).sum()) for at in range(0, len(words), step))
    return ones / bits


class BloomFilter(KeyedSet):
    """A filter of fixed size, which refuses what goes beyond its capacity.

    Args:
        capacity: URLs expected.
        error_rate: chance, once it is full, that a new URL is answered with "seen".
        secret: 16 random bytes against URLs crafted to collide; keep them, a saved filter does not hold them.

    Raises:
        ConfigError: an argument out of range.

    >>> seen = BloomFilter(1000)
    >>> seen.add(["http://example.com/", "http://example.org/", "http://example.com/"]).tolist()
    [True, True, False]
    """

    def __init__(self, capacity: int, error_rate: float = 1e-4, secret: bytes | None = None) -> None:
        super().__init__(secret)
        self.capacity = checked_capacity(capacity)
        self.error_rate = checked_error_rate(error_rate)
        self.layout = plan_layout(self.capacity, self.error_rate)
        self._words = layouts.empty_words(self.layout)
        self._inserted = 0
        self._estimated = False

    @property
    def kind(self) -> str:
        """``bloom``."""
        return "bloom"

    def __len__(self) -> int:
        return self._inserted

    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        stopped = self.add_until_full(keys, wanted, new, 0)
        if stopped < len(keys):
            raise FilterFull(self.kind, self.capacity, stopped)

    def add_until_full(self, keys: UInt64, wanted: Bool, new: Bool, start: int) -> int:
        """Add keys from ``start`` on; return how far it came before it was full."""
        room = max(0, self.capacity - self._inserted)
        stopped, added = layouts.add(self.layout, self._words, keys, wanted, room, new, start)
        self._inserted += added
        return stopped

    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        layouts.find(self.layout, self._words, keys, wanted, found)

    def describe(self) -> SeenReport:
        """Return capacity, fill and errors."""
        return SeenReport(
            kind=self.kind,
            capacity=self.capacity,
            inserted=self._inserted,
            fill=_share_of_ones(self._words, self.layout.bits),
            error_rate=self.layout.rate(self._inserted),
            final_error_rate=self.layout.rate(self.capacity),
            expected_lost=self.layout.lost(self._inserted),
            bytes=self._words.nbytes,
            estimated=self._estimated,
        )

    def union(self, other: Self) -> Self:
        """Return a filter that has seen what either has; how much that is, is estimated from its bits.

        Raises:
            ConfigError: the filters were made with different parameters.
            FilterFull: both together hold more than one was made for.
        """
        check_union(self, other)
        merged = type(self)(self.capacity, self.error_rate, self._secret)
        np.bitwise_or(self._words, other._words, out=merged._words)
        estimate = self.layout.items_of(_share_of_ones(merged._words, self.layout.bits))
        if estimate > self.capacity * _OVERSHOT + 3:
            raise FilterFull(self.kind, self.capacity, self.capacity)
        least, most = max(len(self), len(other)), len(self) + len(other)
        merged._inserted = min(max(round(estimate), least), most)
        merged._estimated = least != most
        return merged

    def parameters(self) -> dict[str, Any]:
        """Return capacity, error rate, layout, scheme and the mark of the secret."""
        return {
            "capacity": self.capacity,
            "error_rate": self.error_rate,
            "layout": self.layout.name,
            "bits": self.layout.bits,
            "hashes": self.layout.hashes,
            "secret": secret_mark(self._secret),
        }

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the words, and count and whether it is an estimate."""
        return {"words": self._words, "counts": np.array([self._inserted, self._estimated], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the filter that `parameters` and `to_arrays` describe.

        Raises:
            ConfigError: they do not belong together.
        """
        made = cls(parameters["capacity"], parameters["error_rate"], secret)
        _check_parameters(made, parameters)
        made._words[:] = _sized(arrays["words"], made._words)
        made._inserted, made._estimated = int(arrays["counts"][0]), bool(arrays["counts"][1])
        return made


def _check_parameters(made: KeyedSet, saved: dict[str, Any]) -> None:
    for name, value in made.parameters().items():
        if saved.get(name) != value:
            raise ConfigError(f"{name} is {saved.get(name)!r}, where {value!r} belongs")


def _sized(content: npt.NDArray[Any], place: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if content.shape != place.shape or content.dtype != place.dtype:
        raise ConfigError(f"bits are {content.dtype} of shape {content.shape}, not {place.dtype} of {place.shape}")
    return content


class ScalableBloomFilter(KeyedSet):
    """A filter that grows: slices of doubling size whose error rates sum to at most the asked one.

    Each slice may use half of the error rate that is left (Almeida, Baquero, Preguiça, Hutchison 2007, with
    a first slice so small that the whole sum keeps the promise).

    Args:
        capacity: URLs that the first slice holds.
        error_rate: chance, however far it grows, that a new URL is answered with "seen".
        secret: as for `BloomFilter`.
    """

    def __init__(self, capacity: int, error_rate: float = 1e-4, secret: bytes | None = None) -> None:
        super().__init__(secret)
        self.capacity = checked_capacity(capacity)
        self.error_rate = checked_error_rate(error_rate)
        self._slices = [BloomFilter(self.capacity, self.error_rate * _SHARE, secret)]
        self._estimated = False

    @property
    def kind(self) -> str:
        """``scalable``."""
        return "scalable"

    def __len__(self) -> int:
        return sum(len(piece) for piece in self._slices)

    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        wanted = wanted & ~self._found_in(self._slices[:-1], keys, wanted)
        at = 0
        while (at := self._slices[-1].add_until_full(keys, wanted, new, at)) < len(keys):
            full = self._slices[-1]
            self._slices.append(self._next_slice())
            later = wanted.copy()
            later[:at] = False
            wanted = later & ~self._found_in([full], keys, later)

    def _next_slice(self) -> BloomFilter:
        left = self.error_rate - sum(piece.error_rate for piece in self._slices)
        return BloomFilter(self._slices[-1].capacity * _GROWTH, max(left * _SHARE, 1e-15), self._secret)

    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        found |= self._found_in(self._slices, keys, wanted)

    @staticmethod
    def _found_in(slices: Iterable[BloomFilter], keys: UInt64, wanted: Bool) -> Bool:
        found = np.zeros(len(keys), dtype=np.bool_)
        for piece in slices:
            piece._find(keys, wanted & ~found, found)
        return found

    def describe(self) -> SeenReport:
        """Return the room of all slices so far, their fill, and their compound errors."""
        reports = [piece.describe() for piece in self._slices]
        bits = [piece.layout.bits for piece in self._slices]
        lost, before = 0.0, 1.0
        for piece in self._slices:  # a key offered to a slice has passed the slices before it
            lost += piece.layout.lost(len(piece)) / before + len(piece) * (1.0 / before - 1.0)
            before *= 1.0 - piece.layout.rate(len(piece))
        return SeenReport(
            kind=self.kind,
            capacity=sum(piece.capacity for piece in self._slices),
            inserted=len(self),
            fill=sum((report.fill or 0.0) * size for report, size in zip(reports, bits, strict=True)) / sum(bits),
            error_rate=1.0 - before,
            final_error_rate=self.error_rate,
            expected_lost=lost,
            bytes=sum(report.bytes for report in reports),
            estimated=self._estimated,
        )

    def union(self, other: Self) -> Self:
        """Return a filter with the slices of both. Its error rate is the sum of theirs, and it says so.

        Raises:
            ConfigError: one was made with another secret.
        """
        check_union(self, other, "secret")
        merged = type(self)(self.capacity, min(self.error_rate + other.error_rate, 0.999), self._secret)
        pieces = sorted([*self._slices, *other._slices], key=lambda piece: piece.capacity)
        merged._slices = [BloomFilter.from_arrays(p.parameters(), p.to_arrays(), self._secret) for p in pieces]
        merged._estimated = True
        return merged

    def parameters(self) -> dict[str, Any]:
        """Return the first capacity, the error rate, and capacity and error rate of each slice."""
        return {
            "capacity": self.capacity,
            "error_rate": self.error_rate,
            "slices": [piece.parameters() for piece in self._slices],
            "secret": secret_mark(self._secret),
        }

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of all slices, numbered."""
        arrays = {f"{at}/{n}": a for at, piece in enumerate(self._slices) for n, a in piece.to_arrays().items()}
        return {**arrays, "estimated": np.array([self._estimated], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the filter that `parameters` and `to_arrays` describe.

        Raises:
            ConfigError: they do not belong together.
        """
        made = cls(parameters["capacity"], parameters["error_rate"], secret)
        made._slices = [
            BloomFilter.from_arrays(shape, {n: arrays[f"{at}/{n}"] for n in ("words", "counts")}, secret)
            for at, shape in enumerate(parameters["slices"])
        ]
        made._estimated = bool(arrays["estimated"][0])
        return made


class CountingBloomFilter(KeyedSet):
    """A filter that can forget: a counter of four bits in place of each bit.

    Every `add` counts, of a URL that was seen as well, so a URL added twice is there until it is removed
    twice. A counter that reaches 15 stays there for good: what it stands for cannot be forgotten any more, and
    nothing that is still in is ever lost.

    Args:
        capacity: URLs expected at one time.
        error_rate: chance, once it is full, that a new URL is answered with "seen".
        secret: as for `BloomFilter`.
    """

    def __init__(self, capacity: int, error_rate: float = 1e-4, secret: bytes | None = None) -> None:
        super().__init__(secret)
        self.capacity = checked_capacity(capacity)
        self.error_rate = checked_error_rate(error_rate)
        self.layout = plan_classic(self.capacity, self.error_rate)
        self._counters: Bytes = np.zeros(-(-self.layout.bits // 2), dtype=np.uint8)
        self._inserted = 0
        self._lost = 0.0
        self._estimated = False

    @property
    def kind(self) -> str:
        """``counting``."""
        return "counting"

    def __len__(self) -> int:
        return self._inserted

    def _let_in(self, keys: UInt64, wanted: Bool, new: Bool) -> None:
        before, room = self.layout.lost(self._inserted), max(0, self.capacity - self._inserted)
        bits, hashes = self.layout.bits, self.layout.hashes
        stopped, added = _count_up(self._counters, bits, hashes, keys, wanted, room, new)
        self._inserted += added
        self._lost += self.layout.lost(self._inserted) - before
        if stopped < len(keys):
            raise FilterFull(self.kind, self.capacity, stopped)

    def _find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        _find_counted(self._counters, self.layout.bits, self.layout.hashes, keys, wanted, found)

    def remove(self, items: Items) -> Bool:
        """Take back one `add` of each item; return a bool array, true where it was there.

        Only what was added may be removed: removing what merely looks seen takes bits from others.
        """
        masks: list[Bool] = []
        for keys, valid in key_batches(items, self._secret):
            there = np.zeros(len(keys), dtype=np.bool_)
            gone = _count_down(self._counters, self.layout.bits, self.layout.hashes, keys, valid, there)
            self._inserted = max(0, self._inserted - gone)
            masks.append(there)
        return joined(masks)

    def describe(self) -> SeenReport:
        """Return capacity, fill and errors; ``fill`` is the share of counters above zero."""
        return SeenReport(
            kind=self.kind,
            capacity=self.capacity,
            inserted=self._inserted,
            fill=self._fill(),
            error_rate=self.layout.rate(self._inserted),
            final_error_rate=self.layout.rate(self.capacity),
            expected_lost=self._lost,
            bytes=self._counters.nbytes,
            estimated=self._estimated,
        )

    def _fill(self) -> float:
        step, ones = 1 << 20, 0
        for at in range(0, len(self._counters), step):
            piece = self._counters[at : at + step]
            ones += int(np.count_nonzero(piece & 15)) + int(np.count_nonzero(piece >> 4))
        return ones / self.layout.bits

    def union(self, other: Self) -> Self:
        """Return a filter whose counters are the sums of both.

        Raises:
            ConfigError: the filters were made with different parameters.
            FilterFull: both together hold more than one was made for.
        """
        check_union(self, other)
        merged = type(self)(self.capacity, self.error_rate, self._secret)
        _sum_counts(self._counters, other._counters, merged._counters)
        estimate = self.layout.items_of(merged._fill())
        if estimate > self.capacity * _OVERSHOT + 3:
            raise FilterFull(self.kind, self.capacity, self.capacity)
        least, most = max(len(self), len(other)), len(self) + len(other)
        merged._inserted = min(max(round(estimate), least), most)
        merged._estimated = least != most
        merged._lost = self._lost + other._lost
        return merged

    def parameters(self) -> dict[str, Any]:
        """Return capacity, error rate, counters, positions and the mark of the secret."""
        return {
            "capacity": self.capacity,
            "error_rate": self.error_rate,
            "counters": self.layout.bits,
            "hashes": self.layout.hashes,
            "secret": secret_mark(self._secret),
        }

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return counters and counts."""
        counts = np.array([self._inserted, self._lost, self._estimated], dtype=np.float64)
        return {"counters": self._counters, "counts": counts}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the filter that `parameters` and `to_arrays` describe.

        Raises:
            ConfigError: they do not belong together.
        """
        made = cls(parameters["capacity"], parameters["error_rate"], secret)
        _check_parameters(made, parameters)
        made._counters[:] = _sized(arrays["counters"], made._counters)
        inserted, made._lost, estimated = (float(value) for value in arrays["counts"])
        made._inserted, made._estimated = int(inserted), bool(estimated)
        return made


@kernel
def _count_up(
    counters: Bytes, bits: int, hashes: int, keys: UInt64, wanted: Bool, limit: int, new: Bool
) -> tuple[int, int]:
    added = 0
    for at in range(len(keys)):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        missing = False
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            missing |= (counters[place >> 1] >> (4 * (place & 1))) & 15 == 0
        if missing:
            if added == limit:
                return at, added
            new[at] = True
            added += 1
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            shift = 4 * (place & 1)
            if (counters[place >> 1] >> shift) & 15 < _MOST_COUNT:
                counters[place >> 1] += 1 << shift
    return len(keys), added


@kernel
def _find_counted(counters: Bytes, bits: int, hashes: int, keys: UInt64, wanted: Bool, found: Bool) -> None:
    for at in range(len(keys)):
        if not wanted[at]:
            continue
        missing = False
        for index in range(hashes):
            place = position(keys[at, 0], keys[at, 1], index, bits)
            if (counters[place >> 1] >> (4 * (place & 1))) & 15 == 0:
                missing = True
                break
        if not missing:
            found[at] = True


@kernel
def _count_down(counters: Bytes, bits: int, hashes: int, keys: UInt64, wanted: Bool, there: Bool) -> int:
    """Return how many of the keys are no longer seen afterwards."""
    gone = 0
    for at in range(len(keys)):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        missing = False
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            missing |= (counters[place >> 1] >> (4 * (place & 1))) & 15 == 0
        if missing:
            continue
        there[at] = True
        emptied = False
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            shift = 4 * (place & 1)
            count = (counters[place >> 1] >> shift) & 15
            if 0 < count < _MOST_COUNT:
                counters[place >> 1] -= 1 << shift
                emptied |= count == 1
        if emptied:
            gone += 1
    return gone


@kernel
def _sum_counts(left: Bytes, right: Bytes, out: Bytes) -> None:
    for at in range(len(out)):
        one, other = np.int64(left[at]), np.int64(right[at])
        low, high = (one & 15) + (other & 15), (one >> 4) + (other >> 4)
        low = low if low < _MOST_COUNT else np.int64(_MOST_COUNT)
        high = high if high < _MOST_COUNT else np.int64(_MOST_COUNT)
        out[at] = low | (high << 4)
