"""Locality-sensitive hashing: which pairs of signatures are worth comparing.

A signature of b bands of r values makes a pair of Jaccard similarity s a candidate with probability
``1 - (1 - s^r)^b`` (Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4). More bands
find more, more rows find less. Bands and rows are chosen for recall; precision is verification's part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dedup_pipeline.compiled import Int64, UInt64, kernel

MOST_TEXTS = 1 << 32
"""A pair is packed into one uint64, so a machine holds at most so many distinct texts."""


class Bands(NamedTuple):
    """The shape of a banded index: ``bands`` buckets a signature, each of ``rows`` values."""

    bands: int
    rows: int


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """Return the chance that a pair of this Jaccard similarity shares a bucket.

    >>> round(candidate_probability(0.8, bands=9, rows=13), 3)
    0.399
    """
    return float(1.0 - (1.0 - similarity**rows) ** bands)


def choose_bands(threshold: float, num_perm: int, target_recall: float) -> Bands:
    """Return the shape that reaches ``target_recall`` at ``threshold`` with the fewest needless candidates.

    That is the most rows for which enough bands fit into ``num_perm`` values, then the fewest bands.
    Where nothing reaches the target, the shape with the highest recall: one row a band.

    >>> choose_bands(0.8, num_perm=128, target_recall=0.99)
    Bands(bands=16, rows=6)
    """
    for rows in range(num_perm, 0, -1):
        for bands in range(1, num_perm // rows + 1):
            if candidate_probability(threshold, bands, rows) >= target_recall:
                return Bands(bands, rows)
    return Bands(num_perm, 1)


def candidate_pairs(
    keys: UInt64, sizes: Int64, threshold: float, pairs_at_once: int, keys_at_once: int, largest: Int64
) -> Iterator[UInt64]:
    """Yield every pair of texts that shares a bucket, once, as ``left << 32 | right`` with left < right.

    A pair that meets in several bands is yielded in the first of them, so nothing has to be remembered.
    Pairs whose set sizes alone keep their Jaccard below the threshold are left out, since
    ``J <= smaller / larger``.

    Args:
        keys: uint64 of shape (n, bands), the band keys: a text's keys lie together, since whether two texts
            met in an earlier band is asked for every pair.
        sizes: int64 of shape (n,), distinct shingles of each text; texts without any must not be here.
        threshold: least Jaccard similarity.
        pairs_at_once: most pairs in one array.
        keys_at_once: most keys sorted in memory; a band with more is taken in slices of the key space.
        largest: int64 of one place, raised to the number of texts in the largest bucket met.

    Yields:
        uint64 arrays of at most ``pairs_at_once`` pairs, in no promised order.
    """
    texts = keys.shape[0]
    if texts >= MOST_TEXTS:
        raise ValueError(f"{texts} distinct texts are more than {MOST_TEXTS - 1}")
    slices = max(1, -(-texts // keys_at_once))
    out = np.empty(pairs_at_once, dtype=np.uint64)
    for band in range(keys.shape[1]):
        for part in range(slices):
            members, ordered = _slice_of(keys[:, band], part, slices)
            order = np.argsort(ordered)
            members, ordered = members[order], ordered[order]
            largest[0] = max(largest[0], _longest_run(ordered))
            place = np.zeros(2, dtype=np.int64)
            while place[0] < len(members):
                count = _emit(ordered, members, keys, band, sizes, threshold, place, out)
                if count:
                    yield out[:count].copy()


@kernel
def number_texts(groups: Int64, documents: Int64, sizes: Int64, texts: Int64, firsts: Int64) -> int:
    """Number the distinct texts in priority order; return how many there are.

    Args:
        groups: int64 by rank, the least rank with the same text, -1 without one.
        documents: int64 by rank, the document's number.
        sizes: int64 by document, distinct shingles; a document without any has no text here.
        texts: int64 by rank, written: the text's number, or -1.
        firsts: int64, written: for each text the number of its first document in priority.
    """
    count = 0
    for rank in range(len(groups)):
        group = groups[rank]
        if group < 0 or sizes[documents[rank]] == 0:
            texts[rank] = -1
        elif group == rank:
            texts[rank] = count
            firsts[count] = documents[rank]
            count += 1
        else:
            texts[rank] = texts[group]
    return count


@kernel
def gather_keys(bands: UInt64, documents: Int64, keys: UInt64) -> None:
    """Write the band keys of the named documents: ``keys[i] = bands[documents[i]]``."""
    for at in range(len(documents)):
        row = bands[documents[at]]
        for band in range(len(row)):
            keys[at, band] = row[band]


def _slice_of(keys: UInt64, part: int, slices: int) -> tuple[Int64, UInt64]:
    """Return the texts whose key lies in one slice of the key space, and those keys."""
    if slices == 1:
        return np.arange(len(keys), dtype=np.int64), np.ascontiguousarray(keys)
    width = (1 << 64) // slices
    low, high = part * width, (1 << 64) - 1 if part == slices - 1 else (part + 1) * width - 1
    members = np.flatnonzero((keys >= np.uint64(low)) & (keys <= np.uint64(high))).astype(np.int64)
    return members, keys[members]


@kernel
def _longest_run(ordered: UInt64) -> int:
    longest, run = 0, 0
    for at in range(len(ordered)):
        run = run + 1 if at and ordered[at] == ordered[at - 1] else 1
        longest = max(longest, run)
    return longest


@kernel
def _emit(
    ordered: UInt64,
    members: Int64,
    keys: UInt64,
    band: int,
    sizes: Int64,
    threshold: float,
    place: Int64,
    out: UInt64,
) -> int:
    """Fill ``out`` with pairs from ``place`` on, which is moved on; return how many."""
    count = 0
    left_at, right_at = place[0], max(place[1], place[0] + 1)
    total = len(members)
    while left_at < total:
        one = members[left_at]
        while right_at < total and ordered[right_at] == ordered[left_at]:
            if count == len(out):
                place[0], place[1] = left_at, right_at
                return count
            other = members[right_at]
            right_at += 1
            left, right = min(one, other), max(one, other)
            smaller, larger = min(sizes[left], sizes[right]), max(sizes[left], sizes[right])
            if smaller / larger < threshold:
                continue
            met = False
            for earlier in range(band):
                if keys[left, earlier] == keys[right, earlier]:
                    met = True
                    break
            if not met:
                out[count] = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
                count += 1
        left_at += 1
        right_at = left_at + 1
    place[0], place[1] = total, total
    return count
