"""Visit ids: parameters that name one visitor's session and not the page.

Only the ``aggressive`` profile removes them, and only where the value looks like a generated id: sites
also use ``sid`` for a story or ``session`` for a conference talk, and a short or wordy value stays.
A change here changes keys, so it must raise ``VISITS_VERSION``.
"""

from __future__ import annotations

import re
from typing import Final

VISITS_VERSION: Final = "1"

MIN_VALUE_LENGTH: Final = 16
"""No value shorter than this is ever taken for a visit id."""

VISIT_PARAMETERS: Final[frozenset[str]] = frozenset(
    {"phpsessid", "jsessionid", "sid", "sessid", "sessionid", "session_id", "oscsid", "zenid", "xtcsid", "phpsid"}
)
"""Names in lower case (PHP, Java servlets, osCommerce, Zen Cart, xt:Commerce, older forums)."""

_HEX: Final = re.compile(r"(?:[0-9a-f]{16,64}|[0-9A-F]{16,64})")
_TOKEN: Final = re.compile(r"[0-9A-Za-z,_\-]{22,128}")
_DIGITS_AND_LETTERS: Final = re.compile(r"(?=.*[0-9].*[0-9].*[0-9])(?=.*[A-Za-z].*[A-Za-z].*[A-Za-z])")
# Classic ASP: the name carries eight random letters, the value 24 (a cookie name, copied into links).
_ASP_NAME: Final = re.compile(r"ASPSESSIONID[A-Z]{8}")
_ASP_VALUE: Final = re.compile(r"[A-Z]{24}")
# A servlet id: hexadecimal or base-64-like, then an optional node name (".node1", "!weblogic").
# Not after "." or "..": what is left would be a dot segment, and so another page.
_PATH_SESSION: Final = re.compile(
    r"(?<!/\.)(?<!/\.\.);jsessionid=([0-9A-Za-z_\-]{16,128}+)(?:[.!~][0-9A-Za-z_.!~\-]*+)?(?=[;/]|$)", re.IGNORECASE
)
# ASP.NET session ids in the path: "/(S(24 characters out of a-z and 0-5))/".
_ASPNET_SEGMENT: Final = re.compile(r"/\(S\([a-z0-5]{24}\)\)(?=/)")


def _generated(value: str) -> bool:
    """Whether a value has the shape of a generated id: hexadecimal, or long and mixed."""
    if _HEX.fullmatch(value):
        return any(c.isdigit() for c in value)
    return _TOKEN.fullmatch(value) is not None and _DIGITS_AND_LETTERS.match(value) is not None


def is_visit_pair(pair: str) -> bool:
    """Whether a ``name=value`` pair is a visit id by its name and by the shape of its value.

    >>> is_visit_pair("PHPSESSID=0123456789abcdef0123456789abcdef"), is_visit_pair("sid=4711")
    (True, False)
    """
    name, _, value = pair.partition("=")
    if len(value) < MIN_VALUE_LENGTH:
        return False
    if name.lower() in VISIT_PARAMETERS:
        return _generated(value)
    return _ASP_NAME.fullmatch(name) is not None and _ASP_VALUE.fullmatch(value) is not None


def _without_session(match: re.Match[str]) -> str:
    return "" if _generated(match.group(1)) else match.group()


def strip_path_session(path: str) -> str:
    """``path`` without ``;jsessionid=`` parameters and ASP.NET session segments whose value looks generated.

    >>> strip_path_session("/a;jsessionid=0123456789ABCDEF0123456789ABCDEF;v=1")
    '/a;v=1'
    """
    if ";" in path:
        path = _PATH_SESSION.sub(_without_session, path)
    if "/(S(" in path:
        path = _ASPNET_SEGMENT.sub("", path)
    return path
