"""Rules in the format of ClearURLs: read from a file that the user names, never from the network.

Patterns come from others, so they run on RE2, whose time is linear in the text. What RE2 refuses (look-ahead,
back-references) is left out and listed by name in ``ClearUrls.refused``; a provider whose own pattern or an
exception of which is refused is left out as a whole, since it would strip too much without.

The format: ``providers`` has a table by name with ``urlPattern``, and lists of patterns ``rules`` (whole names of
parameters), ``rawRules`` (parts of the URL), ``exceptions`` (URLs left alone), ``referralMarketing`` (more names) and
``redirections`` (whose first group is the URL meant). Letter case does not count. Other entries are passed over.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import xxhash

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.parsing import Parts, parse_http, repair, trim

_MOST_BYTES: Final = 64 * 1000**2
_AUTOMATON_BYTES: Final = 256 << 20  # RE2 finds nothing where a set of patterns needs more; the default is 8 MB
_LISTS: Final = ("rules", "rawRules", "exceptions", "referralMarketing", "redirections")


class Provider(NamedTuple):
    """One provider: the patterns that RE2 takes."""

    name: str
    url_pattern: str
    rules: tuple[str, ...]
    raw_rules: tuple[str, ...]
    exceptions: tuple[str, ...]
    referral_marketing: tuple[str, ...]
    redirections: tuple[str, ...]


class RefusedPattern(NamedTuple):
    """A pattern that RE2 refuses; ``kind`` is the list it stands in."""

    provider: str
    kind: str
    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClearUrls:
    """Rules of a ClearURLs file; made by ``load_clearurls``. Equal where digest and switches are.

    Attributes:
        digest: of the file's bytes, 32 hexadecimal digits.
        referral_marketing: whether parameters of referral marketing are dropped as well.
        redirections: whether a URL that only leads to another stands for that one.
        providers: those in use, in the order of the file.
        refused: patterns left out.
    """

    digest: str
    referral_marketing: bool
    redirections: bool
    providers: tuple[Provider, ...] = field(compare=False, repr=False)
    refused: tuple[RefusedPattern, ...] = field(compare=False, repr=False)


def _re2() -> Any:
    try:
        import re2
    except ImportError:
        raise ConfigError(
            "ClearURLs rules run on RE2, which is not installed: pip install 'dedup-pipeline[clearurls]'"
        ) from None
    return re2


def _flags() -> Any:
    options = _re2().Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _AUTOMATON_BYTES
    return options


def _refusal(pattern: str) -> str:
    """Why RE2 refuses ``pattern``, or ""."""
    try:
        _re2().compile(pattern, _flags())
    except _re2().error as error:
        reason = error.args[0] if error.args else error
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return ""


def load_clearurls(
    path: str | os.PathLike[str], *, referral_marketing: bool = False, redirections: bool = False
) -> ClearUrls:
    """The rules of a ClearURLs JSON file.

    Args:
        path: the file, for instance a ``data.min.json`` of the ClearURLs project.
        referral_marketing: drop parameters of referral marketing as well.
        redirections: let a URL that leads to another stand for that one.

    Raises:
        ConfigError: the file cannot be read or is not in this format, or RE2 is not installed.
    """
    shown = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"ClearURLs file {shown}: {reason}. Name a readable JSON file.") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"ClearURLs file {shown} has more than {_MOST_BYTES} bytes; name a file of rules.")
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"ClearURLs file {shown} is no valid JSON: {error}") from None
    providers, refused = _providers(tree, shown)
    return ClearUrls(
        digest=xxhash.xxh3_128_hexdigest(data),
        referral_marketing=referral_marketing,
        redirections=redirections,
        providers=providers,
        refused=refused,
    )


def _providers(tree: Any, shown: str) -> tuple[tuple[Provider, ...], tuple[RefusedPattern, ...]]:
    tables = tree.get("providers") if isinstance(tree, dict) else None
    if not isinstance(tables, dict):
        raise ConfigError(f'ClearURLs file {shown} has no table "providers"; name a file in the format of ClearURLs.')
    providers: list[Provider] = []
    refused: list[RefusedPattern] = []
    for name, table in tables.items():
        where = f"ClearURLs file {shown}, provider {name!r}"
        if not isinstance(table, dict) or not isinstance(table.get("urlPattern"), str):
            raise ConfigError(f"{where}: urlPattern must be a text.")
        lists: dict[str, list[str]] = {}
        for kind in _LISTS:
            lists[kind] = table.get(kind, [])
            if not isinstance(lists[kind], list) or not all(isinstance(pattern, str) for pattern in lists[kind]):
                raise ConfigError(f"{where}: {kind} must be a list of texts.")
        bad = [
            RefusedPattern(name, kind, pattern, reason)
            for kind, patterns in (("urlPattern", [table["urlPattern"]]), *lists.items())
            for pattern in patterns
            if (reason := _refusal(pattern))
        ]
        refused += bad
        if any(entry.kind in ("urlPattern", "exceptions") for entry in bad):
            continue
        out = {(entry.kind, entry.pattern) for entry in bad}
        kept = (tuple(pattern for pattern in lists[kind] if (kind, pattern) not in out) for kind in _LISTS)
        providers.append(Provider(name, table["urlPattern"], *kept))
    return tuple(providers), tuple(refused)


class _Compiled(NamedTuple):
    """``names`` and ``exceptions`` are None where there is no such pattern."""

    names: Any
    raw: tuple[Any, ...]
    exceptions: Any
    redirections: tuple[Any, ...]


class _Matcher(NamedTuple):
    urls: Any
    providers: tuple[_Compiled, ...]


def _any_of(patterns: tuple[str, ...], whole: bool) -> Any:
    if not patterns:
        return None
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return _re2().compile(f"^(?:{joined})$" if whole else joined, _flags())


@lru_cache(maxsize=16)
def _matcher(rules: ClearUrls) -> _Matcher:
    re2 = _re2()
    urls = re2.Set.SearchSet(_flags())
    compiled = []
    for provider in rules.providers:
        urls.Add(provider.url_pattern)
        names = provider.rules + (provider.referral_marketing if rules.referral_marketing else ())
        redirections = provider.redirections if rules.redirections else ()
        compiled.append(
            _Compiled(
                _any_of(names, True),
                tuple(re2.compile(pattern, _flags()) for pattern in provider.raw_rules),
                _any_of(provider.exceptions, False),
                tuple(re2.compile(pattern, _flags()) for pattern in redirections),
            )
        )
    if compiled:
        urls.Compile()
    return _Matcher(urls, tuple(compiled))


def _take(parts: Parts, url: str) -> bool:
    """Let ``parts`` be those of ``url``; False, and nothing changed, where it is no http(s) URL."""
    parsed = parse_http(url)
    if parsed is None:
        return False
    parts.replace(parsed[1])
    return True


def _redirected(parts: Parts, href: str, provider: _Compiled) -> bool:
    for pattern in provider.redirections:
        found = pattern.search(href)
        if found is not None and found.groups() and found.group(1):
            target = trim(repair(unquote_to_bytes(found.group(1))))
            if len(target) < len(href) and _take(parts, target):
                return True
    return False


def apply_clearurls(rules: ClearUrls, kept: frozenset[str], parts: Parts) -> bool:
    """Apply ``rules`` to ``parts`` in place; returns whether anything changed.

    ``kept`` are names of parameters, in lower case, that stay. Once a redirection was followed nothing else is
    done: what it leads to has rules of its own.
    """
    matcher = _matcher(rules)
    if not matcher.providers:
        return False
    href = parts.href()
    changed = False
    for index in sorted(matcher.urls.Match(href) or ()):
        provider = matcher.providers[index]
        if provider.exceptions is not None and provider.exceptions.search(href):
            continue
        if _redirected(parts, href, provider):
            return True
        for pattern in provider.raw:
            now = parts.href()
            shorter = pattern.sub("", now)
            changed |= len(shorter) < len(now) and _take(parts, shorter)
        if parts.query and provider.names is not None:
            pairs = parts.query.split("&")
            left = [
                pair
                for pair in pairs
                if (name := pair.split("=", 1)[0]).lower() in kept or provider.names.search(name) is None
            ]
            if len(left) < len(pairs):
                parts.query = "&".join(left)
                changed = True
    return changed
