"""The rules that turn a parsed URL into a key, one ordered list, each with a name and a switch.

``RULES`` is the whole truth: the canonical form applies those that the profile turns on, from first to
last, and the options. Rules see serialised WHATWG parts (ASCII). Each says whether it changed anything, and applied
twice changes nothing more; the order keeps that true of the list as a whole (escapes before anything that
compares text, path sessions before slashes, pairs last). What options add can undo each other's grounds (a decoded
``%252e`` is a dot segment), so with them the list is applied until it changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from dedup_pipeline.urls import optional
from dedup_pipeline.urls.clearurls import apply_clearurls
from dedup_pipeline.urls.options import NO_OPTIONS, UrlOptions
from dedup_pipeline.urls.parsing import Parts, parse_http
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
    """Which rules apply: one switch per rule of ``RULES`` that is no option, of the same name. Hashable."""

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


def _nfc(parts: Parts) -> bool:
    return _in_path_and_query(parts, optional.nfc)


def _decode_repeatedly(parts: Parts) -> bool:
    return _in_path_and_query(parts, optional.decode_repeatedly)


class PartsRule(NamedTuple):
    """A rule over the parts; ``apply`` changes them in place and returns whether it did.

    Only a URL that contains ``mark`` can be changed by it.
    """

    name: str
    mark: str
    apply: Callable[..., bool]
    meaning: str


class PairsRule(NamedTuple):
    """A rule over the query's pairs (the texts between ``&``); ``apply`` returns the new list."""

    name: str
    apply: Callable[..., list[str]]
    meaning: str


Rule = PartsRule | PairsRule

RULES: Final[tuple[Rule, ...]] = (
    PartsRule("inner_url", "", optional.inner_url, "option: a URL inside the URL stands for the whole"),
    PartsRule("ignore_scheme", "https", optional.ignore_scheme, "option: https counts as http"),
    PartsRule("fragment", "#", _fragment, "what follows # is never sent to a server"),
    PartsRule("userinfo", "@", _userinfo, "name and password before the host are dropped"),
    PartsRule("host_dot", ".", _host_dot, "one dot at the end of the host is dropped"),
    PartsRule("drop_www", "www.", optional.drop_www, "option: a first label www is dropped"),
    PartsRule("drop_mobile", "", optional.drop_mobile, "option: a first label m or mobile is dropped"),
    PartsRule("percent_bare", "%", _percent_bare, "a % without two hexadecimal digits is %25"),
    PartsRule("decode_repeatedly", "%25", _decode_repeatedly, "option: %25 before two hexadecimal digits is %"),
    PartsRule("percent_unreserved", "%", _percent_unreserved, "escapes of A-Z a-z 0-9 - . _ ~ are decoded (RFC 3986)"),
    PartsRule("percent_case", "%", _percent_case, "escapes are in upper case (RFC 3986)"),
    PartsRule("nfc", "%", _nfc, "option: escaped characters are in Unicode's normal form C"),
    PartsRule("path_session", "/", _path_session, "session ids in the path are dropped if they look generated"),
    PartsRule("duplicate_slashes", "//", _duplicate_slashes, "runs of slashes in the path are one, embedded URLs stay"),
    PartsRule("drop_amp", "amp", optional.drop_amp, "option: marks of AMP pages in host, path and query are dropped"),
    PartsRule("drop_index", ".", optional.drop_index, "option: index.html and its like are dropped"),
    PartsRule("drop_trailing_slash", "/", optional.drop_trailing_slash, "option: slashes at the end are dropped"),
    PartsRule("lower_path", "", optional.lower_path, "option: the path is in lower case"),
    PartsRule("unescape_ampersands", "&", optional.unescape_ampersands, "option: &amp; in the query is &"),
    PartsRule("split_semicolons", ";", optional.split_semicolons, "option: a semicolon in the query is &"),
    PartsRule("clearurls", "", apply_clearurls, "option: rules of a ClearURLs file"),
    PartsRule("query_space", "%20", _query_space, "a space in the query is +"),
    PairsRule("merge_empty_values", optional.merge_empty_values, "option: a= counts as a"),
    PairsRule("empty_pairs", _empty_pairs, "nothing between two & is dropped"),
    PairsRule("tracking", _tracking, "parameters of the tracking list are dropped"),
    PairsRule("visit_ids", _visit_ids, "visit ids in the query are dropped if they look generated"),
    PairsRule("strip_parameters", optional.strip_parameters, "option: named parameters are dropped"),
    PairsRule("only_parameters", optional.only_parameters, "option: all but the named parameters are dropped"),
    PairsRule("drop_repeats", optional.drop_repeats, "option: of equal pairs the first stays"),
    PairsRule("query_sort", _query_sort, "pairs are sorted by name; equal names keep their order"),
    PairsRule("sort_values", optional.sort_values, "option: pairs are sorted by name and value"),
    PartsRule("empty_query", "?", _empty_query, "a ? with nothing after it is dropped"),
)


class ActiveRules(NamedTuple):
    """The rules a profile and options turn on, in the order of ``RULES``, split where the query is taken apart."""

    before: tuple[PartsRule, ...]
    pairs: tuple[PairsRule, ...]
    after: tuple[PartsRule, ...]


_FIRST_PAIR: Final = next(i for i, rule in enumerate(RULES) if isinstance(rule, PairsRule))
_BEFORE_PAIRS: Final = frozenset(rule.name for rule in RULES[:_FIRST_PAIR])
_DROPPING: Final = frozenset({"tracking", "visit_ids", "strip_parameters"})


def parameter_key(name: str) -> str:
    """The name of a parameter as it stands in keys of the default profile, in lower case.

    >>> parameter_key("Ref"), parameter_key("caf%c3%a9"), parameter_key("a b")
    ('ref', 'caf%c3%a9', 'a+b')
    """
    parsed = parse_http(f"http://e.com/?{name}")
    if parsed is None:
        return name.lower()
    parts = parsed[1]
    for change in (_percent_bare, _percent_unreserved, _percent_case, _query_space):
        change(parts)
    return (parts.query or "").lower()


def _is_on(name: str, profile: Profile, options: UrlOptions) -> bool:
    if name == "userinfo" and options.keep_userinfo:
        return False
    if name == "path_session" and options.visit_ids:
        return True
    return bool(getattr(profile, name, False) or getattr(options, name, False))


def _bound(rule: Rule, options: UrlOptions, kept: frozenset[str]) -> Rule:
    """``rule`` with what it needs of the options."""
    apply: Any = rule.apply
    if rule.name == "fragment" and options.keep_fragment_routes:
        apply = optional.fragment_but_routes
    elif rule.name == "drop_amp":
        apply = partial(apply, kept=kept)
    elif rule.name == "clearurls":
        apply = partial(apply, options.clearurls, kept)
    elif rule.name in ("strip_parameters", "only_parameters"):
        names = frozenset(map(parameter_key, getattr(options, rule.name)))
        apply = partial(apply, names | kept if rule.name == "only_parameters" else names)
    if kept and rule.name in _DROPPING:
        apply = optional.sparing(kept, apply)
    return rule._replace(apply=apply)


@lru_cache(maxsize=1024)
def active_rules(profile: Profile, options: UrlOptions = NO_OPTIONS) -> ActiveRules:
    """The rules that ``profile`` and ``options`` turn on."""
    kept = frozenset(map(parameter_key, options.keep_parameters + options.only_parameters))
    on = [_bound(rule, options, kept) for rule in RULES if _is_on(rule.name, profile, options)]
    return ActiveRules(
        tuple(rule for rule in on if isinstance(rule, PartsRule) and rule.name in _BEFORE_PAIRS),
        tuple(rule for rule in on if isinstance(rule, PairsRule)),
        tuple(rule for rule in on if isinstance(rule, PartsRule) and rule.name not in _BEFORE_PAIRS),
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
