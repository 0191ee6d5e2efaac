"""The canonical form of a URL: the key under which two URLs count as the same page.

The key is for comparing, never for requesting: servers may answer it differently than the URL itself.
``canonicalize_url`` is total (it never raises, whatever the text) and idempotent (a key is its own key).
"""

from __future__ import annotations

import re
from typing import Final, Self

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.parsing import parse_changes, parse_http, repair, scheme_of, trim
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
_RULES_OF: Final[dict[str, ActiveRules]] = {name: active_rules(profile) for name, profile in _PROFILES.items()}
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


def canonical_key(url: str | bytes, rules: ActiveRules, max_bytes: int) -> tuple[str, int]:
    """Key and status code of one URL, without the names of the rules; see ``canonicalize_url``."""
    key, code, _ = _canonical(url, rules, max_bytes, False)
    return key, code


def _canonical(url: str | bytes, rules: ActiveRules, max_bytes: int, explain: bool) -> tuple[str, int, list[str]]:
    text = repair(url)
    trimmed = trim(text)
    names: list[str] = []
    if explain:
        if text is not url and text != url and (isinstance(url, str) or text.encode() != url):
            names.append("surrogates")
        if len(trimmed) != len(text):
            names.append("trim")
    if _longer(trimmed, max_bytes):
        return trimmed, _TOO_LONG, names
    if _PLAIN.fullmatch(trimmed):
        return trimmed, _OK, names
    if not trimmed.startswith(("http://", "https://")):
        scheme = scheme_of(trimmed)
        if scheme is None:
            return trimmed, _RELATIVE, names
        if scheme not in ("http", "https"):
            return trimmed, _NOT_CRAWLABLE, names
    parsed = parse_http(trimmed)
    if parsed is None:
        return trimmed, _INVALID, names
    href, parts = parsed
    before = len(names)
    if explain and href != trimmed:
        names += parse_changes(trimmed, parts)
    applied = apply_rules(href, parts, rules)
    key = parts.href() if applied else href
    if len(key) > max_bytes:
        return trimmed, _TOO_LONG, names[:before]
    return key, _OK, names + applied


def canonicalize_url(url: str | bytes, profile: str = "default", *, max_bytes: int = MAX_BYTES) -> CanonicalURL:
    """The canonical form of ``url``, with its status and the names of the rules applied.

    Never raises on any ``str`` or ``bytes``, and ``canonicalize_url(canonicalize_url(x))`` equals
    ``canonicalize_url(x)``, status included.

    Args:
        url: any text. How bytes that are not UTF-8 and lone surrogates are read: see ``parsing``.
        profile: ``strict`` (WHATWG parse, fragment dropped), ``default`` (every rule that is safe on any host) or
            ``aggressive`` (visit ids dropped as well).
        max_bytes: longest URL and longest key in bytes of UTF-8; what is above has the status ``too_long``.

    Raises:
        ConfigError: an unknown profile.

    >>> canonicalize_url("HTTP://Example.COM:80/a/../b?b=2&utm_source=x&a=1#top")
    'http://example.com/b?a=1&b=2'
    >>> canonicalize_url("mailto:someone").status
    'not_crawlable'
    """
    rules = _RULES_OF.get(profile) or active_rules(profile_named(profile))
    key, code, names = _canonical(url, rules, max_bytes, True)
    return CanonicalURL(key, STATUSES[code], tuple(names))
