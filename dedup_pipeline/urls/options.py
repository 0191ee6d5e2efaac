"""What a user may ask of the canonical form beyond a profile: every option is off unless it is named.

Each merges URLs that servers may tell apart, so no profile turns one on. The name of an option is the name of its
rule in ``CanonicalURL.rules``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.clearurls import ClearUrls
from dedup_pipeline.urls.parsing import parse_http

DEFAULT_SCHEMES: Final = ("", "http", "https")
_PARAMETER_LISTS: Final = ("strip_parameters", "keep_parameters", "only_parameters")


@dataclass(frozen=True, slots=True)
class UrlSwitches:
    """Options of the canonical form that a configuration can write down, each a switch of its own.

    Attributes:
        default_scheme: ``http`` or ``https`` for text that begins with a host of a known public suffix
            (``example.com/a``); without it such text is ``relative``.
        inner_url: a URL inside the path, or as the value of a parameter, stands for the whole.
        ignore_scheme: ``https`` is written ``http``.
        keep_fragment_routes: a fragment that begins with ``!`` or ``/`` stays.
        keep_userinfo: name and password before the host stay, and so stand in every ledger and log of keys.
        drop_www: a first label ``www`` goes while a registrable domain remains.
        drop_mobile: the same for ``m`` and ``mobile``.
        drop_amp: the same for ``amp``; also ``/amp`` and ``.amp`` at the end of the path, ``.amp.html``, and the
            parameter ``amp`` where it is empty, 1 or true.
        drop_index: ``index.html`` and its like (htm, shtml, php, asp, aspx, jsp; also ``default.``) at the path's end.
        drop_trailing_slash: slashes at the end of the path, but for the path ``/``.
        lower_path: the path in lower case, escapes aside.
        nfc: escaped text of path and query in Unicode's normal form C.
        decode_repeatedly: ``%25`` before two hexadecimal digits is ``%``, until none is left.
        unescape_ampersands: ``&amp;`` in the query is ``&``.
        split_semicolons: ``;`` in the query is ``&``.
        visit_ids: what the aggressive profile does with session ids, in path and query.
        merge_empty_values: ``?a=`` is ``?a``.
        sort_values: pairs are sorted by name and then by value, so repeated names lose their order.
        drop_repeats: of equal ``name=value`` pairs the first stays.
        strip_parameters: names of parameters that are dropped.
        keep_parameters: names of parameters that no rule drops.
        only_parameters: unless empty, all other parameters are dropped, and no rule drops these.

    Names of parameters are whole names, in any letter case, written as in a URL (``caf%C3%A9``, not ``a=1``).
    """

    default_scheme: str = ""
    inner_url: bool = False
    ignore_scheme: bool = False
    keep_fragment_routes: bool = False
    keep_userinfo: bool = False
    drop_www: bool = False
    drop_mobile: bool = False
    drop_amp: bool = False
    drop_index: bool = False
    drop_trailing_slash: bool = False
    lower_path: bool = False
    nfc: bool = False
    decode_repeatedly: bool = False
    unescape_ampersands: bool = False
    split_semicolons: bool = False
    visit_ids: bool = False
    merge_empty_values: bool = False
    sort_values: bool = False
    drop_repeats: bool = False
    strip_parameters: tuple[str, ...] = ()
    keep_parameters: tuple[str, ...] = ()
    only_parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UrlOptions(UrlSwitches):
    """Options of the canonical form: those of ``UrlSwitches``, and a list of rules. Hashable.

    Attributes:
        clearurls: rules in the format of ClearURLs, from ``load_clearurls``.

    Raises:
        ConfigError: a scheme or a name of a parameter that cannot be one.
    """

    clearurls: ClearUrls | None = None

    def __post_init__(self) -> None:
        if self.default_scheme not in DEFAULT_SCHEMES:
            raise ConfigError(f"default_scheme = {self.default_scheme!r}: give http or https, or nothing")
        for option in _PARAMETER_LISTS:
            names = getattr(self, option)
            if isinstance(names, str):
                raise ConfigError(f"{option} = {names!r}: give a list of names")
            object.__setattr__(self, option, tuple(names))
            for name in names:
                if problem := parameter_problem(name):
                    raise ConfigError(f"{option}: {problem}")


NO_OPTIONS: Final = UrlOptions()

HOST_SWITCHES: Final = tuple(entry.name for entry in fields(UrlSwitches) if entry.name != "default_scheme")
"""The switches that make sense for one host."""

SUFFIX_SWITCHES: Final = ("default_scheme", "drop_www", "drop_mobile", "drop_amp")
"""The switches that look into the Public Suffix List."""


def parameter_problem(name: str) -> str:
    """What is wrong with the name of a parameter, or ""."""
    if name and not set(name) & set("&=#"):
        return ""
    return f'{name!r} is no name of a parameter; give a whole name as it stands in URLs, for instance "ref"'


def host_name(name: str) -> str:
    """The host ``name`` as it stands in keys; raises ConfigError where it is no host alone.

    >>> host_name("Bücher.example."), host_name("[::1]")
    ('xn--bcher-kva.example', '[::1]')
    """
    parsed = parse_http(f"http://{name}/") if name and not set(name) & set("/\\?#@ \t\r\n") else None
    if parsed is None or parsed[1].port is not None or parsed[1].path != "/":
        raise ConfigError(f'{name!r} is no host; give a name alone, for instance "example.com"')
    return parsed[1].host.removesuffix(".")


def host_options(hosts: Mapping[str, UrlOptions] | None) -> tuple[tuple[str, UrlOptions], ...]:
    """The options per host in one hashable order, hosts as they stand in keys.

    Raises:
        ConfigError: a name that is no host, or two that are the same one.
    """
    named: dict[str, UrlOptions] = {}
    for name, options in (hosts or {}).items():
        host = host_name(name)
        if host in named:
            raise ConfigError(f"the host {host} is named twice; give its options once")
        named[host] = options
    return tuple(sorted(named.items(), key=lambda entry: entry[0]))
