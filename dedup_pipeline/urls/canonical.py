"""The canonical form of a URL: the key under which two URLs count as the same page.

The key is for comparing, never for requesting: servers may answer it differently than the URL itself.
``canonicalize_url`` is total (it never raises, whatever the text) and idempotent (a key is its own key).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Self

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.optional import with_default_scheme
from dedup_pipeline.urls.options import NO_OPTIONS, UrlOptions, host_options
from dedup_pipeline.urls.parsing import Parts, parse_changes, parse_http, repair, scheme_of, trim
from dedup_pipeline.urls.rules import AGGRESSIVE, DEFAULT, STRICT, ActiveRules, Profile, active_rules, apply_rules
from dedup_pipeline.urls.tracking import TRACKING_VERSION
from dedup_pipeline.urls.visits import VISITS_VERSION

RULES_VERSION: Final = "1"
CANONICAL_VERSION: Final = f"rules-{RULES_VERSION}.tracking-{TRACKING_VERSION}.visits-{VISITS_VERSION}"
"""Changes whenever some URL's key may change; part of every state folder's fingerprint."""

STATUSES: Final[tuple[str, ...]] = ("ok", "not_crawlable", "relative", "invalid", "too_long")
"""What a URL can be; the index is the code in bulk results."""

MAX_BYTES: Final = 16384
"""Longest URL, and longest key, in bytes of UTF-8, unless the caller says otherwise."""

# A URL that the parser and every rule of every profile leave alone: a plain host whose last label is of letters, no
# "--" in a label, segments that are not empty and begin with no dot, no escape, parameter, query or fragment.
_PLAIN: Final = re.compile(
    r"https?://(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.)++[a-z]++(?:/|(?:/[A-Za-z0-9_~\-][A-Za-z0-9._~,=:@!+\-]*+)++/?)"
)

_PROFILES: Final[dict[str, Profile]] = {profile.name: profile for profile in (STRICT, DEFAULT, AGGRESSIVE)}
PROFILES: Final[tuple[str, ...]] = tuple(_PROFILES)
_OK, _NOT_CRAWLABLE, _RELATIVE, _INVALID, _TOO_LONG = range(5)


class CanonicalURL(str):
    """A key with how it came about; compares, sorts and hashes as the plain string.

    Attributes:
        status: one of ``STATUSES``. ``not_crawlable``: a scheme other than http and https; ``relative``: no
            scheme; ``invalid``: the WHATWG parser refuses it; ``too_long``: it or its key is above the limit.
            Anything but ``ok`` leaves the URL as it was, trimmed at both ends.
        rules: names of what changed the URL, in order.
    """

    __slots__ = ("rules", "status")
    status: str
    rules: tuple[str, ...]

    def __new__(cls, key: str, status: str = "ok", rules: tuple[str, ...] = ()) -> Self:
        """The key ``key`` with its status and the rules applied."""
        self = str.__new__(cls, key)
        self.status = status
        self.rules = rules
        return self

    @property
    def key(self) -> str:
        """The key as a plain ``str``."""
        return str.__str__(self)

    def __getnewargs__(self) -> tuple[str, str, tuple[str, ...]]:  # type: ignore[override]
        return self.key, self.status, self.rules


def profile_named(name: str) -> Profile:
    """The profile of that name; raises ConfigError naming the known ones."""
    try:
        return _PROFILES[name]
    except (KeyError, TypeError):
        raise ConfigError(f"URL profile {name!r} is not known; use one of {', '.join(PROFILES)}") from None


def _longer(text: str, limit: int) -> bool:
    return len(text) > limit or (not text.isascii() and len(text.encode()) > limit)


class RuleSet(NamedTuple):
    """What decides the key of every URL: profile, options, and options per host.

    ``single_pass``: no option is on, so one pass over the rules is enough, and what ``_PLAIN`` accepts is its own key.
    """

    profile: Profile
    options: UrlOptions
    hosts: tuple[tuple[str, UrlOptions], ...]
    rules: ActiveRules
    by_host: Mapping[str, ActiveRules]
    single_pass: bool

    def of(self, host: str) -> ActiveRules:
        """The rules for ``host``: those of the longest named host that it is or is below."""
        if not self.by_host:
            return self.rules
        host = host.removesuffix(".")
        while host:
            if host in self.by_host:
                return self.by_host[host]
            host = host.partition(".")[2]
        return self.rules


@lru_cache(maxsize=256)
def _rule_set(profile: str, options: UrlOptions, hosts: tuple[tuple[str, UrlOptions], ...]) -> RuleSet:
    chosen = profile_named(profile)
    rules = active_rules(chosen, options)
    by_host = {name: active_rules(chosen, of_host) for name, of_host in hosts}
    return RuleSet(chosen, options, hosts, rules, by_host, options == NO_OPTIONS and not hosts)


_OF_PROFILE: Final[dict[str, RuleSet]] = {name: _rule_set(name, NO_OPTIONS, ()) for name in PROFILES}


def rule_set(
    profile: str = "default", options: UrlOptions | None = None, hosts: Mapping[str, UrlOptions] | None = None
) -> RuleSet:
    """The rules that profile and options turn on.

    Raises:
        ConfigError: an unknown profile, or a name that is no host.
    """
    if options is None and not hosts and profile in PROFILES:
        return _OF_PROFILE[profile]
    profile_named(profile)
    return _rule_set(profile, options or NO_OPTIONS, host_options(hosts))


def usable_base(base: str | bytes | None) -> str | None:
    """``base`` as the parser takes it; None where it is no absolute http(s) URL."""
    if base is None:
        return None
    parsed = parse_http(trim(repair(base)))
    return None if parsed is None else parsed[0]


def canonical_key(url: str | bytes, rules: RuleSet, max_bytes: int, base: str | bytes | None = None) -> tuple[str, int]:
    """Key and status code of one URL, without the names of the rules; see ``canonicalize_url``."""
    key, code, _ = _canonical(url, rules, max_bytes, base, False)
    return key, code


def _settled(href: str, parts: Parts, rules: RuleSet) -> tuple[str, list[str]]:
    """The key of a parsed URL once no rule changes it any more, and the names of the rules applied."""
    names: dict[str, None] = {}
    # Nearly every change shortens the URL, and few hostile ones need more than three passes.
    for _ in range(len(href) + 100):
        applied = apply_rules(href, parts, rules.of(parts.host))
        if not applied:
            break
        names.update(dict.fromkeys(applied))
        parsed = parse_http(parts.href())
        if parsed is None:
            break
        href, parts = parsed
    return href, list(names)


def _without_scheme(
    trimmed: str, scheme: str | None, options: UrlOptions, base: str | None
) -> tuple[str, str | None, list[str]] | int:
    """Text to parse, base and name of the rule for a URL without an http(s) scheme; its status where it has no key."""
    if base is None and options.default_scheme:
        guessed = with_default_scheme(trimmed, options.default_scheme)
        if guessed is not None:
            return guessed, None, ["default_scheme"]
    if scheme is not None:
        return _NOT_CRAWLABLE
    return _RELATIVE if base is None else (trimmed, base, ["base"])


def _text_changes(url: str | bytes, text: str, trimmed: str) -> list[str]:
    names = []
    if text is not url and text != url and (isinstance(url, str) or text.encode() != url):
        names.append("surrogates")
    if len(trimmed) != len(text):
        names.append("trim")
    return names


def _canonical(
    url: str | bytes, rules: RuleSet, max_bytes: int, base: str | bytes | None, explain: bool
) -> tuple[str, int, list[str]]:
    text = repair(url)
    trimmed = trim(text)
    names = _text_changes(url, text, trimmed) if explain else []
    if _longer(trimmed, max_bytes):
        return trimmed, _TOO_LONG, names
    if rules.single_pass and _PLAIN.fullmatch(trimmed):
        return trimmed, _OK, names
    before = len(names)
    written, known_base = trimmed, None
    if not trimmed.startswith(("http://", "https://")):
        scheme = scheme_of(trimmed)
        known_base = usable_base(base)
        if scheme not in ("http", "https"):
            found = _without_scheme(trimmed, scheme, rules.options, known_base)
            if isinstance(found, int):
                return trimmed, found, names
            written, known_base, added = found
            names += added
    parsed = parse_http(written, known_base)
    if parsed is None:
        return trimmed, _INVALID, names[:before]
    href, parts = parsed
    if explain and href != written and known_base is None:
        names += parse_changes(written, parts)
    if rules.single_pass:
        applied = apply_rules(href, parts, rules.rules)
        key = parts.href() if applied else href
    else:
        key, applied = _settled(href, parts, rules)
    if len(key) > max_bytes:
        return trimmed, _TOO_LONG, names[:before]
    return key, _OK, names + applied


def canonicalize_url(
    url: str | bytes,
    profile: str = "default",
    *,
    options: UrlOptions | None = None,
    hosts: Mapping[str, UrlOptions] | None = None,
    base: str | bytes | None = None,
    max_bytes: int = MAX_BYTES,
) -> CanonicalURL:
    """The canonical form of ``url``, with its status and the names of the rules applied.

    Never raises on any ``str`` or ``bytes``, and ``canonicalize_url(canonicalize_url(x))`` equals
    ``canonicalize_url(x)``, status included, whatever the profile and options.

    Args:
        url: any text. How bytes that are not UTF-8 and lone surrogates are read: see ``parsing``.
        profile: ``strict`` (WHATWG parse, fragment dropped), ``default`` (every rule that is safe on any host) or
            ``aggressive`` (visit ids dropped as well).
        options: what else is to merge; nothing by default.
        hosts: options by host, which stand in place of ``options`` there and on every host below; the longest name
            counts. A ``default_scheme`` has no effect here.
        base: URL of the page that the link stands on, for links without a scheme, which then resolve as in browsers.
            A base that is no absolute http(s) URL counts as none.
        max_bytes: longest URL and longest key in bytes of UTF-8; what is above has the status ``too_long``.

    Raises:
        ConfigError: an unknown profile, or a name in ``hosts`` that is no host.

    >>> canonicalize_url("HTTP://Example.COM:80/a/../b?b=2&utm_source=x&a=1#top")
    'http://example.com/b?a=1&b=2'
    >>> canonicalize_url("mailto:someone").status
    'not_crawlable'
    >>> canonicalize_url("../c", base="http://example.com/a/b")
    'http://example.com/c'
    >>> canonicalize_url("https://www.example.com/a/", options=UrlOptions(drop_www=True, drop_trailing_slash=True))
    'https://example.com/a'
    """
    key, code, names = _canonical(url, rule_set(profile, options, hosts), max_bytes, base, True)
    return CanonicalURL(key, STATUSES[code], tuple(names))
