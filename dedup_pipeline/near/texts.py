"""The near stage over texts in memory: for notebooks and for whoever brings a pipeline of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.arrow import string_buffers
from dedup_pipeline.compiled import UInt32, UInt64
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.near.lsh import candidate_pairs, choose_bands
from dedup_pipeline.near.minhash import band_keys, signatures
from dedup_pipeline.near.shingles import KINDS, ShingleSets, shingle_sets
from dedup_pipeline.near.verify import jaccard_of_pairs

_PAIRS_AT_ONCE = 1 << 18
_KEYS_AT_ONCE = 1 << 26

PAIRS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("similarity", pa.float64())])


def shingle_hashes(text: str | bytes, *, shingle: str = "word", n: int = 3) -> UInt64:
    """Return the distinct 64-bit shingle hashes of one text, uint64, in order of first occurrence.

    Args:
        text: a text, or its UTF-8 bytes; what is no UTF-8 counts as U+FFFD.
        shingle: ``word`` or ``char``.
        n: words or characters in a shingle.

    >>> len(shingle_hashes("the cat sat on the mat"))
    4
    """
    return _sets([text], shingle, n).hashes


def minhash_signatures(
    texts: Iterable[str | None] | pa.Array | pa.ChunkedArray | Any,
    *,
    num_perm: int = 128,
    shingle: str = "word",
    n: int = 3,
) -> UInt32:
    """Return MinHash signatures, uint32 of shape (texts, num_perm), in datasketch's ``affine32`` scheme.

    Args:
        texts: strings, UTF-8 bytes or None; a list, an Arrow array or a pandas series.
        num_perm: values in a signature.
        shingle: ``word`` or ``char``.
        n: words or characters in a shingle.

    Raises:
        ConfigError: a parameter is out of range.
        TypeError: a text is no string.
    """
    _check_permutations(num_perm)
    return signatures(*_sets(texts, shingle, n), num_perm)


def near_duplicates(
    texts: Iterable[str | None] | pa.Array | pa.ChunkedArray | Any,
    *,
    threshold: float = 0.8,
    shingle: str = "word",
    n: int = 3,
    num_perm: int = 128,
    target_recall: float = 0.99,
) -> pa.Table:
    """Return the pairs of texts whose true Jaccard similarity is at least ``threshold``.

    Candidates come from LSH, which finds a pair at the threshold with probability ``target_recall``;
    every one is verified, so no pair below the threshold is returned. Empty texts are like nothing.

    Returns:
        an Arrow table with columns ``a``, ``b`` (indices into ``texts``, a < b) and ``similarity``,
        sorted by a, then b.

    Raises:
        ConfigError: a parameter is out of range.
        TypeError: a text is no string.

    >>> near_duplicates(["the cat sat on the mat", "The cat sat on the mat!", "a dog"]).to_pylist()
    [{'a': 0, 'b': 1, 'similarity': 1.0}]
    """
    if not 0.0 < threshold <= 1.0:
        raise ConfigError(f"threshold = {threshold}: give a number above 0, at most 1")
    if not 0.0 < target_recall < 1.0:
        raise ConfigError(f"target_recall = {target_recall}: give a number between 0 and 1")
    _check_permutations(num_perm)
    sets = _sets(texts, shingle, n)
    sizes = np.diff(sets.offsets)
    some = np.flatnonzero(sizes)
    bands = choose_bands(threshold, num_perm, target_recall)
    keys = band_keys(signatures(*sets, bands.bands * bands.rows), *bands)
    members = keys[some]
    offsets, counts = sets.offsets[:-1][some], sizes[some]
    found: list[tuple[UInt64, npt.NDArray[np.float64]]] = []
    largest = np.zeros(1, dtype=np.int64)
    for pairs in candidate_pairs(members, counts, threshold, _PAIRS_AT_ONCE, _KEYS_AT_ONCE, largest):
        pairs.sort()
        similarities = jaccard_of_pairs(pairs, sets.hashes, offsets, counts, threshold)
        passed = similarities >= threshold
        found.append((pairs[passed], similarities[passed]))
    together = np.concatenate([pairs for pairs, _ in found] or [np.zeros(0, np.uint64)])
    values = np.concatenate([similarities for _, similarities in found] or [np.zeros(0)])
    order = np.argsort(together)
    left = some[(together[order] >> np.uint64(32)).astype(np.int64)]
    right = some[(together[order] & np.uint64(0xFFFFFFFF)).astype(np.int64)]
    return pa.table([pa.array(left), pa.array(right), pa.array(values[order])], schema=PAIRS)


def _sets(texts: Any, shingle: str, n: int) -> ShingleSets:
    if shingle not in KINDS:
        raise ConfigError(f"shingle = {shingle!r}: give one of {', '.join(KINDS)}")
    if n < 1:
        raise ConfigError(f"n = {n}: give at least 1")
    return shingle_sets(*string_buffers(_as_strings(texts)), shingle, n)


def _check_permutations(num_perm: int) -> None:
    if num_perm < 1:
        raise ConfigError(f"num_perm = {num_perm}: give at least 1")


def _as_strings(texts: Any) -> pa.Array:
    """Return texts as one Arrow array of strings or binary."""
    if isinstance(texts, str | bytes):
        raise ConfigError("texts is one text: give a list, an Arrow array or a pandas series of texts")
    if isinstance(texts, pa.ChunkedArray):
        # To bytes, not to strings: bytes need not be UTF-8.
        return texts.cast(pa.large_binary()).combine_chunks()
    if isinstance(texts, pa.Array):
        return texts
    if hasattr(texts, "__arrow_array__") or hasattr(texts, "array"):
        try:
            return _as_strings(pa.chunked_array([pa.array(texts, from_pandas=True)]))
        except UnicodeEncodeError:  # a lone surrogate, which Arrow refuses; below it is replaced
            texts = texts.astype(object).where(texts.notna(), None)
    return pa.array([_as_bytes(text) for text in texts], pa.large_binary())


def _as_bytes(text: Any) -> bytes | None:
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    if text is None or isinstance(text, bytes):
        return text
    raise TypeError(f"a text is a {type(text).__name__}: give strings, bytes or None")
