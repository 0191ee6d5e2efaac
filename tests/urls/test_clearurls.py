"""Rules in the format of ClearURLs: reading them, what is refused, what they do."""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls import UrlOptions, canonicalize_url, load_clearurls
from dedup_pipeline.urls.clearurls import RefusedPattern

FIXTURE = Path(__file__).parent / "clearurls.json"


def written(folder: Path, tree: Any) -> Path:
    path = folder / "rules.json"
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


def one_provider(**entries: Any) -> dict[str, Any]:
    return {"providers": {"one": {"urlPattern": "example", **entries}}}


def cleaned(path: Path, url: str, **switches: bool) -> str:
    return canonicalize_url(url, options=UrlOptions(clearurls=load_clearurls(path, **switches))).key


def test_a_pattern_that_re2_refuses_is_listed_by_name() -> None:
    rules = load_clearurls(FIXTURE)
    assert [provider.name for provider in rules.providers] == ["all", "shop"]
    assert rules.refused == (RefusedPattern("look", "urlPattern", "(?=x)", "invalid perl operator: (?="),)


def test_a_refused_rule_goes_alone_but_a_refused_exception_takes_its_provider_along(tmp_path: Path) -> None:
    rules = load_clearurls(written(tmp_path, one_provider(rules=["a", "b(?!c)"], rawRules=["(x)\\1"])))
    assert [(entry.kind, entry.pattern) for entry in rules.refused] == [("rules", "b(?!c)"), ("rawRules", "(x)\\1")]
    assert (rules.providers[0].rules, rules.providers[0].raw_rules) == (("a",), ())
    rules = load_clearurls(written(tmp_path, one_provider(rules=["a"], exceptions=["(?<=x)y"])))
    assert rules.providers == ()
    assert [entry.kind for entry in rules.refused] == ["exceptions"]
    assert canonicalize_url("http://example/?a=1", options=UrlOptions(clearurls=rules)) == "http://example/?a=1"


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("{", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ([], 'no table "providers"'),
        ({}, 'no table "providers"'),
        ({"providers": {"one": 1}}, "provider 'one': urlPattern must be a text"),
        ({"providers": {"one": {}}}, "urlPattern must be a text"),
        (one_provider(rules="a"), "rules must be a list of texts"),
        (one_provider(rawRules=[1]), "rawRules must be a list of texts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_not_in_the_format_is_refused_by_name(tmp_path: Path, tree: Any, words: str) -> None:
    with pytest.raises(ConfigError, match="ClearURLs file .*rules.json") as caught:
        load_clearurls(written(tmp_path, tree))
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.json", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=words):
            load_clearurls(path)
    with pytest.raises(ConfigError, match="Name a readable"):
        load_clearurls("a\0b")


def test_without_re2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ConfigError, match=r"dedup-pipeline\[clearurls\]"):
        load_clearurls(FIXTURE)


def test_no_provider_is_no_rule(tmp_path: Path) -> None:
    assert cleaned(written(tmp_path, {"providers": {}}), "http://e.com/?a=1") == "http://e.com/?a=1"


def test_rules_are_whole_names_in_any_case(tmp_path: Path) -> None:
    path = written(tmp_path, one_provider(rules=["a|b", "(?:p_)?c[0-9]*"]))
    assert cleaned(path, "http://example/?A=1&b&ab=2&c=3&P_C77=4&cc=5") == "http://example/?ab=2&cc=5"


def test_what_a_raw_rule_leaves_must_be_a_url(tmp_path: Path) -> None:
    path = written(tmp_path, one_provider(rawRules=["http://", "/x"]))
    assert cleaned(path, "http://example/x/y") == "http://example/y"


def test_a_redirection_that_leads_nowhere_is_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path, one_provider(redirections=["to=([^&]*)", "out"], rules=["a"]))
    for target in ("x", "", "ftp%3A%2F%2Fx%2F"):
        url = f"http://example/out?to={target}"
        assert cleaned(path, f"{url}&a=1", redirections=True) == url
    assert cleaned(path, "http://example/out?to=http://x/y", redirections=True) == "http://x/y"


def test_equality_is_that_of_the_file_and_the_switches(tmp_path: Path) -> None:
    one, same, other = load_clearurls(FIXTURE), load_clearurls(FIXTURE), load_clearurls(FIXTURE, redirections=True)
    assert one == same and hash(one) == hash(same) and one != other
    assert one != load_clearurls(written(tmp_path, one_provider()))
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.providers == one.providers
    assert "providers" not in repr(one)


def test_patterns_that_would_backtrack_take_linear_time(tmp_path: Path) -> None:
    path = written(tmp_path, {"providers": {"one": {"urlPattern": "(a+)+$", "rules": ["(a|aa)+b"]}}})
    started = time.perf_counter()
    cleaned(path, "http://e.com/?" + "a" * 10_000 + "!")
    assert time.perf_counter() - started < 1.0
