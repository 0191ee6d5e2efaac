"""Sets of 128-bit keys: a table in memory, and sorted arrays.

The table is open addressing with linear probing (Knuth, TAOCP 3, 6.4): the keys are hashes already, so the
upper half says where to begin. In a sorted array a key is found by interpolation, since hashes lie
evenly, and by bisection where crafted ones do not.
"""

from __future__ import annotations

import numpy as np

from dedup_pipeline.compiled import Bool, Int64, UInt64, inlined, kernel

SLOT_BYTES = 16
_LEAST_SLOTS = 1 << 10
_FULLEST = 0.7
_GUESSES = 6


def slots_for(keys: int) -> int:
    """Return the slots of a table that holds this many keys: a power of two."""
    slots = _LEAST_SLOTS
    while slots * _FULLEST < keys:
        slots *= 2
    return slots


class KeyTable:
    """A set of keys in memory that grows by doubling."""

    def __init__(self) -> None:
        self._slots: UInt64 = np.zeros((_LEAST_SLOTS, 2), dtype=np.uint64)
        self._count = 0
        self._zero = np.zeros(1, dtype=np.bool_)  # the key of all zeros marks an empty slot, so it is kept apart

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return self._slots.nbytes

    @property
    def bytes_when_grown(self) -> int:
        """Memory that doubling would take at its peak, old and new slots together."""
        return 3 * self._slots.nbytes

    @property
    def room(self) -> int:
        """How many keys it takes before it has to grow."""
        return int(len(self._slots) * _FULLEST) - self._count

    def add(self, keys: UInt64, wanted: Bool, new: Bool, start: int) -> int:
        """Add the wanted keys from ``start`` on, marking new ones, as far as there is room; return how far that was."""
        stopped, added = _insert(self._slots, self._zero, keys, wanted, new, start, self.room)
        self._count += added
        return stopped

    def grow(self) -> None:
        """Make room for as many keys again."""
        slots: UInt64 = np.zeros((2 * len(self._slots), 2), dtype=np.uint64)
        _rehash(self._slots, slots)
        self._slots = slots

    def find(self, keys: UInt64, wanted: Bool, found: Bool) -> None:
        """Set ``found`` where a wanted key is in."""
        _look_up(self._slots, self._zero, keys, wanted, found)

    def keys(self) -> UInt64:
        """Return all keys, ascending, of shape (n, 2)."""
        out: UInt64 = np.zeros((self._count, 2), dtype=np.uint64)
        _gather(self._slots, out[1:] if self._zero[0] else out)
        return sort_keys(out)


def sort_keys(keys: UInt64) -> UInt64:
    """Return keys of shape (n, 2) in ascending order, the upper half first."""
    ordered: UInt64 = keys[np.argsort(keys[:, 0])]
    _order_equals(ordered)
    return ordered


@inlined
def _less(left: UInt64, at: int, right: UInt64, other: int) -> bool:
    if left[at, 0] != right[other, 0]:
        return bool(left[at, 0] < right[other, 0])
    return bool(left[at, 1] < right[other, 1])


@kernel
def _order_equals(keys: UInt64) -> None:
    """Put keys of one upper half, which hardly ever are two, in order of the lower half."""
    for at in range(1, len(keys)):
        place = at
        while place and keys[place, 0] == keys[place - 1, 0] and keys[place, 1] < keys[place - 1, 1]:
            lower = keys[place, 1]
            keys[place, 1] = keys[place - 1, 1]
            keys[place - 1, 1] = lower
            place -= 1


@kernel
def _insert(slots: UInt64, zero: Bool, keys: UInt64, wanted: Bool, new: Bool, start: int, room: int) -> tuple[int, int]:
    mask, added = np.uint64(len(slots) - 1), 0
    for at in range(start, len(keys)):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        if upper == 0 and lower == 0:
            if not zero[0]:
                zero[0] = new[at] = True
                added += 1
            continue
        slot = upper & mask
        while slots[slot, 0] or slots[slot, 1]:
            if slots[slot, 0] == upper and slots[slot, 1] == lower:
                break
            slot = (slot + np.uint64(1)) & mask
        else:
            if added >= room:
                return at, added
            slots[slot, 0], slots[slot, 1] = upper, lower
            new[at] = True
            added += 1
    return len(keys), added


@kernel
def _look_up(slots: UInt64, zero: Bool, keys: UInt64, wanted: Bool, found: Bool) -> None:
    mask = np.uint64(len(slots) - 1)
    for at in range(len(keys)):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        if upper == 0 and lower == 0:
            found[at] |= zero[0]
            continue
        slot = upper & mask
        while slots[slot, 0] or slots[slot, 1]:
            if slots[slot, 0] == upper and slots[slot, 1] == lower:
                found[at] = True
                break
            slot = (slot + np.uint64(1)) & mask


@kernel
def _rehash(old: UInt64, slots: UInt64) -> None:
    mask = np.uint64(len(slots) - 1)
    for at in range(len(old)):
        if old[at, 0] or old[at, 1]:
            slot = old[at, 0] & mask
            while slots[slot, 0] or slots[slot, 1]:
                slot = (slot + np.uint64(1)) & mask
            slots[slot, 0], slots[slot, 1] = old[at, 0], old[at, 1]


@kernel
def _gather(slots: UInt64, out: UInt64) -> None:
    filled = 0
    for at in range(len(slots)):
        if slots[at, 0] or slots[at, 1]:
            out[filled, 0], out[filled, 1] = slots[at, 0], slots[at, 1]
            filled += 1


@kernel
def find_sorted(run: UInt64, keys: UInt64, wanted: Bool, found: Bool) -> None:
    """Set ``found`` where a wanted key stands in ``run``, which is ascending."""
    for at in range(len(keys)):
        if wanted[at] and not found[at]:
            upper, lower = keys[at, 0], keys[at, 1]
            low, high = 0, len(run)  # the key stands in run[low:high], if at all
            guesses = 0
            while low < high:
                first, last = run[low, 0], run[high - 1, 0]
                if upper < first or upper > last:
                    break
                if guesses < _GUESSES and last > first:
                    span = last - first
                    # (upper - first) / span of the way, in 64-bit fixed point without overflow.
                    share = (np.float64(upper - first)) / np.float64(span)
                    middle = low + min(int(share * (high - 1 - low)), high - 1 - low)
                    guesses += 1
                else:
                    middle = (low + high) // 2
                if run[middle, 0] == upper and run[middle, 1] == lower:
                    found[at] = True
                    break
                if run[middle, 0] < upper or (run[middle, 0] == upper and run[middle, 1] < lower):
                    low = middle + 1
                else:
                    high = middle


@kernel
def merge_sorted(left: UInt64, right: UInt64, places: Int64, out: UInt64) -> int:
    """Merge two ascending arrays from ``places`` on until ``out`` is full or both are at their end.

    ``places`` (int64 of 2) is moved on. Returns how many keys were written.
    """
    at, other, filled = places[0], places[1], 0
    while filled < len(out) and (at < len(left) or other < len(right)):
        if other == len(right) or (at < len(left) and _less(left, at, right, other)):
            out[filled, 0], out[filled, 1] = left[at, 0], left[at, 1]
            at += 1
        else:
            out[filled, 0], out[filled, 1] = right[other, 0], right[other, 1]
            other += 1
        filled += 1
    places[0], places[1] = at, other
    return filled
