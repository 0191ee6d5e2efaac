"""From files on disk to batches of documents.

`find_sources` turns the arguments of a user into `Source`s, `read_source` reads one of them as
`dedup_pipeline.schema.Batch`es, `Extraction` is the pool of processes that turns HTML into text.
Names are resolved on first use, so that the extraction workers, which live below this package,
start without pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dedup_pipeline.sources.extraction import Extraction, extractor_version
    from dedup_pipeline.sources.find import Source, digest_source, find_sources
    from dedup_pipeline.sources.options import ReadOptions
    from dedup_pipeline.sources.reading import read_source

__all__ = [
    "Extraction",
    "ReadOptions",
    "Source",
    "digest_source",
    "extractor_version",
    "find_sources",
    "read_source",
]

_HOMES = {
    "Extraction": "extraction",
    "ReadOptions": "options",
    "Source": "find",
    "digest_source": "find",
    "extractor_version": "extraction",
    "find_sources": "find",
    "read_source": "reading",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
