"""The whole run on the sample: every planted document ends as planned."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.conftest import Runner


def test_every_planted_document_ends_as_planned(sample: Path, run_pipeline: Runner) -> None:
    outcome = run_pipeline([sample])
    found = {row["id"]: row for row in outcome.ledger.to_pylist()}
    with open(sample.parent / "expected.csv", encoding="utf-8", newline="") as file:
        planned = [row for row in csv.DictReader(file) if row["expected"] != "skipped"]
    assert len(planned) == len(found) > 800
    wrong = [
        (row["plant"], row["id"], row["expected"], row["stage"], got["status"], got["stage"], got["duplicate_of"])
        for row in planned
        for got in [found[row["id"]]]
        if (row["expected"], row["stage"] or None, row["keeper"] or None)
        != (got["status"], got["stage"], got["duplicate_of"])
    ]
    assert not wrong
