"""The near stage: texts that are nearly the same.

Reading order: `unicode_tables`, `shingles` (text to a set of hashes), `minhash` (set to signature),
`lsh` (signatures to candidate pairs), `verify` (the true similarity of each), `cluster` (who is kept).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup_pipeline.near.texts import minhash_signatures, near_duplicates, shingle_hashes

__all__ = ["minhash_signatures", "near_duplicates", "shingle_hashes"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from dedup_pipeline.near import texts

        return getattr(texts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
