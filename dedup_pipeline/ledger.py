"""The tables beside the kept rows: what became of each document, which pairs are near, what was unusable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dedup_pipeline.compiled import Int64, kernel
from dedup_pipeline.engines.gathered import Gathered
from dedup_pipeline.engines.local import Groups, Priority
from dedup_pipeline.near.cluster import NEAR, QUARANTINED, RECORDS, STAGES, SWALLOWED, URLS, Verdicts
from dedup_pipeline.schema import LEDGER, PAIRS, QUARANTINE

_STATUS = pa.array(["kept", "dropped", "dropped", "dropped", "quarantined", "dropped"])
_STAGE = pa.array(STAGES, pa.string())
_REASON = pa.array([None, "same_url", "same_fingerprint", "similar", None, "bloom"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of each document, by its number.

    Attributes:
        fates: uint8, as in `near.cluster`.
        keepers: int64, number of the keeper; the document's own where it is kept, -1 where there is none.
        similarities: float64, NaN where the stage has none.
        same_content: bool, whether document and keeper have one fingerprint, or neither has any.
        cluster_sizes: int64, the keeper and who fell to it; 0 where there is no keeper.
    """

    fates: npt.NDArray[np.uint8]
    keepers: Int64
    similarities: npt.NDArray[np.float64]
    same_content: npt.NDArray[np.bool_]
    cluster_sizes: Int64


def outcome_by_number(priority: Priority, groups: Groups, verdicts: Verdicts, outcome: Outcome) -> Outcome:
    """Fill ``outcome`` from verdicts by rank and return it."""
    _by_number(
        priority.numbers,
        groups.records,
        verdicts.fates,
        verdicts.keepers,
        verdicts.similarities,
        outcome.fates,
        outcome.keepers,
        outcome.similarities,
        outcome.same_content,
        outcome.cluster_sizes,
    )
    return outcome


@kernel
def _by_number(
    numbers: Int64,
    prints: Int64,
    fates: npt.NDArray[np.uint8],
    keepers: Int64,
    similarities: npt.NDArray[np.float64],
    fates_out: npt.NDArray[np.uint8],
    keepers_out: Int64,
    similarities_out: npt.NDArray[np.float64],
    same_content: npt.NDArray[np.bool_],
    cluster_sizes: Int64,
) -> None:
    for rank in range(len(numbers)):
        number, keeper = numbers[rank], keepers[rank]
        fates_out[number] = fates[rank]
        similarities_out[number] = similarities[rank]
        if keeper < 0:
            keepers_out[number] = -1
            continue
        keepers_out[number] = numbers[keeper]
        same_content[number] = prints[rank] == prints[keeper]
        cluster_sizes[numbers[keeper]] += 1
    for number in range(len(numbers)):
        if keepers_out[number] >= 0 and keepers_out[number] != number:
            cluster_sizes[number] = cluster_sizes[keepers_out[number]]


def ledger_rows(documents: Gathered, outcome: Outcome, run: str, start: int, end: int) -> Iterable[pa.RecordBatch]:
    """Yield the ledger of the documents from ``start`` to ``end``."""
    fates = outcome.fates[start:end]
    names = pa.array(documents.sources, pa.string())
    keepers = outcome.keepers[start:end]
    dropped = (fates == URLS) | (fates == RECORDS) | (fates == NEAR)
    others = pa.array(np.where(dropped, keepers, 0), mask=~dropped)
    places = np.where(dropped, keepers, start)
    reasons = pc.coalesce(documents.reasons[start:end].cast(pa.string()), _REASON.take(pa.array(fates)))
    yield pa.RecordBatch.from_arrays(
        [
            names.take(pa.array(documents.source[start:end])),
            pa.array(documents.positions[start:end]),
            _plain(documents.ids[start:end]),
            _plain(documents.urls[start:end]),
            _plain(documents.canonical[start:end]),
            _STATUS.take(pa.array(fates)),
            _STAGE.take(pa.array(fates)),
            reasons,
            _plain(documents.ids.take(others)),
            pa.array([run]).take(pa.array(np.zeros(len(fates), np.int64), mask=~dropped)),
            names.take(pa.array(documents.source[places], mask=~dropped)),
            pa.array(documents.positions[places], mask=~dropped),
            pa.array(outcome.similarities[start:end], mask=~((fates == RECORDS) | (fates == NEAR))),
            pa.array(outcome.same_content[start:end], mask=fates != URLS),
            pa.array(outcome.cluster_sizes[start:end], mask=(fates == QUARANTINED) | (fates == SWALLOWED)),
        ],
        schema=LEDGER,
    )


def pair_rows(documents: Gathered, numbered: pa.RecordBatch, run: str) -> pa.RecordBatch:
    """Return one batch of the pairs table from pairs of document numbers (a, b, similarity)."""
    names = pa.array(documents.sources, pa.string())
    columns: list[pa.Array] = []
    for side in ("a", "b"):
        numbers: npt.NDArray[Any] = numbered.column(side).to_numpy()
        columns += [
            pa.array([run]).take(pa.array(np.zeros(len(numbers), np.int64))),
            names.take(pa.array(documents.source[numbers])),
            pa.array(documents.positions[numbers]),
            _plain(documents.ids.take(pa.array(numbers))),
        ]
    return pa.RecordBatch.from_arrays([*columns, numbered.column("similarity")], schema=PAIRS)


def quarantine_rows(documents: Gathered, start: int, end: int) -> Iterable[pa.RecordBatch]:
    """Yield the unusable documents from ``start`` to ``end``."""
    places = start + np.flatnonzero(~documents.usable[start:end])
    chosen = pa.array(places)
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(documents.sources, pa.string()).take(pa.array(documents.source[places])),
            pa.array(documents.positions[places]),
            _plain(documents.reasons.take(chosen)),
            _plain(documents.details.take(chosen)),
        ],
        schema=QUARANTINE,
    )


def _plain(strings: pa.Array) -> pa.Array:
    return strings.cast(pa.string())
