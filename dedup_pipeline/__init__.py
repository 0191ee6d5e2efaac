"""Find duplicates and near-duplicates in crawl dumps.

The names below are the public face. They are resolved on first use, so that importing the package
loads none of the libraries behind them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup_pipeline.config import Config, load_config
    from dedup_pipeline.errors import DedupError
    from dedup_pipeline.near import minhash_signatures, near_duplicates, shingle_hashes
    from dedup_pipeline.pipeline import run
    from dedup_pipeline.records import record_fingerprint
    from dedup_pipeline.result import RunResult
    from dedup_pipeline.store.seen_files import load_seen, save_seen
    from dedup_pipeline.urls import canonicalize_url
    from dedup_pipeline.urls.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter
    from dedup_pipeline.urls.seen import ConfirmedBloom, ExactSet, RoutedSeenSet

__version__ = "0.1.0"

_HOMES = {
    "BloomFilter": "urls.bloom",
    "Config": "config",
    "ConfirmedBloom": "urls.seen",
    "CountingBloomFilter": "urls.bloom",
    "DedupError": "errors",
    "ExactSet": "urls.seen",
    "RoutedSeenSet": "urls.seen",
    "RunResult": "result",
    "ScalableBloomFilter": "urls.bloom",
    "canonicalize_url": "urls",
    "load_config": "config",
    "load_seen": "store.seen_files",
    "minhash_signatures": "near",
    "near_duplicates": "near",
    "record_fingerprint": "records",
    "run": "pipeline",
    "save_seen": "store.seen_files",
    "shingle_hashes": "near",
}

__all__ = [
    "BloomFilter",
    "Config",
    "ConfirmedBloom",
    "CountingBloomFilter",
    "DedupError",
    "ExactSet",
    "RoutedSeenSet",
    "RunResult",
    "ScalableBloomFilter",
    "canonicalize_url",
    "load_config",
    "load_seen",
    "minhash_signatures",
    "near_duplicates",
    "record_fingerprint",
    "run",
    "save_seen",
    "shingle_hashes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
