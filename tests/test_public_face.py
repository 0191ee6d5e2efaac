"""What users import, and what importing costs them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import dedup_pipeline
from dedup_pipeline import errors

HEAVY = ("pandas", "matplotlib", "pyspark", "redis", "scrapy", "numba", "duckdb")


def imported_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.split())


def test_all_names_are_sorted_and_have_a_home() -> None:
    assert dedup_pipeline.__all__ == sorted(dedup_pipeline._HOMES)
    assert dir(dedup_pipeline) == dedup_pipeline.__all__


@pytest.mark.parametrize("name", dedup_pipeline.__all__)
def test_every_name_resolves_to_a_documented_object(name: str) -> None:
    value = getattr(dedup_pipeline, name)
    assert inspect.getdoc(value)
    assert value.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        dedup_pipeline.no_such_name  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not imported_by("import dedup_pipeline") & {*HEAVY, "pyarrow", "numpy"}


def test_the_whole_pipeline_leaves_the_optional_ones_out() -> None:
    assert not imported_by("import dedup_pipeline.cli") & {*HEAVY, "pyarrow", "numpy"}
    code = (
        "import dedup_pipeline as d; d.canonicalize_url('http://a.example/'); d.load_config(inputs=['x'], output='y')"
    )
    assert not imported_by(code) & {"pandas", "matplotlib", "pyspark", "redis", "scrapy", "numba", "duckdb"}


def test_a_run_of_the_command_line_needs_no_pandas(tmp_path: object) -> None:
    code = f"""
import sys
from pathlib import Path
folder = Path({str(tmp_path)!r})
(folder / "in.jsonl").write_text('{{"id": 1, "text": "a b c"}}\\n')
from dedup_pipeline.cli import app
try:
    app(["run", str(folder / "in.jsonl"), "-o", str(folder / "out"), "-q"])
except SystemExit as end:
    assert not end.code, end.code
"""
    loaded = imported_by(code)
    assert not loaded & {"pandas", "matplotlib", "pyspark", "redis", "scrapy"}
    assert "numba" in loaded


def test_pandas_is_there_for_whoever_asks_later() -> None:
    code = """
from dedup_pipeline.cli import _leave_pandas_out
_leave_pandas_out()
import pyarrow as pa
assert "pandas" not in sys.modules
print(pa.table({"a": [1]}).to_pandas()["a"].tolist())
"""
    assert "pandas" in imported_by(code)


def drawn() -> dict[str, tuple[str, int | None]]:
    """Parent and exit code of each class in the tree of the module's docstring."""
    tree: dict[str, tuple[str, int | None]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([ │├└─]*)(\w+Error|\w+Broken|\w+Mismatch|\w+Records|\w+Stop|\w+Full)\s+(\d+)?", line)
        if not found:
            continue
        depth = len(found[1]) // 4
        path = [*path[:depth], found[2]]
        tree[found[2]] = (path[-2] if depth else "Exception", int(found[3]) if found[3] else None)
    return tree


def test_the_drawn_tree_of_errors_is_the_real_one() -> None:
    real = {name: cls for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, Exception)}
    tree = drawn()
    assert tree.keys() == real.keys()
    for name, (parent, code) in tree.items():
        assert real[name].__bases__[0].__name__ == parent
        if code is not None:
            assert real[name].exit_code == code


def test_one_text_where_several_are_meant_is_refused() -> None:
    with pytest.raises(dedup_pipeline.DedupError, match="one text"):
        dedup_pipeline.near_duplicates("abc")
    with pytest.raises(dedup_pipeline.DedupError, match="one text"):
        dedup_pipeline.record_fingerprint({"text": "a"}, "text")


def test_one_input_may_stand_alone() -> None:
    assert dedup_pipeline.load_config(inputs="crawl", output="out").inputs == ("crawl",)
