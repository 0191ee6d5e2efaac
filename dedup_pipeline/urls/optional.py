"""What the optional rules do, one function each; ``rules`` puts them in order.

Each merges URLs that servers may tell apart, so none runs unless its option is named. A function changes the
parts in place and returns whether it did, or takes the query's pairs and returns those that stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from dedup_pipeline.urls.parsing import Parts, parse_http, repair, trim

_IPV4: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
# "/http://x", as archives and proxies write it; also with one slash, or colon and slashes escaped.
_INNER_IN_PATH: Final = re.compile(r"/(?=https?(?::|%3A)(?:/|%2F))", re.IGNORECASE)
_INNER_IN_VALUE: Final = re.compile(r"https?(?::|%3A)(?:/|%2F)", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"https?:/", re.IGNORECASE)
_AMP_ENDS: Final = (("/amp", ""), ("/amp/", "/"), (".amp", ""), (".amp.html", ".html"))
_AMP_PAIRS: Final = frozenset({"amp", "amp=", "amp=1", "amp=true"})
_INDEX: Final = re.compile(r"/(?:index\.(?:html?|shtml|php|aspx?|jsp)|default\.(?:html?|aspx?))$", re.IGNORECASE)
_ESCAPE_OR_CAPITALS: Final = re.compile(r"%[0-9A-Fa-f]{2}|[A-Z]+")
_ENTITY: Final = re.compile(r"&(?:amp;)+", re.IGNORECASE)
_DOUBLE_ESCAPE: Final = re.compile(r"%25(?=[0-9A-Fa-f]{2})")
# Text beyond ASCII and the letter or digit before it, with which a mark may combine.
_NOT_ASCII: Final = re.compile(r"[A-Za-z0-9]?(?:%[89A-Fa-f][0-9A-Fa-f])+")
_HOST_AT_START: Final = re.compile(r"(?://)?([^/?#\\@:\s]+)(?::[0-9]{1,5})?(?=[/?#]|$)")


@lru_cache(maxsize=2)
def _suffixes(unknown: bool) -> Any:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=unknown)


def has_registrable_domain(host: str, unknown: bool = True) -> bool:
    """Whether ``host`` is, or is below, a name that somebody can register, by the Public Suffix List.

    ``unknown``: whether a last label that is not on the list counts as a public suffix. An IP address never has one.

    >>> [has_registrable_domain(host) for host in ("example.com", "co.uk", "localhost", "10.2.3.4")]
    [True, False, False, False]
    """
    if host.startswith("[") or _IPV4.fullmatch(host):
        return False
    return _suffixes(unknown).privatesuffix(host.removesuffix(".")) is not None


def _without_label(parts: Parts, labels: tuple[str, ...]) -> bool:
    first, dot, rest = parts.host.partition(".")
    if not dot or first not in labels or not has_registrable_domain(rest):
        return False
    parts.host = rest
    return True


def drop_www(parts: Parts) -> bool:
    """A first label ``www`` goes while a registrable domain remains."""
    return _without_label(parts, ("www",))


def drop_mobile(parts: Parts) -> bool:
    """The same for ``m`` and ``mobile``."""
    return _without_label(parts, ("m", "mobile"))


def _without_amp(path: str) -> str:
    found = True
    while found:
        found = False
        for end, instead in _AMP_ENDS:
            # "/amp" alone may be a page about it, and "//amp" is the same.
            if path.endswith(end) and len(path) > len(end) and path[-len(end) - 1] != "/":
                path, found = path[: -len(end)] + instead, True
    return path


def drop_amp(parts: Parts, kept: frozenset[str]) -> bool:
    """Marks of AMP pages go; the parameter ``amp`` stays where ``kept`` names it."""
    changed = _without_label(parts, ("amp",))
    path = _without_amp(parts.path)
    if path != parts.path:
        parts.path, changed = path, True
    if parts.query and "amp" in parts.query and "amp" not in kept:
        pairs = parts.query.split("&")
        left = [pair for pair in pairs if pair not in _AMP_PAIRS]
        if len(left) < len(pairs):
            parts.query, changed = "&".join(left), True
    return changed


def ignore_scheme(parts: Parts) -> bool:
    """``https`` becomes ``http``."""
    # With port 80 the other scheme would name another port: 80 is what http leaves out.
    if parts.scheme != "https" or parts.port == "80":
        return False
    parts.scheme = "http"
    return True


def fragment_but_routes(parts: Parts) -> bool:
    """The fragment goes unless it begins with ``!`` or ``/``."""
    if parts.fragment is None or parts.fragment.startswith(("!", "/")):
        return False
    parts.fragment = None
    return True


def drop_index(parts: Parts) -> bool:
    """A name of index files at the end of the path goes."""
    path = _INDEX.sub("/", parts.path)
    changed, parts.path = path != parts.path, path
    return changed


def drop_trailing_slash(parts: Parts) -> bool:
    """Slashes at the end of the path go; ``/`` stays."""
    if not parts.path.endswith("/") or parts.path == "/":
        return False
    parts.path = parts.path.rstrip("/") or "/"
    return True


def lower_path(parts: Parts) -> bool:
    """Capitals of the path become small, escapes stay."""
    path = _ESCAPE_OR_CAPITALS.sub(lambda m: m[0] if m[0][0] == "%" else m[0].lower(), parts.path)
    changed, parts.path = path != parts.path, path
    return changed


def _composed(match: re.Match[str]) -> str:
    """A run of escapes in normal form C; as it was where that is the same or the bytes are not UTF-8."""
    try:
        text = unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return match[0]
    composed = unicodedata.normalize("NFC", text)
    return match[0] if composed == text else quote_from_bytes(composed.encode(), safe="-._~")


def nfc(text: str) -> str:
    """``text`` of a path or query with its escaped characters in normal form C."""
    return _NOT_ASCII.sub(_composed, text)


def decode_repeatedly(text: str) -> str:
    """``text`` without doubly escaped characters: ``%2541`` is ``%41``."""
    while (decoded := _DOUBLE_ESCAPE.sub("%", text)) != text:
        text = decoded
    return text


def unescape_ampersands(parts: Parts) -> bool:
    """``&amp;`` of the query becomes ``&``."""
    if not parts.query or "&" not in parts.query:
        return False
    query = _ENTITY.sub("&", parts.query)
    changed, parts.query = query != parts.query, query
    return changed


def split_semicolons(parts: Parts) -> bool:
    """``;`` of the query becomes ``&``."""
    if not parts.query or ";" not in parts.query:
        return False
    parts.query = parts.query.replace(";", "&")
    return True


def _name(pair: str) -> str:
    return pair.split("=", 1)[0].lower()


def merge_empty_values(pairs: list[str]) -> list[str]:
    """``a=`` becomes ``a``."""
    return [pair[:-1] if pair.find("=") == len(pair) - 1 else pair for pair in pairs]


def sort_values(pairs: list[str]) -> list[str]:
    """Pairs in the order of names, then of values."""
    return sorted(pairs, key=lambda pair: pair.split("=", 1))


def drop_repeats(pairs: list[str]) -> list[str]:
    """Of equal pairs the first."""
    return list(dict.fromkeys(pairs))


def strip_parameters(names: frozenset[str], pairs: list[str]) -> list[str]:
    """Pairs whose name is not in ``names``."""
    return [pair for pair in pairs if _name(pair) not in names]


def only_parameters(names: frozenset[str], pairs: list[str]) -> list[str]:
    """Pairs whose name is in ``names``."""
    return [pair for pair in pairs if _name(pair) in names]


def sparing(kept: frozenset[str], change: Callable[[list[str]], list[str]]) -> Callable[[list[str]], list[str]]:
    """``change``, which drops pairs each for itself, without those whose name is in ``kept``."""

    def spared(pairs: list[str]) -> list[str]:
        return [pair for pair in pairs if _name(pair) in kept or change([pair])]

    return spared


def _inner_candidates(parts: Parts) -> Iterator[str]:
    """Texts that may be a URL inside ``parts``, best first."""
    starts = [match.end() for match in _INNER_IN_PATH.finditer(parts.path)]
    if starts:
        inner = parts.path[starts[-1] :]
        if _ABSOLUTE.match(inner):
            # What follows a URL in the path, query and fragment too, belongs to it.
            inner += "" if parts.query is None else f"?{parts.query}"
            yield inner if parts.fragment is None else f"{inner}#{parts.fragment}"
        else:
            yield repair(unquote_to_bytes(inner))
    for pair in (parts.query or "").split("&"):
        value = pair.partition("=")[2]
        if _INNER_IN_VALUE.match(value):
            yield value if _ABSOLUTE.match(value) else repair(unquote_to_bytes(value))


def inner_url(parts: Parts) -> bool:
    """Let ``parts`` be those of the first URL inside that the parser takes."""
    if "http" not in parts.path.lower() and (parts.query is None or "http" not in parts.query.lower()):
        return False
    for text in _inner_candidates(parts):
        parsed = parse_http(trim(text))
        if parsed is not None:
            parts.replace(parsed[1])
            return True
    return False


def with_default_scheme(trimmed: str, scheme: str) -> str | None:
    """``trimmed``, which has no scheme, after ``scheme``; None where it does not begin with a host.

    A host is localhost, an IP address, or a name of a known public suffix, so that ``index.html`` is none.

    >>> with_default_scheme("example.com:8080/a", "https"), with_default_scheme("index.html", "https")
    ('https://example.com:8080/a', None)
    """
    match = _HOST_AT_START.match(trimmed)
    if match is None:
        return None
    url = f"{scheme}:{trimmed}" if trimmed.startswith("//") else f"{scheme}://{trimmed}"
    parsed = parse_http(url)
    if parsed is None:
        return None
    host = parsed[1].host
    known = host == "localhost" or (_IPV4.fullmatch(host) and host == match[1])
    return url if known or has_registrable_domain(host, unknown=False) else None
