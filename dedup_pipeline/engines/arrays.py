"""Arithmetic over one value per document, in place in mapped arrays.

The numpy expressions would be shorter, but each makes an array of the size of the input in memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Bool, Float64, Int32, Int64, kernel
from dedup_pipeline.near.cluster import KEPT, NEAR, QUARANTINED, SWALLOWED, SWALLOWED_URL, URLS


@kernel
def count_up(out: Int64) -> None:
    """Write 0, 1, 2, ..."""
    for at in range(len(out)):
        out[at] = at


@kernel
def invert(numbers: Int64, ranks: Int64) -> None:
    """Write where each number stands: ``ranks[numbers[i]] = i``."""
    for rank in range(len(numbers)):
        ranks[numbers[rank]] = rank


@kernel
def pick(values: Int64, places: Int64, out: Int64) -> None:
    """Write ``values[places]``."""
    for at in range(len(places)):
        out[at] = values[places[at]]


@kernel
def starts_of(sizes: Int64, out: Int64) -> None:
    """Write where each of consecutive runs of these sizes begins."""
    begin = np.int64(0)
    for at in range(len(sizes)):
        out[at] = begin
        begin += sizes[at]


@kernel
def running_sum(values: Int64) -> None:
    """Replace each value by the sum of all up to it."""
    total = np.int64(0)
    for at in range(len(values)):
        total += values[at]
        values[at] = total


@kernel
def set_aside(usable: Bool, numbers: Int64, url_groups: Int64, fates: npt.NDArray[np.uint8]) -> None:
    """Mark by rank what is never judged, as `QUARANTINED` or `SWALLOWED`; everything else as `KEPT`, to be decided."""
    for rank in range(len(numbers)):
        if not usable[numbers[rank]]:
            fates[rank] = QUARANTINED
        else:
            fates[rank] = SWALLOWED if url_groups[rank] == SWALLOWED_URL else KEPT


@kernel
def count_fates(source: Int32, fates: npt.NDArray[np.uint8], same_content: Bool, counts: Int64) -> int:
    """Add up fates by source into ``counts``; return how many fell to another content at their URL."""
    changed = 0
    for at in range(len(fates)):
        counts[source[at], fates[at]] += 1
        if fates[at] == URLS and not same_content[at]:
            changed += 1
    return changed


@kernel
def count_true(values: Bool) -> int:
    """Return how many are true."""
    count = 0
    for value in values:
        if value:
            count += 1
    return count


@kernel
def stand_alone(present: Bool, numbers: Int64, groups: Int64) -> int:
    """Let each rank that has a key but no group yet stand for itself; return how many ranks are first of their key."""
    count = 0
    for rank in range(len(groups)):
        if groups[rank] < 0 and present[numbers[rank]]:
            groups[rank] = rank
        if groups[rank] == rank:
            count += 1
    return count


@kernel
def count_lacking(usable: Bool, present: Bool) -> int:
    """Return how many usable documents lack something."""
    count = 0
    for at in range(len(usable)):
        if usable[at] and not present[at]:
            count += 1
    return count


@kernel
def text_pairs(
    firsts: Int64,
    starts: Int64,
    others: npt.NDArray[np.uint32],
    similarities: Float64,
    left: Int64,
    right: Int64,
    values: Float64,
) -> None:
    """Write the pairs of texts once each, as numbers of their first documents."""
    filled = 0
    for text in range(len(starts) - 1):
        for at in range(starts[text], starts[text + 1]):
            if others[at] > text:
                left[filled], right[filled], values[filled] = firsts[text], firsts[others[at]], similarities[at]
                filled += 1


@kernel
def keeper_pairs(
    fates: npt.NDArray[np.uint8],
    keepers: Int64,
    similarities: Float64,
    numbers: Int64,
    left: Int64,
    right: Int64,
    values: Float64,
) -> None:
    """Write each document that fell in the near stage with its keeper."""
    filled = 0
    for rank in range(len(fates)):
        if fates[rank] == NEAR:
            left[filled], right[filled] = numbers[rank], numbers[keepers[rank]]
            values[filled] = similarities[rank]
            filled += 1


@kernel
def count_fate(fates: npt.NDArray[np.uint8], fate: int) -> int:
    """Return how many documents have this fate."""
    count = 0
    for at in range(len(fates)):
        if fates[at] == fate:
            count += 1
    return count
