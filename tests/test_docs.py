"""The documents are true: their examples run, the files they name exist, the settings they list are the real ones."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from dedup_pipeline.cli import app
from dedup_pipeline.config import _SECTIONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(ROOT.glob("docs/*.md"))

if not PAGES:
    pytest.skip("the documents are no part of the built package", allow_module_level=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_a_page_runs(page: Path) -> None:
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
    assert results.attempted > 0 or ">>>" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|toml|md))`", text))
    links = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "dedup_pipeline"))]
    missing += [target for target in links if not (page.parent / target).exists()]
    assert not [name for name in missing if name != "doc/xxhash_spec.md"]  # of xxHash


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_begins_with_two_sentences_and_two_commands() -> None:
    title, sentences, *rest = readme().split("\n\n")
    assert title == "# dedup-pipeline"
    assert len(re.findall(r"[.](?:\s|$)", sentences)) == 2
    commands = re.findall(r"^```sh\n(.*?)\n```$", "\n\n".join(rest[:5]), re.DOTALL | re.MULTILINE)
    assert len(commands) == 2
    assert "run data/sample" in commands[0]
    assert "pytest" in commands[1]


def test_the_readme_names_every_setting_and_no_other() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)\n```$", readme(), re.DOTALL | re.MULTILINE)
    listed: dict[str, set[str]] = {}
    section = ""
    for line in block.splitlines():
        if found := re.match(r"\[(\w+)\]", line):
            section = found[1]
        listed.setdefault(section, set()).update(re.findall(r"(\w+) = ", line))
    real = {name: {entry.name for entry in fields(kind)} for name, kind in _SECTIONS.items()}
    listed["records"] -= {"title", "text"}  # columns in examples
    assert listed == real


def test_the_readme_names_every_option_of_a_run() -> None:
    command = typer.main.get_command(app)
    options = {name for entry in command.commands["run"].params for name in entry.opts if name.startswith("--")}  # type: ignore[attr-defined]
    missing = {name for name in options if f"`{name}" not in readme() and f" {name}" not in readme()}
    assert not missing


@pytest.mark.parametrize("promise", ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"])
def test_the_readme_keeps_or_owns_up_to_every_promise(promise: str) -> None:
    assert re.search(rf"\b{promise}\b", readme())
