"""What all tests share: where the data lies, what runs at night, and one way to call a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# oracle.py and url_strategies.py are imported by their bare names, whatever import mode pytest runs in.
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "urls")]


# Kernels compile when they are first called, so the time of one example says nothing. The examples are the same
# in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dedup", settings.get_profile("explore"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dedup"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also run the tests that take minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: takes more than 20 seconds; runs only with --nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    slow = [test for test in items if "nightly" in test.keywords]
    config.hook.pytest_deselected(items=slow)
    items[:] = [test for test in items if "nightly" not in test.keywords]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of large test data, which is no part of the repository."""
    named = os.environ.get("DEDUP_SHARED_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set DEDUP_SHARED_DATA to the folder that holds corpus/ and labelled/")
    return folder


@pytest.fixture(scope="session")
def sample() -> Path:
    """The sample crawl of the repository."""
    return REPOSITORY / "data" / "sample"


@dataclass(frozen=True)
class Outcome:
    """What a run left: its folder, its manifest as written and as returned, and its tables."""

    output: Path
    manifest: dict[str, Any]
    ledger: pa.Table
    returned: dict[str, Any]

    def table(self, name: str) -> pa.Table:
        """All rows of ``kept``, ``pairs``, ``quarantine`` or ``ledger`` as they stand on disk."""
        from oracle import read_tables  # noqa: PLC0415 - found only since sys.path was extended

        return read_tables(self.output / name)

    @property
    def kept(self) -> set[tuple[str, int]]:
        """(source, position) of the kept documents."""
        columns = (self.ledger.column(name).to_pylist() for name in ("source", "position", "status"))
        return {(source, position) for source, position, status in zip(*columns, strict=True) if status == "kept"}


Runner = Callable[..., Outcome]


@pytest.fixture(scope="session")
def run_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """``run_pipeline(inputs, {"near.threshold": 0.8}, threads=2)`` through the Python face."""

    def call(inputs: Sequence[Path], settings: Mapping[str, Any] | None = None, threads: int = 2) -> Outcome:
        import dedup_pipeline  # noqa: PLC0415 - the oracle's own tests need no package

        output = tmp_path_factory.mktemp("run") / "out"
        config = dedup_pipeline.load_config(
            None, inputs=[str(path) for path in inputs], output=output, set=dict(settings or {}), threads=threads
        )
        result = dedup_pipeline.run(config)
        assert Path(result.output) == output
        manifest = json.loads((output / "manifest.json").read_bytes())
        assert result.counts == manifest["counts"]
        return Outcome(output, manifest, result.ledger(), result.manifest)

    return call


CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command_line() -> CommandLine:
    """``command_line("run", "a.jsonl", "--output", "out", PYTHONHASHSEED="1")`` in a process of its own."""

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dedup_pipeline", *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )

    return call
