"""From a batch of documents to what the three stages compare.

`describe` is pure: rows in, arrays out. Every engine calls it on its own batches; what comes out does
not depend on which documents happen to share a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.arrow import string_buffers
from dedup_pipeline.columns import holds_bytes, json_texts, plain_rows
from dedup_pipeline.compiled import Float64, Int64, UInt32, UInt64, is_compiled
from dedup_pipeline.config import Config
from dedup_pipeline.errors import SchemaMismatch
from dedup_pipeline.hashing import xxh3_128
from dedup_pipeline.keep import is_reading_order, policy_columns, priority_keys
from dedup_pipeline.near.lsh import Bands, choose_bands
from dedup_pipeline.near.minhash import band_keys, signatures
from dedup_pipeline.near.shingles import shingle_sets
from dedup_pipeline.records import Fingerprints, fingerprints
from dedup_pipeline.schema import ARCHIVE, SEEN, Bad, Batch
from dedup_pipeline.urls import STATUSES, UrlOptions, canonicalize_urls

_OK = STATUSES.index("ok")
_TOO_LONG = STATUSES.index("too_long")
_ROW_OVERHEAD = 16
"""Bytes that a row counts beside its values, so that rows of nothing still fill a row group."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What `describe` needs to know of a configuration."""

    id: str
    url: str
    text: str
    required: tuple[str, ...]
    urls: bool
    profile: str
    url_options: UrlOptions
    url_hosts: Mapping[str, UrlOptions]
    url_bytes: int
    fields: tuple[str, ...]
    normalisers: tuple[tuple[str, ...], ...]
    near: bool
    shingle: str
    n: int
    bands: Bands
    policy: tuple[str, ...]

    @property
    def text_is_record(self) -> bool:
        """Whether equal fingerprints mean equal texts, so that texts need no hash of their own."""
        return self.fields == (self.text,) and not any(self.normalisers)


def make_plan(config: Config) -> Plan:
    """Return the plan of a configuration."""
    columns = (config.input.id, config.input.url, config.input.text)
    text = config.input.text or "text"
    fields = config.records.fields
    chosen = () if fields == ("text",) and not config.input.text else fields
    near = config.near
    return Plan(
        id=config.input.id or "id",
        url=config.input.url or "url",
        text=text,
        required=tuple(dict.fromkeys([*filter(None, columns), *chosen, *policy_columns(config.keep.policy)])),
        urls=config.urls.enabled,
        profile=config.urls.profile,
        url_options=config.url_options(),
        url_hosts=config.host_options(),
        url_bytes=config.limits.url_bytes,
        fields=fields,
        normalisers=tuple(config.records.normalise.get(name, ()) for name in fields),
        near=near.enabled,
        shingle=near.shingle,
        n=near.n,
        bands=choose_bands(near.threshold, near.num_perm, near.target_recall),
        policy=() if is_reading_order(config.keep.policy) else config.keep.policy,
    )


@dataclass(frozen=True, slots=True)
class Described:
    """What the stages compare, one place per document of the batch, the unusable ones included.

    Attributes:
        positions: int64, strictly increasing.
        usable: bool, false for quarantined documents; their other values are neutral.
        ids: string or large_string.
        urls: string or large_string, null where there is none.
        canonical: the same, null where there is no key.
        url_keys: uint64 of shape (n, 2), hash of the canonical URL.
        has_url: bool.
        fingerprints: uint64 of shape (n, 2).
        has_fingerprint: bool.
        texts: uint64 of shape (n, 2), equal where the texts are.
        has_text: bool, false where the text is null, missing or "".
        sizes: int64, distinct shingles.
        hashes: uint64, the shingles of all documents, one after the other.
        bands: uint64 of shape (n, bands).
        priority: float64 of shape (n, 2 x criteria).
        weights: int64, bytes a row counts for in the output, by its values alone.
        rows: the usable rows.
        bad: what is wrong with the unusable ones.
    """

    positions: Int64
    usable: npt.NDArray[np.bool_]
    ids: pa.Array
    urls: pa.Array
    canonical: pa.Array
    url_keys: UInt64
    has_url: npt.NDArray[np.bool_]
    fingerprints: UInt64
    has_fingerprint: npt.NDArray[np.bool_]
    texts: UInt64
    has_text: npt.NDArray[np.bool_]
    sizes: Int64
    hashes: UInt64
    bands: UInt64
    priority: Float64
    weights: Int64
    rows: pa.RecordBatch
    bad: tuple[Bad, ...]


def ready() -> bool:
    """Return whether the kernels of `describe` are compiled or loaded in this process."""
    return is_compiled(xxh3_128)


def describe(batch: Batch, plan: Plan) -> Described:
    """Return what the stages compare of one batch.

    Raises:
        SchemaMismatch: a URL or text column of a typed source holds neither text nor a plain value.
        InputError: a keep policy met a value that it cannot order.
    """
    batch, urls, canonical, has_url = _urls(replace(batch, rows=plain_rows(batch.rows)), plan)
    rows, count = batch.rows, batch.rows.num_rows
    text = _text_of(rows, plan.text, batch.source)
    prints = _fingerprints(rows, plan)
    data, offsets = string_buffers(text)
    texts = prints.hashes if plan.text_is_record or not plan.near else xxh3_128(data, offsets)
    sizes, hashes, bands = np.zeros(count, np.int64), np.zeros(0, np.uint64), np.zeros((count, 0), np.uint64)
    if plan.near:
        hashes, ends = shingle_sets(data, offsets, plan.shingle, plan.n)
        signature: UInt32 = signatures(hashes, ends, plan.bands.bands * plan.bands.rows)
        sizes, bands = np.diff(ends), band_keys(signature, *plan.bands)
    spread = _Spread(batch)
    return Described(
        positions=spread.positions,
        usable=spread.usable,
        ids=spread.strings(_ids(batch, plan)),
        urls=spread.strings(urls),
        canonical=spread.strings(canonical),
        url_keys=spread.values(xxh3_128(*string_buffers(canonical))),
        has_url=spread.values(has_url),
        fingerprints=spread.values(prints.hashes),
        has_fingerprint=spread.values(prints.present),
        texts=spread.values(texts),
        has_text=spread.values(np.diff(offsets) > 0),
        sizes=spread.values(sizes),
        hashes=hashes,
        bands=spread.values(bands),
        priority=spread.values(priority_keys(plan.policy, rows, plan.text, batch.source, batch.positions)),
        weights=spread.values(_weights(rows)),
        rows=rows,
        bad=batch.bad,
    )


class _Spread:
    """Places values of usable rows among all documents of a batch, the unusable ones included."""

    def __init__(self, batch: Batch) -> None:
        good = np.asarray(batch.positions, dtype=np.int64)
        self.positions: Int64 = good
        self.usable = np.ones(len(good), dtype=np.bool_)
        self._whole = not batch.bad
        if batch.bad:
            bad = np.array([entry.position for entry in batch.bad], dtype=np.int64)
            self.positions = np.sort(np.concatenate([good, bad]))
            self.usable = np.isin(self.positions, good, assume_unique=True)
        self._places = np.flatnonzero(self.usable)

    def values(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values with zero in the places of unusable documents."""
        if self._whole:
            return values
        spread = np.zeros((len(self.usable), *values.shape[1:]), dtype=values.dtype)
        spread[self._places] = values
        return spread

    def strings(self, strings: pa.Array) -> pa.Array:
        """Return the strings with null in the places of unusable documents."""
        if self._whole:
            return strings
        indices = np.zeros(len(self.usable), dtype=np.int64)
        indices[self._places] = np.arange(len(self._places))
        return strings.take(pa.array(indices, mask=~self.usable))


def _urls(batch: Batch, plan: Plan) -> tuple[Batch, pa.Array, pa.Array, npt.NDArray[np.bool_]]:
    """Return the batch without the rows whose URL is too long, its URLs and their keys."""
    urls = _text_of(batch.rows, plan.url, batch.source)
    keys, codes = canonicalize_urls(
        urls, plan.profile, options=plan.url_options, hosts=plan.url_hosts, max_bytes=plan.url_bytes
    )
    long = codes == _TOO_LONG
    if long.any():
        keep = pa.array(~long)
        bad = [
            Bad(position, "url_too_long", f"the URL has more than limits.url_bytes = {plan.url_bytes} bytes")
            for position in batch.positions.filter(pa.array(long)).to_pylist()
        ]
        batch = Batch(
            source=batch.source,
            positions=batch.positions.filter(keep),
            rows=batch.rows.filter(keep),
            bad=tuple(sorted([*batch.bad, *bad], key=lambda entry: entry.position)),
            skipped=batch.skipped,
            repaired=batch.repaired,
            bytes_read=batch.bytes_read,
        )
        urls, keys, codes = urls.filter(keep), keys.filter(keep), codes[~long]
    if not plan.urls:
        return batch, urls, pa.nulls(len(urls), keys.type), np.zeros(len(urls), dtype=np.bool_)
    return batch, urls, keys, codes == _OK


def _text_of(rows: pa.RecordBatch, name: str, source: str) -> pa.Array:
    """Return a column as strings; nulls where the rows lack it."""
    index = rows.schema.get_field_index(name)
    if index < 0:
        return pa.nulls(rows.num_rows, pa.string())
    column = rows.column(index)
    if column.type == SEEN:
        return column.field("text")
    if pa.types.is_nested(column.type) or holds_bytes(column.type):
        raise SchemaMismatch(
            f"{source}: column {name!r} is {column.type}, but text is needed there. Name another column in [input]."
        )
    return column if column.type == pa.string() else column.cast(pa.string())


def _ids(batch: Batch, plan: Plan) -> pa.Array:
    """Return the id column; for archives the record id; else, and where that is null, SOURCE#POSITION."""
    names = batch.rows.schema.names
    column = plan.id if plan.id in names else "record_id" if batch.rows.schema.equals(ARCHIVE) else None
    ids = pa.nulls(batch.rows.num_rows, pa.string()) if column is None else _text_of(batch.rows, column, batch.source)
    if not ids.null_count:
        return ids
    made = pa.array([f"{batch.source}#{position}" for position in batch.positions.to_pylist()], pa.string())
    return pc.coalesce(ids, made.cast(ids.type))


def _fingerprints(rows: pa.RecordBatch, plan: Plan) -> Fingerprints:
    columns = [rows.column(name) if name in rows.schema.names else None for name in plan.fields]
    digests = rows.column("payload_digest") if rows.schema.equals(ARCHIVE) else None
    return fingerprints(columns, rows.num_rows, plan.normalisers, digests)


def _weights(rows: pa.RecordBatch) -> Int64:
    """Return the bytes that each row counts for: those of its texts, and the widths of the rest."""
    weights = np.full(rows.num_rows, _ROW_OVERHEAD, dtype=np.int64)
    for column in rows.columns:
        texts = column.field("text") if column.type == SEEN else column
        if pa.types.is_nested(texts.type):
            weights += np.array([len(text or "") for text in json_texts(texts)], dtype=np.int64)
        elif texts.type in (pa.string(), pa.binary()):
            weights += np.diff(string_buffers(texts)[1])
        elif texts.type != pa.null():
            weights += texts.type.bit_width // 8
    return weights
