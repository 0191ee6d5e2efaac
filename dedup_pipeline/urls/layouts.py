"""How a Bloom filter lays its bits out, how often that errs, and the kernels that set and test them.

Two layouts over one array of 64-bit words:

- **blocked** (Putze, Sanders, Singler 2007): a key touches one cache line of 512 bits, and in each of its
  eight words one bit, or two. One access to memory a key.
- **classic** (Bloom 1970): k positions anywhere. Fewer bits where few errors are asked for, but k accesses.

A block's load varies, so a blocked filter sized by the classic formula errs up to ten times too often.
Here each layout is sized by its own model, which the tests hold against counted errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dedup_pipeline.compiled import Bool, Float64, UInt64, high_product, inlined, kernel, prefetch
from dedup_pipeline.hashing import mix64
from dedup_pipeline.urls.block_bits import BLOCK_WORDS, missing_double, missing_single, set_double, set_single

CLASSIC_BELOW = 1e-4
"""The error rate below which the classic layout is chosen."""

_BLOCK = 64 * BLOCK_WORDS
_AHEAD = 16
"""Keys for which a cache line is asked for before it is needed."""
_LEAST_RATE, _MOST_RATE = 1e-15, 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of one filter.

    Attributes:
        name: ``blocked`` or ``classic``.
        bits: bits in all; for ``blocked`` a multiple of 512.
        hashes: bits that a key sets: 8 or 16 when blocked, else k.
    """

    name: str
    bits: int
    hashes: int

    @property
    def words(self) -> int:
        """64-bit words that hold the bits."""
        return -(-self.bits // 64)

    def rate(self, items: float) -> float:
        """Return the chance that an absent key is answered with "seen" once ``items`` keys are in."""
        if self.name == "blocked":
            return _blocked_rate(items * _BLOCK / self.bits, self.hashes // BLOCK_WORDS)
        return classic_rate(self.bits, self.hashes, items)

    def lost(self, items: float) -> float:
        """Return how many new keys are expected to have been answered with "seen" by the time ``items`` are in.

        That is the integral of rate / (1 - rate): each key that was let in stands for 1 / (1 - rate) offered.
        """
        points = (np.asarray(_NODES) + 1.0) * (items / 2.0)
        rates = np.array([self.rate(float(point)) for point in points])
        return float((rates / (1.0 - np.minimum(rates, 0.999999)) * _WEIGHTS).sum() * items / 2.0)

    def items_of(self, fill: float) -> float:
        """Return how many distinct keys leave this share of the bits set, as expected (Swamidass, Baldi 2007)."""
        if fill >= 1.0:
            return math.inf
        if self.name == "blocked":
            return -math.log1p(-fill) * self.bits / self.hashes
        return math.log1p(-fill) / (self.hashes * math.log1p(-1.0 / self.bits))


def plan_layout(capacity: int, error_rate: float) -> Layout:
    """Return the smallest layout that errs at most at ``error_rate`` once ``capacity`` keys are in.

    Blocked down to `CLASSIC_BELOW`, with one bit in each word or two, whichever is smaller; classic below.
    """
    rate = min(max(error_rate, _LEAST_RATE), _MOST_RATE)
    if rate < CLASSIC_BELOW:
        return plan_classic(capacity, rate)
    load, per_word = max((_greatest_load(rate, per_word), per_word) for per_word in (1, 2))
    return Layout("blocked", max(1, math.ceil(capacity / load)) * _BLOCK, per_word * BLOCK_WORDS)


def plan_classic(capacity: int, error_rate: float) -> Layout:
    """Return the classic layout that errs at ``error_rate`` at ``capacity`` keys: `classic_rate` solved for m."""
    hashes = max(1, round(-math.log2(error_rate)))
    unset = math.log1p(-(error_rate ** (1.0 / hashes)))
    return Layout("classic", max(64, math.ceil(-1.0 / math.expm1(unset / (hashes * capacity)))), hashes)


def classic_rate(bits: int, hashes: int, items: float) -> float:
    """Return (1 - (1 - 1/m)^(k n))^k: the error rate of m bits and k positions at n items (Bloom 1970)."""
    if bits <= 1:
        return 1.0 if items > 0 else 0.0
    return float((-math.expm1(hashes * items * math.log1p(-1.0 / bits))) ** hashes)


def _blocked_rate(load: float, per_word: int) -> float:
    """Return the error rate of blocks that hold ``load`` keys on average.

    A block's keys are Poisson distributed. After L keys a word of 64 bits answers "seen" with
    1 - (63/64)^L when each key sets one bit in it; with two distinct bits, by inclusion and exclusion, with
    1 - 2 (62/64)^L + (62 61 / (64 63))^L. The eight words answer independently of each other.
    """
    if load <= 0.0:
        return 0.0
    spread = 12.0 * math.sqrt(load) + 30.0
    keys = np.arange(max(0, math.floor(load - spread)), math.ceil(load + spread))
    logarithms = keys * math.log(load) - load - np.array([math.lgamma(key + 1.0) for key in keys])
    if per_word == 1:
        word: Float64 = -np.expm1(keys * math.log(63 / 64))
    else:
        word = 1.0 - 2.0 * (62 / 64) ** keys + (62 * 61 / (64 * 63)) ** keys
    return float((np.exp(logarithms) * np.maximum(word, 0.0) ** BLOCK_WORDS).sum())


def _greatest_load(rate: float, per_word: int) -> float:
    """Return the most keys a block may hold on average, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _blocked_rate(middle, per_word) <= rate else (low, middle)
    return low


def empty_words(layout: Layout) -> UInt64:
    """Return zeroed words whose first stands at the beginning of a cache line."""
    return aligned(np.zeros(layout.words * 8 + 64, dtype=np.uint8), layout.words)


def aligned(room: np.ndarray[tuple[int], np.dtype[np.uint8]], words: int) -> UInt64:
    """Return ``words`` words within ``room``, from the first beginning of a cache line on."""
    begin = -room.ctypes.data % 64
    return room[begin : begin + 8 * words].view(np.uint64)


def add(
    layout: Layout, words: UInt64, keys: UInt64, wanted: Bool, limit: int, new: Bool, start: int
) -> tuple[int, int]:
    """Set the bits of the wanted keys that are not in yet, in order, marking them in ``new``.

    Args:
        layout: shape of the filter.
        words: its bits, changed.
        keys: uint64 of shape (n, 2).
        wanted: bool of n; the others are passed over.
        limit: most keys to let in.
        new: bool of n, set where a key was let in.
        start: the key to begin with.

    Returns:
        where it stopped: n, or the first new key beyond ``limit``; and how many were let in.
    """
    if layout.name == "classic":
        return _add_classic(words, layout.bits, layout.hashes, keys, wanted, limit, new, start)
    if layout.hashes == BLOCK_WORDS:
        return _add_single(words, layout.bits // _BLOCK, keys, wanted, limit, new, start)
    return _add_double(words, layout.bits // _BLOCK, keys, wanted, limit, new, start)


def find(layout: Layout, words: UInt64, keys: UInt64, wanted: Bool, found: Bool) -> None:
    """Set ``found`` where a wanted key's bits are all set; leave the other places as they are."""
    if layout.name == "classic":
        _find_classic(words, layout.bits, layout.hashes, keys, wanted, found)
    elif layout.hashes == BLOCK_WORDS:
        _find_single(words, layout.bits // _BLOCK, keys, wanted, found)
    else:
        _find_double(words, layout.bits // _BLOCK, keys, wanted, found)


@inlined
def _block(upper: np.uint64, blocks: int) -> np.int64:
    """Return the first word of a key's block: the upper half of the key says which."""
    return np.int64(high_product(upper, np.uint64(blocks))) * BLOCK_WORDS


@kernel
def _add_single(
    words: UInt64, blocks: int, keys: UInt64, wanted: Bool, limit: int, new: Bool, start: int
) -> tuple[int, int]:
    added, count = 0, len(keys)
    for at in range(start, count):
        if at + _AHEAD < count:
            prefetch(words, _block(keys[at + _AHEAD, 0], blocks))
        if not wanted[at]:
            continue
        block, lower = _block(keys[at, 0], blocks), keys[at, 1]
        if missing_single(words, block, lower):
            if added == limit:
                return at, added
            set_single(words, block, lower)
            new[at] = True
            added += 1
    return count, added


@kernel
def _add_double(
    words: UInt64, blocks: int, keys: UInt64, wanted: Bool, limit: int, new: Bool, start: int
) -> tuple[int, int]:
    added, count = 0, len(keys)
    for at in range(start, count):
        if at + _AHEAD < count:
            prefetch(words, _block(keys[at + _AHEAD, 0], blocks))
        if not wanted[at]:
            continue
        block, lower = _block(keys[at, 0], blocks), keys[at, 1]
        more = mix64(lower)
        if missing_double(words, block, lower, more):
            if added == limit:
                return at, added
            set_double(words, block, lower, more)
            new[at] = True
            added += 1
    return count, added


@kernel
def _find_single(words: UInt64, blocks: int, keys: UInt64, wanted: Bool, found: Bool) -> None:
    for at in range(len(keys)):
        if at + _AHEAD < len(keys):
            prefetch(words, _block(keys[at + _AHEAD, 0], blocks))
        if wanted[at]:
            block, lower = _block(keys[at, 0], blocks), keys[at, 1]
            if not missing_single(words, block, lower):
                found[at] = True


@kernel
def _find_double(words: UInt64, blocks: int, keys: UInt64, wanted: Bool, found: Bool) -> None:
    for at in range(len(keys)):
        if at + _AHEAD < len(keys):
            prefetch(words, _block(keys[at + _AHEAD, 0], blocks))
        if wanted[at]:
            block, lower = _block(keys[at, 0], blocks), keys[at, 1]
            more = mix64(lower)
            if not missing_double(words, block, lower, more):
                found[at] = True


@inlined
def position(upper: np.uint64, lower: np.uint64, index: int, bits: int) -> np.int64:
    """Return where the ``index``-th bit of a key stands in the classic layout.

    Double hashing (Kirsch, Mitzenmacher 2006) alone makes keys that share all positions likelier than the
    model says, once rates are low (Dillinger, Manolios 2004); mixing each sum takes that away.
    """
    return np.int64(high_product(mix64(upper + np.uint64(index) * (lower | np.uint64(1))), np.uint64(bits)))


@kernel
def _add_classic(
    words: UInt64, bits: int, hashes: int, keys: UInt64, wanted: Bool, limit: int, new: Bool, start: int
) -> tuple[int, int]:
    added, count = 0, len(keys)
    for at in range(start, count):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        missing = False
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            if not (words[place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
                missing = True
                break
        if missing:
            if added == limit:
                return at, added
            for index in range(hashes):
                place = position(upper, lower, index, bits)
                words[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
            new[at] = True
            added += 1
    return count, added


@kernel
def _find_classic(words: UInt64, bits: int, hashes: int, keys: UInt64, wanted: Bool, found: Bool) -> None:
    for at in range(len(keys)):
        if not wanted[at]:
            continue
        upper, lower = keys[at, 0], keys[at, 1]
        missing = False
        for index in range(hashes):
            place = position(upper, lower, index, bits)
            if not (words[place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
                missing = True
                break
        if not missing:
            found[at] = True
