"""The rules that turn a parsed URL into a key, one ordered list, each with a name and a switch.

``RULES`` is the whole truth: the canonical form applies those that the profile turns on, from first to
last. Rules see serialised WHATWG parts (ASCII). Each says whether it changed anything, and applied twice
changes nothing more; the order keeps that true of the list as a whole (escapes before anything that
compares text, path sessions before slashes, pairs last).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final, NamedTuple

from dedup_pipeline.urls.parsing import Parts
from dedup_pipeline.urls.tracking import TRACKING_PARAMETERS
from dedup_pipeline.urls.visits import is_visit_pair, strip_path_session

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_BARE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_SLASH_RUN: Final = re.compile(r"//+")
# Where a URL inside the path begins: "scheme://", its colon or slashes perhaps escaped, or "http:/" cut short.
_EMBEDDED: Final = re.compile(r"(?:[A-Za-z0-9+.\-](?::|%3A)(?=(?:/|%2F){2})|https?(?::|%3A)(?=/))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Profile:
    """Which rules apply: one switch per rule of ``RULES``, of the same name. Hashable."""

    name: str
    fragment: bool = True
    userinfo: bool = False
    host_dot: bool = False
    percent_bare: bool = False
    percent_unreserved: bool = False
    percent_case: bool = False
    path_session: bool = False
    duplicate_slashes: bool = False
    query_space: bool = False
    empty_pairs: bool = False
    tracking: bool = False
    visit_ids: bool = False
    query_sort: bool = False
    empty_query: bool = False


_EVERY_URL: Final = {field.name: True for field in fields(Profile) if field.name != "name"}
STRICT: Final = Profile("strict")
DEFAULT: Final = Profile("default", **(_EVERY_URL | {"path_session": False, "visit_ids": False}))
AGGRESSIVE: Final = Profile("aggressive", **_EVERY_URL)


def _fragment(parts: Parts) -> bool:
    changed = parts.fragment is not None
    parts.fragment = None
    return changed


def _userinfo(parts: Parts) -> bool:
    changed = parts.userinfo is not None
    parts.userinfo = None
    return changed


def _host_dot(parts: Parts) -> bool:
    # One dot is the root label (RFC 1034, 3.1). "e.com.." and "." are other, unresolvable names.
    host = parts.host
    if not host.endswith(".") or host.endswith("..") or host == ".":
        return False
    parts.host = host[:-1]
    return True


def _in_path_and_query(parts: Parts, change: Callable[[str], str]) -> bool:
    path, query = parts.path, parts.query
    if "%" in path:
        parts.path = change(path)
    if query and "%" in query:
        parts.query = change(query)
    return parts.path != path or parts.query != query


def _decoded(match: re.Match[str]) -> str:
    escape = match.group()
    character = chr(int(escape[1:], 16))
    return character if character in _UNRESERVED else escape


def _percent_bare(parts: Parts) -> bool:
    return _in_path_and_query(parts, lambda text: _BARE_PERCENT.sub("%25", text))


def _percent_unreserved(parts: Parts) -> bool:
    return _in_path_and_query(parts, lambda text: _ESCAPE.sub(_decoded, text))


def _percent_case(parts: Parts) -> bool:
    return _in_path_and_query(parts, lambda text: _ESCAPE.sub(lambda m: m.group().upper(), text))


def _split_embedded(path: str) -> tuple[str, str]:
    """The path up to a URL embedded in it (its scheme and colon included), and the rest."""
    match = _EMBEDDED.search(path)
    return (path, "") if match is None else (path[: match.end()], path[match.end() :])


def _path_session(parts: Parts) -> bool:
    if ";" not in parts.path and "/(S(" not in parts.path:
        return False
    head, embedded = _split_embedded(parts.path)
    path = strip_path_session(head) + embedded
    changed, parts.path = path != parts.path, path
    return changed


def _duplicate_slashes(parts: Parts) -> bool:
    if "//" not in parts.path:
        return False
    head, embedded = _split_embedded(parts.path)
    path = _SLASH_RUN.sub("/", head) + embedded
    changed, parts.path = path != parts.path, path
    return changed


def _query_space(parts: Parts) -> bool:
    if parts.query is None or "%20" not in parts.query:
        return False
    parts.query = parts.query.replace("%20", "+")
    return True


def _name(pair: str) -> str:
    return pair.split("=", 1)[0]


def _empty_pairs(pairs: list[str]) -> list[str]:
    return [pair for pair in pairs if pair]


def _tracking(pairs: list[str]) -> list[str]:
    return [pair for pair in pairs if pair.split("=", 1)[0].lower() not in TRACKING_PARAMETERS]


def _visit_ids(pairs: list[str]) -> list[str]:
    return [pair for pair in pairs if not is_visit_pair(pair)]


def _query_sort(pairs: list[str]) -> list[str]:
    return sorted(pairs, key=_name) if len(pairs) > 1 else pairs


def _empty_query(parts: Parts) -> bool:
    if parts.query != "":
        return False
    parts.query = None
    return True


class PartsRule(NamedTuple):
    """A rule over the parts; ``apply`` changes them in place and returns whether it did.

    Only a URL that contains ``mark`` can be changed by it.
    """

    name: str
    mark: str
    apply: Callable[[Parts], bool]
    meaning: str


class PairsRule(NamedTuple):
    """A rule over the query's pairs (the texts between ``&``); ``apply`` returns the new list."""

    name: str
    apply: Callable[[list[str]], list[str]]
    meaning: str


Rule = PartsRule | PairsRule

RULES: Final[tuple[Rule, ...]] = (
    PartsRule("fragment", "#", _fragment, "what follows # is never sent to a server"),
    PartsRule("userinfo", "@", _userinfo, "name and password before the host are dropped"),
    PartsRule("host_dot", ".", _host_dot, "one dot at the end of the host is dropped"),
    PartsRule("percent_bare", "%", _percent_bare, "a % without two hexadecimal digits is %25"),
    PartsRule("percent_unreserved", "%", _percent_unreserved, "escapes of A-Z a-z 0-9 - . _ ~ are decoded (RFC 3986)"),
    PartsRule("percent_case", "%", _percent_case, "escapes are in upper case (RFC 3986)"),
    PartsRule("path_session", "/", _path_session, "session ids in the path are dropped if they look generated"),
    PartsRule("duplicate_slashes", "//", _duplicate_slashes, "runs of slashes in the path are one, embedded URLs stay"),
    PartsRule("query_space", "%20", _query_space, "a space in the query is +"),
    PairsRule("empty_pairs", _empty_pairs, "nothing between two & is dropped"),
    PairsRule("tracking", _tracking, "parameters of the tracking list are dropped"),
    PairsRule("visit_ids", _visit_ids, "visit ids in the query are dropped if they look generated"),
    PairsRule("query_sort", _query_sort, "pairs are sorted by name; equal names keep their order"),
    PartsRule("empty_query", "?", _empty_query, "a ? with nothing after it is dropped"),
)


class ActiveRules(NamedTuple):
    """The rules a profile turns on, in the order of ``RULES``, split where the query is taken apart."""

    before: tuple[PartsRule, ...]
    pairs: tuple[PairsRule, ...]
    after: tuple[PartsRule, ...]


@lru_cache(maxsize=1024)
def active_rules(profile: Profile) -> ActiveRules:
    """The rules that ``profile`` turns on."""
    on = [rule for rule in RULES if getattr(profile, rule.name)]
    first_pair = next(i for i, rule in enumerate(RULES) if isinstance(rule, PairsRule))
    earlier = {rule.name for rule in RULES[:first_pair]}
    return ActiveRules(
        tuple(rule for rule in on if isinstance(rule, PartsRule) and rule.name in earlier),
        tuple(rule for rule in on if isinstance(rule, PairsRule)),
        tuple(rule for rule in on if isinstance(rule, PartsRule) and rule.name not in earlier),
    )


def apply_pair_rules(query: str, rules: ActiveRules, applied: list[str]) -> str:
    """The query after the pair rules; the names of those that changed something are added to ``applied``."""
    pairs = query.split("&")
    for name, change, _ in rules.pairs:
        changed = change(pairs)
        if changed != pairs:
            pairs = changed
            applied.append(name)
    return "&".join(pairs)


def apply_rules(href: str, parts: Parts, rules: ActiveRules) -> list[str]:
    """Apply ``rules`` to ``parts`` of ``href`` in place; returns the names of those that changed something."""
    applied = [name for name, mark, apply, _ in rules.before if mark in href and apply(parts)]
    if parts.query and rules.pairs:
        parts.query = apply_pair_rules(parts.query, rules, applied)
    applied += [name for name, mark, apply, _ in rules.after if mark in href and apply(parts)]
    return applied
