r"""From any text to the parts of an http(s) URL, as browsers read it (WHATWG URL Standard).

The parser is upa (``upa_url``), a maintained binding that follows the standard exactly; this module
adds what a binding leaves open: text that is not Unicode, classification of what is no http(s) URL,
and the names of the changes that parsing made.

Text rules, applied before parsing:

* ``bytes`` are read as UTF-8; a byte that is not UTF-8 stands as its escape (``b"\xe9"`` as ``%E9``),
  so that different bytes stay different. A ``str`` made by ``surrogateescape`` is read the same way.
* two surrogates that form a pair are one character; any other lone surrogate becomes U+FFFD, as in
  the standard's conversion to scalar values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from upa_url import URL

_C0_AND_SPACE: Final = "".join(map(chr, range(0x21)))
_SURROGATE: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_WITHOUT_TAB_NEWLINE: Final = str.maketrans("", "", "\t\n\r")
# A serialised http(s) URL: every delimiter below is escaped by the parser wherever it is not one.
_HREF: Final = re.compile(
    r"(https?)://(?:([^@/?#]*)@)?(\[[^\]]*\]|[^:/?#]*)(?::([0-9]+))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
# The same of a URL as written, after trimming; for special schemes "\" is "/" and any run of them may follow ":".
_WRITTEN: Final = re.compile(r"([^:]*):([/\\]*)([^/\\?#]*)([^?#]*)(\?[^#]*)?", re.DOTALL)
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
_ENCODED_IN_PATH: Final = re.compile(r"[^\x21\x23-\x3b\x3d\x3f-\x5d\x5f\x61-\x7a|~]")
_ENCODED_IN_QUERY: Final = re.compile(r"[^\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]")
_IPV4: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")


@dataclass(slots=True)
class Parts:
    """An http(s) URL in parts, all ASCII, as serialised by the WHATWG parser.

    ``path`` begins with ``/``. ``userinfo``, ``port``, ``query`` and ``fragment`` are None where absent;
    an empty query (``a?``) is ``""``. IPv6 hosts keep their brackets.
    """

    scheme: str
    userinfo: str | None
    host: str
    port: str | None
    path: str
    query: str | None
    fragment: str | None

    def replace(self, other: Parts) -> None:
        """Take over every part of ``other``."""
        self.scheme, self.userinfo, self.host, self.port = other.scheme, other.userinfo, other.host, other.port
        self.path, self.query, self.fragment = other.path, other.query, other.fragment

    def href(self) -> str:
        """The URL put together again."""
        out = f"{self.scheme}://"
        if self.userinfo is not None:
            out += f"{self.userinfo}@"
        out += self.host
        if self.port is not None:
            out += f":{self.port}"
        out += self.path
        if self.query is not None:
            out += f"?{self.query}"
        if self.fragment is not None:
            out += f"#{self.fragment}"
        return out


def _scalar(match: re.Match[str]) -> str:
    found = match.group()
    if len(found) == 2:
        return chr(0x10000 + ((ord(found[0]) - 0xD800) << 10) + (ord(found[1]) - 0xDC00))
    code = ord(found)
    return f"%{code - 0xDC00:02X}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"


def repair(url: str | bytes) -> str:
    r"""The text of ``url`` without surrogates, by the text rules above.

    >>> repair(b"http://e.com/\xe9"), ascii(repair("http://e.com/\ud800"))
    ('http://e.com/%E9', "'http://e.com/\\ufffd'")
    """
    text = url.decode("utf-8", "surrogateescape") if isinstance(url, bytes) else url
    if text.isascii():
        return text
    return _SURROGATE.sub(_scalar, text)


def trim(text: str) -> str:
    """``text`` without C0 controls and spaces at either end."""
    return text.strip(_C0_AND_SPACE)


def scheme_of(trimmed: str) -> str | None:
    """The lower-case scheme, or None where the text has none (a relative reference)."""
    match = _SCHEME.match(trimmed) or _SCHEME.match(trimmed[:4096].translate(_WITHOUT_TAB_NEWLINE))
    return match.group(1).lower() if match else None


def parse_http(trimmed: str, base: str | None = None) -> tuple[str, Parts] | None:
    """The WHATWG serialisation of an http(s) URL and its parts; None where the standard says failure.

    This is the parse step alone, before any of our rules. A relative reference needs ``base``, an absolute URL
    as this function returns it. Never raises.

    >>> parse_http("HTTP://Example.COM:80/a/../b?")[0]
    'http://example.com/b?'
    >>> parse_http("http://example.com:99999/") is None
    True
    >>> parse_http("../c?d", "http://example.com/a/b")[0]
    'http://example.com/c?d'
    """
    try:
        url = URL.parse(trimmed) if base is None else URL.parse(trimmed, base)
        if url is None:
            return None
        href: str = url.href
    except (RuntimeError, TypeError, ValueError):  # the binding's own; UnicodeError is a ValueError
        return None
    match = _HREF.fullmatch(href)
    return None if match is None else (href, Parts(*match.groups()))


def _host_changes(written: str, parts: Parts) -> list[str]:
    if written == parts.host:
        return []
    if parts.host.startswith("["):
        return ["ipv6"]
    if _IPV4.fullmatch(parts.host):
        return ["ipv4"]
    names = []
    if "%" in written:
        names.append("host_percent")
    if not written.isascii() or ("xn--" in parts.host and "xn--" not in written.lower()):
        names.append("host_idn")
    if written != written.lower():
        names.append("host_case")
    return names


def _port_changes(written: str | None, parts: Parts) -> list[str]:
    if written is None or written == parts.port:
        return []
    if not written:
        return ["empty_port"]
    return ["default_port"] if parts.port is None else ["port_zeros"]


def parse_changes(trimmed: str, parts: Parts) -> list[str]:
    """Names of what parsing changed between the text and ``parts``, in the order of the URL.

    Names: tab_newline, scheme_case, backslash, authority_slashes, host_percent, host_idn, host_case, ipv4,
    ipv6, default_port, empty_port, port_zeros, empty_path, dot_segments, percent_encode.
    """
    text = trimmed.translate(_WITHOUT_TAB_NEWLINE)
    names = ["tab_newline"] if text != trimmed else []
    match = _WRITTEN.match(text)
    if match is None:
        return names
    scheme, slashes, authority, path, query = match.groups(default="")
    if scheme != parts.scheme:
        names.append("scheme_case")
    if "\\" in slashes or "\\" in path:
        names.append("backslash")
    if len(slashes) != 2:
        names.append("authority_slashes")
    location = authority.rpartition("@")[2]
    host, closing, rest = location.partition("]") if location.startswith("[") else ("", "", location)
    before, colon, port = rest.partition(":")
    names += _host_changes(host + closing + before, parts)
    names += _port_changes(port if colon else None, parts)
    path = path.replace("\\", "/")
    if not path:
        names.append("empty_path")
    if _DOT_SEGMENT.search(path):
        names.append("dot_segments")
    if _ENCODED_IN_PATH.search(path) or _ENCODED_IN_QUERY.search(query):
        names.append("percent_encode")
    return names
