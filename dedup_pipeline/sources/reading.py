"""One source, whatever it is, as batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Batch
from dedup_pipeline.sources.archives import read_archive
from dedup_pipeline.sources.extraction import Extraction
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.formats import HEAD, recognise
from dedup_pipeline.sources.frames import Arc, Warc
from dedup_pipeline.sources.json_array import read_json
from dedup_pipeline.sources.jsonl import read_jsonl
from dedup_pipeline.sources.options import ReadOptions
from dedup_pipeline.sources.parquet import read_parquet
from dedup_pipeline.sources.streams import ByteStream, StreamFault
from dedup_pipeline.sources.tabular import read_csv


def read_source(source: Source, options: ReadOptions, extraction: Extraction | None = None) -> Iterator[Batch]:
    """The documents of ``source``, in order; an empty file gives no batch.

    The borders between batches depend on `ReadOptions`, what is read does not.

    Args:
        source: the file.
        options: limits and sizes of batches.
        extraction: the pool for texts of archives; None: one of its own, should it be needed.

    Raises:
        SourceBroken: after everything whole has been yielded, where the file is damaged, cut short,
            unreadable, or of no format that is read.
    """
    try:
        stream = ByteStream(source.path, options.decompression_ratio)
    except StreamFault as fault:
        raise SourceBroken(source.name, 0, fault.reason, fault.detail) from fault
    with stream:
        kind = _kind(source, stream, options)
        if kind == "jsonl":
            yield from read_jsonl(source, stream, options)
        elif kind == "json":
            yield from read_json(source, stream, options)
        elif kind == "csv":
            yield from read_csv(source, stream, options)
        elif kind == "parquet":
            yield from read_parquet(source, options)
        elif kind is not None:
            own = Extraction(options.extractors) if extraction is None else None
            with own if own is not None else nullcontext(extraction) as pool:
                if pool is not None:
                    yield from read_archive(source, stream, Warc() if kind == "warc" else Arc(), options, pool)


def _kind(source: Source, stream: ByteStream, options: ReadOptions) -> str | None:
    head = stream.peek(HEAD)
    try:
        if not head:
            stream.read()  # nothing there, or a fault from the first byte on
        kind: str | None = options.format
        if kind == "auto" or not head:
            try:
                kind = recognise(head, source.name)
            except StreamFault:
                while len(head) < HEAD and stream.read():
                    pass  # a container that is broken explains it better
                raise
        if kind == "parquet" and stream.codec is not None:
            raise StreamFault("unknown_format", f"a Parquet file inside {stream.codec}; unpack it")
    except StreamFault as fault:
        raise SourceBroken(source.name, 0, fault.reason, fault.detail) from fault
    return kind
