"""Loads at any alignment, the wide product, and kernels where no cache folder can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dedup_pipeline
from dedup_pipeline import compiled
from dedup_pipeline.compiled import high_product, inlined, kernel, load32, load64

LAWS = settings(deadline=None, max_examples=200)
WORDS = st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 1, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1])


@numba.njit
def _eight(content: Any, at: Any) -> Any:
    return load64(content, at)


@numba.njit
def _four(content: Any, at: Any) -> Any:
    return load32(content, at)


@numba.njit
def _upper(left: Any, right: Any) -> Any:
    return high_product(left, right)


def test_loads_are_little_endian_at_every_alignment() -> None:
    content = np.random.default_rng(1).integers(0, 256, 100, dtype=np.uint8)
    for at in range(93):
        assert _eight(content, at) == int.from_bytes(content[at : at + 8].tobytes(), "little")
    for at in range(97):
        assert _four(content, at) == int.from_bytes(content[at : at + 4].tobytes(), "little")


def test_loads_are_unsigned() -> None:
    content = np.full(8, 0xFF, dtype=np.uint8)
    assert _eight(content, 0) == (1 << 64) - 1
    assert _four(content, 0) == (1 << 32) - 1
    assert _four(content, 4) == (1 << 32) - 1


@LAWS
@given(WORDS, WORDS)
def test_high_product(left: int, right: int) -> None:
    assert int(_upper(np.uint64(left), np.uint64(right))) == left * right >> 64


def _twice(value: int) -> int:
    """Return twice the value."""
    return 2 * value


@pytest.mark.parametrize("decorate", [kernel, inlined])
def test_a_kernel_keeps_its_name_and_docstring_and_releases_the_lock(decorate: Any) -> None:
    made = decorate(_twice)
    assert made(21) == 42
    assert made.__name__ == "_twice"
    assert made.__doc__ == "Return twice the value."
    assert made.py_func is _twice
    assert made.targetoptions["nogil"] is True
    assert made.targetoptions["nopython"] is True


@pytest.mark.parametrize("decorate", [kernel, inlined])
def test_without_a_cache_the_kernel_is_compiled_all_the_same(decorate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As numba refuses to decorate with ``cache=True`` where it finds no folder."""
    asked: list[bool] = []
    njit = numba.njit

    def refusing(*arguments: Any, cache: bool, **options: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function '_twice': no locator available")
        return njit(*arguments, cache=cache, **options)

    monkeypatch.setattr(compiled.numba, "njit", refusing)
    made = decorate(_twice)
    assert asked == [True, False]
    assert made(21) == 42
    assert made.targetoptions["nogil"] is True


SCRIPT = """
import numpy as np
import dedup_pipeline
from dedup_pipeline.near import lsh
from dedup_pipeline.near.cluster import count_degrees

print(dedup_pipeline.__file__)
degrees = np.zeros(4, dtype=np.int64)
count_degrees(np.array([(0 << 32) | 2, (1 << 32) | 2], dtype=np.uint64), degrees)
print(degrees.tolist(), type(count_degrees._cache).__name__)
"""


def _alone(folder: Path, **environment: str) -> list[str]:
    """Run `SCRIPT` with the package copied to ``folder``, warnings being errors."""
    package = folder / "dedup_pipeline"
    shutil.copytree(Path(dedup_pipeline.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for source in [package, *package.rglob("*")]:
        if source.is_dir():
            (source / "__pycache__").write_text("a file where a folder should be")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", SCRIPT],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    where, *lines = ran.stdout.splitlines()
    assert Path(where).parent == package
    return lines


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Files stand where the cache folders would: beside the package, in the home folder and where numba is told to."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    lines = _alone(tmp_path, NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked), HOME=str(blocked))
    assert lines == ["[0, 1, 1, 2] NullCache"]


def test_where_only_the_users_cache_folder_can_be_written(tmp_path: Path) -> None:
    lines = _alone(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path))
    assert lines == ["[0, 1, 1, 2] FunctionCache"]
    assert list((tmp_path / "cache").rglob("*count_degrees*.nbi"))
