"""The report: one page that shows the counts and cannot run, fetch or steer anything."""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner
from fates import write_fates

from dedup_pipeline.report import render_report

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"onload='alert(1)",
    "</style><script>",
    "</td></table><iframe src=http://127.0.0.1:1/>",
    "&lt;b&gt;",
    "]]>--><!--",
]
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "ul", "li"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "span"),
}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "scope"}


class Page(HTMLParser):
    """What a browser would take from the page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.policy = ""
        self.texts: list[str] = []
        self.cells: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = {name: value or "" for name, value in attrs}
        self.attributes.update(given.items())
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag != "meta":
            self._inside.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, "tags that do not nest"

    def handle_data(self, text: str) -> None:
        if self._inside and self._inside[-1] == "style":
            assert "<" not in text
            return
        self.texts.append(text)
        if self._inside and self._inside[-1] == "td":
            self.cells[-1] += text

    @property
    def text(self) -> str:
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, run_pipeline: Runner) -> Outcome:
    return run_pipeline([write_fates(tmp_path_factory.mktemp("fates"))])


@pytest.fixture
def manifest(outcome: Outcome) -> dict[str, Any]:
    return copy.deepcopy(outcome.manifest)


def test_the_page_written_is_the_page_of_the_manifest(outcome: Outcome) -> None:
    assert (outcome.output / "report.html").read_text(encoding="utf-8") == render_report(outcome.manifest)


def test_nothing_is_fetched_and_nothing_runs(manifest: dict[str, Any]) -> None:
    text = render_report(manifest)
    page = Page(text)
    assert page.policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert page.tags == TAGS
    assert {name for name, _ in page.attributes} == ATTRIBUTES
    assert not re.search(r"https?:|//|url\(|@import|javascript:|data:", text.replace("<!doctype", ""))
    for name, value in page.attributes:
        if name == "style":
            assert re.fullmatch(r"width:\d+\.\d\d%", value)


def test_the_page_shows_the_counts(manifest: dict[str, Any]) -> None:
    page = Page(render_report(manifest))
    assert "12 documents read: 4 kept, 7 dropped, 1 quarantined." in page.text
    rows = [page.cells[at : at + 7] for at in range(len(page.cells))]
    assert ["crawl/a.jsonl", "9", "3", "3", "1", "1", "1"] in rows
    assert ["crawl/b.jsonl", "3", "1", "0", "1", "1", "0"] in rows
    for warning in manifest["warnings"]:
        assert warning in page.text
    assert manifest["run"][:8] in page.text
    assert f"{manifest['lsh']['recall_at_threshold']:.4f}" in page.text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_words_are_shown_and_nothing_more(manifest: dict[str, Any], hostile: str) -> None:
    manifest["counts"]["sources"][0]["source"] = hostile
    manifest["counts"]["skipped"] = {hostile: 1}
    manifest["warnings"] = [hostile]
    manifest["config"]["records"]["fields"] = [hostile]
    manifest["config"]["input"]["text"] = hostile
    page = Page(render_report(manifest))
    assert page.tags == TAGS
    assert {name for name, _ in page.attributes} == ATTRIBUTES
    assert page.cells.count(hostile) == 2  # source and kind
    assert page.texts.count(hostile) == 3  # and the warning
    assert page.cells.count(json.dumps(hostile)) == 1
    assert page.cells.count(json.dumps([hostile])) == 1


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>.jsonl", "a&b'\".jsonl", "\x1b[31m.jsonl"])
def test_hostile_names_of_files(tmp_path: Path, run_pipeline: Runner, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text('{"text": "<script>alert(2)</script>", "url": "http://u:s3cret@a.test/"}\n')
    outcome = run_pipeline([tmp_path / "in"])
    text = (outcome.output / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags <= TAGS
    assert f"in/{name}" in page.cells
    assert "s3cret" not in text
    assert "alert(2)" not in text


def test_equal_runs_have_equal_pages(tmp_path: Path, run_pipeline: Runner) -> None:
    crawl = write_fates(tmp_path)
    pages = [
        (run_pipeline([crawl], {"input.batch_rows": rows}, threads=threads).output / "report.html").read_bytes()
        for rows, threads in ((10_000, 2), (2, 1))
    ]
    assert pages[0] == pages[1]


def test_times_and_surroundings_do_not_show(manifest: dict[str, Any]) -> None:
    before = render_report(manifest)
    for key in ("timings", "environment", "created", "files"):
        del manifest[key]
    assert render_report(manifest) == before


def test_a_run_that_read_nothing(tmp_path: Path, run_pipeline: Runner) -> None:
    (tmp_path / "none.jsonl").write_text("")
    outcome = run_pipeline([tmp_path / "none.jsonl"])
    page = Page((outcome.output / "report.html").read_text(encoding="utf-8"))
    assert "0 documents read" in page.text


@pytest.mark.parametrize(("count", "more"), [(500, ""), (501, "and 1 more sources"), (2500, "and 2,000 more sources")])
def test_of_many_sources_the_first_500_are_shown(manifest: dict[str, Any], count: int, more: str) -> None:
    (first, *_) = manifest["counts"]["sources"]
    manifest["counts"]["sources"] = [{**first, "source": f"in/{number}"} for number in range(count)]
    page = Page(render_report(manifest))
    assert sum(cell.startswith("in/") for cell in page.cells) == 500
    assert ("more sources" in page.text) == bool(more)
    assert more in page.text


def test_no_report_where_none_is_wanted(tmp_path: Path) -> None:
    import dedup_pipeline

    config = dedup_pipeline.load_config(inputs=[write_fates(tmp_path)], output=tmp_path / "out", report=False)
    dedup_pipeline.run(config)
    assert not (tmp_path / "out" / "report.html").exists()
