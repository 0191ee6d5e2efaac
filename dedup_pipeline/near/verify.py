"""The true Jaccard similarity of candidate pairs, from their whole shingle sets."""

from __future__ import annotations

import numpy as np

from dedup_pipeline.compiled import Float64, Int64, UInt64, inlined, kernel


def jaccard_of_pairs(pairs: UInt64, hashes: UInt64, offsets: Int64, sizes: Int64, threshold: float) -> Float64:
    """Return the Jaccard similarity of each pair, or -1.0 where it is below ``threshold``.

    The similarity is the exact quotient of two counts, rounded once to float64. A pair is given up as
    soon as it can no longer reach the threshold.

    Args:
        pairs: uint64, ``left << 32 | right``, **ascending**, so that pairs of one left stand together.
        hashes: uint64, shingle hashes of all texts, distinct within a text, none of them 0.
        offsets: int64, where the set of each text begins in ``hashes``.
        sizes: int64, how many hashes each text has, at least 1.
        threshold: least similarity.
    """
    return _jaccard(pairs, hashes, offsets, sizes, threshold)


@inlined
def _least_shared(together: int, threshold: float) -> int:
    """Return the least intersection whose Jaccard, in float64, reaches the threshold.

    ``shared / (together - shared) >= t`` means ``shared >= together * t / (1 + t)``; the estimate is
    corrected by the very comparison that decides, so rounding cannot part the two.
    """
    shared = np.int64(together * threshold / (1.0 + threshold))
    while shared > 0 and (shared - 1) / (together - (shared - 1)) >= threshold:
        shared -= 1
    while shared < together and shared / (together - shared) < threshold:
        shared += 1
    return int(shared)


@kernel
def _jaccard(pairs: UInt64, hashes: UInt64, offsets: Int64, sizes: Int64, threshold: float) -> Float64:
    out = np.empty(len(pairs), dtype=np.float64)
    table = np.zeros(1024, dtype=np.uint64)
    mask = np.uint64(0)
    entered = np.int64(-1)
    for index in range(len(pairs)):
        left = np.int64(pairs[index] >> np.uint64(32))
        right = np.int64(pairs[index] & np.uint64(0xFFFFFFFF))
        if left != entered:
            places = np.int64(16)
            while places < 2 * sizes[left]:
                places *= 2
            if places > len(table):
                table = np.zeros(places, dtype=np.uint64)
            else:
                table[:places] = np.uint64(0)
            mask = np.uint64(places - 1)
            for step in range(sizes[left]):
                value = hashes[offsets[left] + step]
                at = value & mask
                while table[at] != np.uint64(0):
                    at = (at + np.uint64(1)) & mask
                table[at] = value
            entered = left
        together = sizes[left] + sizes[right]
        wanted = _least_shared(together, threshold)
        missing = sizes[right] - wanted
        shared = np.int64(0)
        for step in range(sizes[right]):
            value = hashes[offsets[right] + step]
            at = value & mask
            while table[at] != np.uint64(0) and table[at] != value:
                at = (at + np.uint64(1)) & mask
            if table[at] == value:
                shared += 1
            else:
                missing -= 1
                if missing < 0:
                    break
        out[index] = shared / (together - shared) if missing >= 0 else -1.0
    return out
