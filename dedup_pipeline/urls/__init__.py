"""The URL stage: canonical URLs, seen-sets, sitemaps.

``canonicalize_url`` is light; ``canonicalize_urls``, its form over Arrow arrays, loads numba when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedup_pipeline.urls.canonical import CANONICAL_VERSION, PROFILES, STATUSES, CanonicalURL, canonicalize_url
from dedup_pipeline.urls.clearurls import load_clearurls
from dedup_pipeline.urls.options import UrlOptions

if TYPE_CHECKING:
    from dedup_pipeline.urls.bulk import canonicalize_urls

__all__ = [
    "CANONICAL_VERSION",
    "PROFILES",
    "STATUSES",
    "CanonicalURL",
    "UrlOptions",
    "canonicalize_url",
    "canonicalize_urls",
    "load_clearurls",
]


def __getattr__(name: str) -> object:
    if name == "canonicalize_urls":
        from dedup_pipeline.urls.bulk import canonicalize_urls

        return canonicalize_urls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
