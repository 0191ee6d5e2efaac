"""Canonical URLs of a whole Arrow column.

Equal to the single form on every URL; URLs that a scan of the bytes finds canonical already never become
Python objects. Safe to call from several threads at once; the scan runs without the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.compiled import Bool, Bytes, Int64
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.canonical import MAX_BYTES, RuleSet, canonical_key, rule_set, usable_base
from dedup_pipeline.urls.options import UrlOptions
from dedup_pipeline.urls.rules import apply_pair_rules
from dedup_pipeline.urls.scan import NOT_SURE, ONLY_PAIRS, Scanner, gather, kept_lengths, scanner

NULL_STATUS: Final = 255
"""Status code of a null."""

_LARGEST_INT32: Final = 2**31 - 1
Offsets = npt.NDArray[np.signedinteger]
Bases: TypeAlias = pa.Array | str | None
_scanner: Final = lru_cache(maxsize=64)(scanner)


def _scanner_of(rules: RuleSet) -> Scanner:
    return _scanner(rules.profile, rules.options, tuple(host for host, _ in rules.hosts))


def _as_plain(urls: pa.Array) -> pa.Array:
    """The same values as a string or large_string array; raises ConfigError for other types."""
    if pa.types.is_dictionary(urls.type):
        urls = urls.dictionary_decode()
    if pa.types.is_string(urls.type) or pa.types.is_large_string(urls.type):
        return urls
    if pa.types.is_string_view(urls.type):
        return urls.cast(pa.large_string())
    if pa.types.is_null(urls.type):
        return urls.cast(pa.string())
    raise ConfigError(f"URLs must be text, but the column is of type {urls.type}; name a text column as url")


def _views(urls: pa.Array) -> tuple[Bytes, Offsets, Bool]:
    """Bytes, offsets and validity of a string array, without copying text; slices are respected."""
    count = len(urls)
    width = np.int64 if pa.types.is_large_string(urls.type) else np.int32
    _, offsets_buffer, text_buffer = urls.buffers()
    if count == 0 or offsets_buffer is None:
        offsets: Offsets = np.zeros(count + 1, width)
    else:
        offsets = np.frombuffer(offsets_buffer, width, count + 1, urls.offset * np.dtype(width).itemsize)
    text = np.zeros(0, np.uint8) if text_buffer is None else np.frombuffer(text_buffer, np.uint8)
    if urls.null_count == 0:
        return text, offsets, np.ones(count, np.bool_)
    return text, offsets, np.asarray(urls.is_valid())


def _pairs_applied(url: str, rules: RuleSet, keep_empty_query: bool) -> str:
    """The key of a URL of which only the query's pairs may change."""
    head, _, query = url.partition("?")
    query = apply_pair_rules(query, rules.rules, [])
    return f"{head}?{query}" if query or keep_empty_query else head


def _other_keys(
    text: Bytes, offsets: Offsets, lengths: Int64, where: Int64, rules: RuleSet, bases: Bases, max_bytes: int
) -> tuple[list[bytes], npt.NDArray[np.uint8]]:
    """Keys (empty where the status is not ok) and status codes of the URLs at ``where``, which the scan left open."""
    keep_empty_query = _scanner_of(rules).keep_empty_query
    keys: list[bytes] = []
    codes = np.zeros(len(where), np.uint8)
    starts, ends, found = offsets[where].tolist(), offsets[where + 1].tolist(), lengths[where].tolist()
    base = bases if isinstance(bases, str) else None
    for n, (start, end, length) in enumerate(zip(starts, ends, found, strict=True)):
        if length == NOT_SURE:
            if isinstance(bases, pa.Array):
                base = bases[int(where[n])].as_py()
            key, code = canonical_key(text[start:end].tobytes(), rules, max_bytes, base)
            codes[n] = code
            keys.append(key.encode("ascii") if code == 0 else b"")
        else:
            url = text[start : start + ONLY_PAIRS - length].tobytes().decode("ascii")
            keys.append(_pairs_applied(url, rules, keep_empty_query).encode("ascii"))
    return keys, codes


def _bases(base: Bases, count: int) -> Bases:
    if not isinstance(base, pa.Array):
        return usable_base(base)
    if len(base) != count:
        raise ConfigError(f"There are {count} URLs but {len(base)} bases; give one for each, null where there is none")
    return _as_plain(base)


def canonicalize_urls(
    urls: pa.Array,
    profile: str = "default",
    *,
    options: UrlOptions | None = None,
    hosts: Mapping[str, UrlOptions] | None = None,
    base: Bases = None,
    max_bytes: int = MAX_BYTES,
) -> tuple[pa.Array, npt.NDArray[np.uint8]]:
    """The keys and status codes of a column of URLs.

    Args:
        urls: string, large_string, string_view or dictionary array, sliced or not, nulls allowed.
        profile: as for ``canonicalize_url``.
        options: the same.
        hosts: the same.
        base: as for ``canonicalize_url``; or an array of text as long as ``urls``, one base for each.
        max_bytes: as for ``canonicalize_url``.

    Returns:
        keys: string array (large_string where the input is large, or the keys would not fit), as long as
            ``urls``; null where the URL is null or its status is not ``ok``.
        codes: uint8, as long as ``urls``: index into ``STATUSES``, 255 where the URL is null.

    Raises:
        ConfigError: an unknown profile, a name in ``hosts`` that is no host, or a column that is not text.

    >>> keys, codes = canonicalize_urls(pa.array(["http://e.com/a#top", None, "mailto:x"]))
    >>> keys.to_pylist(), codes.tolist()
    (['http://e.com/a', None, None], [0, 255, 1])
    """
    rules = rule_set(profile, options, hosts)
    plain = _as_plain(urls)
    bases = _bases(base, len(plain))
    text, offsets, valid = _views(plain)
    lengths = np.empty(len(plain), np.int64)
    unsure = kept_lengths(text, offsets, valid, _scanner_of(rules), max_bytes, lengths)
    codes = np.where(valid, np.uint8(0), np.uint8(NULL_STATUS))
    if unsure == 0 and valid.all() and np.array_equal(lengths, np.diff(offsets)):
        return plain, codes
    where = np.flatnonzero(lengths < 0)
    keys, codes[where] = _other_keys(text, offsets, lengths, where, rules, bases, max_bytes)
    lengths[where] = np.fromiter(map(len, keys), np.int64, len(keys))
    starts = np.full(len(plain), -1, np.int64)
    starts[where] = np.cumsum(lengths[where]) - lengths[where]
    return _built(text, offsets, lengths, b"".join(keys), starts, codes, plain.type), codes


def _built(
    text: Bytes,
    offsets: Offsets,
    lengths: Int64,
    other: bytes,
    starts: Int64,
    codes: npt.NDArray[np.uint8],
    kind: pa.DataType,
) -> pa.Array:
    """The array of keys, from the two texts they are cut out of; null where the code is not 0."""
    target_offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=target_offsets[1:])
    total = int(target_offsets[-1])
    target = np.empty(total, np.uint8)
    gather(text, offsets, np.frombuffer(other, np.uint8), starts, target_offsets, target)
    large = pa.types.is_large_string(kind) or total > _LARGEST_INT32
    kept = codes == 0
    nulls = len(kept) - int(kept.sum())
    bitmap = pa.py_buffer(np.packbits(kept, bitorder="little")) if nulls else None
    ends = target_offsets if large else target_offsets.astype(np.int32)
    buffers = [bitmap, pa.py_buffer(ends), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.large_string() if large else pa.string(), len(lengths), buffers, nulls)
