"""``manifest.json``: what a run read, decided and wrote, with its probabilistic answers' errors."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from dedup_pipeline.config import Config
from dedup_pipeline.documents import Plan
from dedup_pipeline.engines import arrays
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.local import Groups, Near
from dedup_pipeline.errors import DedupError
from dedup_pipeline.ledger import Outcome
from dedup_pipeline.near.cluster import KEPT, NEAR, QUARANTINED, RECORDS, SWALLOWED, URLS
from dedup_pipeline.near.lsh import candidate_probability
from dedup_pipeline.near.minhash import MINHASH_SCHEME, SEED
from dedup_pipeline.near.shingles import SHINGLE_SCHEME
from dedup_pipeline.near.unicode_tables import load_tables
from dedup_pipeline.records import FINGERPRINT_SCHEME
from dedup_pipeline.sources import Source, extractor_version
from dedup_pipeline.urls import CANONICAL_VERSION

_LIBRARIES = ("pyarrow", "numpy", "numba", "duckdb", "xxhash", "fastwarc", "resiliparse")
_CURVE = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)


def counts_of(documents: Gathered, outcome: Outcome) -> dict[str, Any]:
    """Return the counts of a run, in all and per source.

    Raises:
        DedupError: the documents read are not exactly those kept, dropped and quarantined.
    """
    per_source = np.zeros((len(documents.sources), SWALLOWED + 1), dtype=np.int64)
    changed = arrays.count_fates(documents.source, outcome.fates, outcome.same_content, per_source)
    read = np.array(documents.read_of, dtype=np.int64)
    total = per_source.sum(axis=0)
    if int(total.sum()) != len(documents) or (per_source.sum(axis=1) != read).any():
        raise DedupError(
            f"{len(documents):,} documents were read but {int(total.sum()):,} accounted for; nothing was published. "
            "This is a fault of dedup-pipeline: please report it with the manifest of an earlier run."
        )
    return {
        "read": len(documents),
        **_fates(total),
        "urls_changed": changed,
        "no_fingerprint": arrays.count_lacking(documents.usable, documents.has_print),
        "no_text": arrays.count_lacking(documents.usable, documents.has_text),
        "repaired": documents.repaired,
        "skipped": dict(sorted(documents.skipped.items())),
        "sources": [
            {
                "source": name,
                "read": int(read[index]),
                **_fates(per_source[index]),
                "skipped": dict(sorted(documents.skipped_of[index].items())),
            }
            for index, name in enumerate(documents.sources)
        ],
    }


def _fates(row: Any) -> dict[str, Any]:
    return {
        "kept": int(row[KEPT]),
        "dropped": {"urls": int(row[URLS] + row[SWALLOWED]), "records": int(row[RECORDS]), "near": int(row[NEAR])},
        "quarantined": int(row[QUARANTINED]),
    }


def lsh_of(config: Config, plan: Plan, near: Near) -> dict[str, Any]:
    """Return the shape of the banded index and what it promises."""
    bands, rows = plan.bands
    threshold = config.near.threshold
    return {
        "num_perm": config.near.num_perm,
        "bands": bands,
        "rows": rows,
        "threshold": threshold,
        "target_recall": config.near.target_recall,
        "recall_at_threshold": candidate_probability(threshold, bands, rows),
        "curve": {str(point): candidate_probability(point, bands, rows) for point in _CURVE},
        "distinct_texts": len(near.numbers),
        "candidate_pairs": near.candidates,
        "verified_pairs": len(near.neighbours.others) // 2,
        "largest_bucket": near.largest_bucket,
        "capped_buckets": 0,
    }


def seen_of(config: Config, groups: Groups, outcome: Outcome) -> dict[str, Any]:
    """Return what the seen-set of URLs did, and what it is expected to have lost."""
    seen = groups.seen
    return {
        "kind": seen.kind,
        "chosen": config.urls.seen,
        "capacity": seen.capacity,
        "inserted": seen.inserted,
        "fill": seen.fill,
        "error_rate": seen.error_rate,
        "final_error_rate": seen.final_error_rate,
        "expected_lost": seen.expected_lost,
        "dropped": arrays.count_fate(outcome.fates, SWALLOWED),
    }


def schemes() -> dict[str, str]:
    """Return the names and versions of everything that takes part in a key, hash or decision."""
    return {
        "canonical_url": CANONICAL_VERSION,
        "fingerprint": FINGERPRINT_SCHEME,
        "shingles": SHINGLE_SCHEME,
        "unicode": load_tables().version,
        "minhash": f"{MINHASH_SCHEME}, seed {SEED}",
        "extractor": extractor_version(),
    }


def inputs_of(sources: list[Source], digests: list[str]) -> list[dict[str, Any]]:
    """Return name, bytes and digest of each source."""
    return [
        {"source": source.name, "bytes": source.size, "xxh3_128": digest}
        for source, digest in zip(sources, digests, strict=True)
    ]


def environment_of(config: Config) -> Mapping[str, Any]:
    """Return what may differ between two equal runs."""
    return {
        "threads": config.threads,
        "memory_limit": config.memory_limit,
        "batch_rows": config.input.batch_rows,
        "inputs": list(config.inputs),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }
