"""What ends a run before anything is published, and what it warns of."""

from __future__ import annotations

from typing import Any

import numpy as np

from dedup_pipeline.config import Config, SafetyConfig, UrlsConfig
from dedup_pipeline.documents import Plan
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.errors import SafetyStop
from dedup_pipeline.ledger import Outcome
from dedup_pipeline.near.cluster import NEAR
from dedup_pipeline.near.lsh import candidate_probability

_SHOWN_PATTERNS = 20
_LEAST_SOURCE = 1000
"""Documents below which a source is too small for its share of duplicates to say anything."""


_NEARLY_FULL = 0.8


def check(counts: dict[str, Any], outcome: Outcome, documents: Gathered, safety: SafetyConfig) -> None:
    """Stop a run whose near stage would remove suspiciously much.

    Raises:
        SafetyStop: naming the source or the cluster.
    """
    for source in counts["sources"]:
        lost, read = source["dropped"]["near"], source["read"]
        if read >= _LEAST_SOURCE and lost > safety.max_dropped_fraction * read:
            raise SafetyStop(
                f"{source['source']}: the near stage would drop {lost:,} of {read:,} documents, more than "
                f"safety.max_dropped_fraction = {safety.max_dropped_fraction}. Nothing was published. Look at the "
                "pairs with a higher near.threshold, or raise the limit if this is what you expect."
            )
    keeper, size = _largest_cluster(outcome, safety.max_cluster)
    if size > safety.max_cluster:
        raise SafetyStop(
            f"{size:,} documents would become the one at {documents.sources[documents.source[keeper]]}, record "
            f"{documents.positions[keeper]}, more than safety.max_cluster = {safety.max_cluster:,}. Nothing was "
            "published. Look whether that page is a template, or raise the limit."
        )


def _largest_cluster(outcome: Outcome, limit: int) -> tuple[int, int]:
    """Return keeper and size of the largest cluster of the near stage above ``limit``, else (0, 0).

    What fell to the same keeper by URL or fingerprint is no guess, and does not count.
    """
    if not len(outcome.fates) or int(outcome.cluster_sizes.max()) <= limit:
        return 0, 0
    fallen = np.bincount(outcome.keepers[outcome.fates == NEAR], minlength=1)
    return int(fallen.argmax()), int(fallen.max()) + 1


def warnings(counts: dict[str, Any], seen: dict[str, Any], config: Config, plan: Plan) -> list[str]:
    """Return what a person should know about the result, a sentence each."""
    said = _seen_warnings(seen, config.urls)
    dropped = sum(counts["dropped"].values())
    if counts["quarantined"]:
        said.append(f"{counts['quarantined']:,} documents could not be used: see quarantine.")
    if counts["repaired"]:
        said.append(f"{counts['repaired']:,} records held text that is no UTF-8; what is written has U+FFFD there.")
    if counts["urls_changed"]:
        said.append(
            f"{counts['urls_changed']:,} records at a known URL had other content and were dropped "
            '(urls.changed = "keep" passes them on).'
        )
    if counts["no_text"] and counts["no_text"] * 2 > counts["read"]:
        said.append(f"{counts['no_text']:,} of {counts['read']:,} documents have no text: is input.text right?")
    if config.clearurls is not None and config.clearurls.refused:
        refused = config.clearurls.refused
        shown = "; ".join(f"{entry.provider}, {entry.kind}: {entry.pattern}" for entry in refused[:_SHOWN_PATTERNS])
        more = f"; and {len(refused) - _SHOWN_PATTERNS} more" if len(refused) > _SHOWN_PATTERNS else ""
        said.append(f"RE2 refuses {len(refused):,} patterns of urls.clearurls, which were left out: {shown}{more}.")
    if counts["read"] and not dropped:
        said.append("No duplicate was found.")
    for source in counts["sources"]:
        lost, read = sum(source["dropped"].values()), source["read"]
        if read >= _LEAST_SOURCE and lost > config.safety.max_dropped_fraction * read:
            said.append(f"{source['source']} lost {lost:,} of {read:,} documents in all stages: is that expected?")
    recall = candidate_probability(config.near.threshold, *plan.bands)
    if config.near.enabled and recall < config.near.target_recall:
        said.append(
            f"{config.near.num_perm} permutations reach a recall of {recall:.3f} at the threshold, below "
            f"near.target_recall = {config.near.target_recall}; raise near.num_perm."
        )
    return said


def _seen_warnings(seen: dict[str, Any], urls: UrlsConfig) -> list[str]:
    """Return what the lossy filter did: nothing else loses a URL."""
    if seen["kind"] != "bloom":
        return []
    said = [
        (
            f"The Bloom filter called the URLs of {seen['dropped']:,} documents seen, and they were dropped. About "
            f"{seen['expected_lost']:.3g} of these URLs were new; urls.seen = 'confirmed' would lose none."
        )
    ]
    if urls.capacity == "auto":
        return said
    given = int(urls.capacity)
    if seen["inserted"] > given:
        said.append(
            f"The filter grew from urls.capacity = {given:,} to {seen['capacity']:,} URLs; its error rate stays "
            f"below {urls.error_rate:g}, but a larger capacity takes less memory and time."
        )
    elif seen["inserted"] >= _NEARLY_FULL * given:
        said.append(
            f"{seen['inserted']:,} URLs fill {100 * seen['inserted'] / given:.0f} % of urls.capacity = {given:,}: "
            f"raise it before the next run{'' if urls.full == 'grow' else ', which would stop when it is full'}."
        )
    return said
