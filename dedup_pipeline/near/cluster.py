"""The rule across all stages: who is kept, and whom the others fall to.

Records are taken in priority order. A record falls to an already kept record in the first stage whose
test that pair passes; else it is kept. So every cluster is a star: each member has itself passed a
stage's test against the keeper in the middle, and nothing is dropped because of a chain.

Within one key (canonical URL, fingerprint, text) at most one record is ever kept, since the next one
with that key falls to it; so one place per key is all the memory the rule needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Float64, Int64, UInt64, kernel

KEPT, URLS, RECORDS, NEAR, QUARANTINED, SWALLOWED = 0, 1, 2, 3, 4, 5
"""What became of a document: kept, dropped in a stage, never judged, or called seen by a lossy filter."""

STAGES = (None, "urls", "records", "near", None, "urls")

SWALLOWED_URL = -2
"""In place of a URL group: a lossy filter calls this URL seen, and nobody knows whose it was."""


class Neighbours(NamedTuple):
    """Verified near-duplicate pairs of texts, both directions, grouped by text.

    Attributes:
        starts: int64 of n + 1; the neighbours of text i are ``others[starts[i]:starts[i + 1]]``.
        others: uint32, ascending within a text.
        similarities: float64, the true Jaccard.
    """

    starts: Int64
    others: npt.NDArray[np.uint32]
    similarities: Float64


class Verdicts(NamedTuple):
    """What became of each record, by priority rank.

    Attributes:
        fates: uint8, `KEPT`, `URLS`, `RECORDS`, `NEAR`, `QUARANTINED` or `SWALLOWED`.
        keepers: int64, the rank of the kept record a dropped one fell to; its own where it is kept; -1 for the rest.
        similarities: float64; NaN where the stage has none.
    """

    fates: npt.NDArray[np.uint8]
    keepers: Int64
    similarities: Float64


def decide(
    url_groups: Int64,
    record_groups: Int64,
    texts: Int64,
    neighbours: Neighbours,
    places: tuple[Int64, Int64, Int64],
    verdicts: Verdicts,
) -> None:
    """Write into ``verdicts`` what becomes of each record.

    Args:
        url_groups: int64 by rank: the rank of the first record with the same key, negative without one.
        record_groups: the same for fingerprints.
        texts: int64 by rank: number of the text in ``neighbours``, -1 where the near stage has no say.
        neighbours: verified pairs of texts.
        places: int64 arrays filled with -1, a place per rank, per rank and per text, for the kept record
            of each URL, fingerprint and text.
        verdicts: arrays to fill, one place a record; what is `QUARANTINED` or `SWALLOWED` there already stays so.
    """
    _decide(url_groups, record_groups, texts, *neighbours, *places, *verdicts)


@kernel
def _decide(
    url_groups: Int64,
    record_groups: Int64,
    texts: Int64,
    starts: Int64,
    others: npt.NDArray[np.uint32],
    similarities: Float64,
    kept_of_url: Int64,
    kept_of_print: Int64,
    kept_of_text: Int64,
    fates: npt.NDArray[np.uint8],
    keepers: Int64,
    results: Float64,
) -> None:
    for rank in range(len(url_groups)):
        if fates[rank] != KEPT:
            continue
        url, fingerprint, text = url_groups[rank], record_groups[rank], texts[rank]
        if url >= 0 and kept_of_url[url] >= 0:
            fates[rank], keepers[rank], results[rank] = URLS, kept_of_url[url], np.nan
            continue
        if fingerprint >= 0 and kept_of_print[fingerprint] >= 0:
            fates[rank], keepers[rank], results[rank] = RECORDS, kept_of_print[fingerprint], 1.0
            continue
        if text >= 0:
            best, keeper = -1.0, np.int64(-1)
            if kept_of_text[text] >= 0:
                best, keeper = 1.0, kept_of_text[text]
            for at in range(starts[text], starts[text + 1]):
                other = kept_of_text[others[at]]
                if other >= 0:
                    similarity = similarities[at]
                    if similarity > best or (similarity == best and other < keeper):
                        best, keeper = similarity, other
            if keeper >= 0:
                fates[rank], keepers[rank], results[rank] = NEAR, keeper, best
                continue
            kept_of_text[text] = rank
        fates[rank], keepers[rank], results[rank] = KEPT, rank, np.nan
        if url >= 0:
            kept_of_url[url] = rank
        if fingerprint >= 0:
            kept_of_print[fingerprint] = rank


@kernel
def count_degrees(pairs: UInt64, degrees: Int64) -> None:
    """Add to ``degrees[i + 1]`` the pairs that text i is in; ``pairs`` holds ``left << 32 | right``."""
    for pair in pairs:
        degrees[np.int64(pair >> np.uint64(32)) + 1] += 1
        degrees[np.int64(pair & np.uint64(0xFFFFFFFF)) + 1] += 1


@kernel
def place_pairs(
    pairs: UInt64, values: Float64, cursors: Int64, others: npt.NDArray[np.uint32], similarities: Float64
) -> None:
    """Put each pair into both texts' rows of a `Neighbours`; ``cursors`` says where the next goes."""
    for index in range(len(pairs)):
        left = np.int64(pairs[index] >> np.uint64(32))
        right = np.int64(pairs[index] & np.uint64(0xFFFFFFFF))
        others[cursors[left]] = right
        similarities[cursors[left]] = values[index]
        cursors[left] += 1
        others[cursors[right]] = left
        similarities[cursors[right]] = values[index]
        cursors[right] += 1


@kernel
def sort_rows(starts: Int64, others: npt.NDArray[np.uint32], similarities: Float64) -> None:
    """Sort each text's neighbours ascending, so that nothing depends on the order pairs were found in."""
    for text in range(len(starts) - 1):
        start, end = starts[text], starts[text + 1]
        if end - start > 1:
            order = np.argsort(others[start:end])
            others[start:end] = others[start:end][order]
            similarities[start:end] = similarities[start:end][order]
