"""One pass over the bytes of a URL column: which URLs certainly are their own key, perhaps cut short.

Most URLs of a crawl are canonical already. The scan accepts a URL only where every rule of the profile is
known to leave it alone, but for a fragment and an empty query, which it cuts. Where only the pairs of the
query may be dropped or moved it says so; whatever else it is not sure of goes to the single form. So a doubt here
costs time, never a key.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Bool, Bytes, Int64, kernel
from dedup_pipeline.urls.options import NO_OPTIONS, UrlOptions
from dedup_pipeline.urls.rules import Profile
from dedup_pipeline.urls.tracking import TRACKING_PARAMETERS
from dedup_pipeline.urls.visits import MIN_VALUE_LENGTH

NOT_SURE: Final = -1
ONLY_PAIRS: Final = -2
"""ONLY_PAIRS - n: the key is the first n bytes after the rules on the query's pairs; nothing else changes."""

NAME_SLOTS: Final = 1 << 14

# Classes of bytes, one bit each, in the table of a scanner.
_HOST: Final = 1
_PATH: Final = 2
_QUERY: Final = 4
_UNRESERVED: Final = 8
_LETTER: Final = 16

_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_ALPHANUMERIC: Final = _LOWER + _LOWER.upper() + "0123456789"
# What the WHATWG parser leaves as it is in a path, without % (looked at apart) and \ (a slash there).
_PATH_BYTES: Final = _ALPHANUMERIC + "-._~!$&'()*+,/:;=@[]|"
# In a query ' is escaped by the parser.
_QUERY_BYTES: Final = _ALPHANUMERIC + "-._~!$&()*+,/:;=@?[]|"


class Scanner(NamedTuple):
    """What the scan needs to know of profile and options, as arrays and plain switches.

    ``classes``: uint8[256]; ``names``: bool[NAME_SLOTS], true in the slots of names to be looked at;
    ``longest_value``: longest value of a query parameter that is accepted. The switches after it belong to options:
    what the scan is not sure of with them. ``hosts``: bool[NAME_SLOTS], true in the slots of hosts with options.
    """

    classes: Bytes
    names: Bool
    slash_runs: bool
    pairs: bool
    sort: bool
    keep_empty_query: bool
    longest_value: int
    https: bool
    prefixes: bool
    path_ends: bool
    escapes: bool
    routes: bool
    every_query: bool
    every_pair: bool
    by_host: bool
    hosts: Bool


def _path_bytes(profile: Profile, options: UrlOptions) -> str:
    unsure = ";(" if profile.path_session or options.visit_ids else ""
    if options.inner_url:
        unsure += ":"
    if options.lower_path:
        unsure += _LOWER.upper()
    return _PATH_BYTES.translate(dict.fromkeys(map(ord, unsure)))


def scanner(profile: Profile, options: UrlOptions = NO_OPTIONS, hosts: tuple[str, ...] = ()) -> Scanner:
    """The scanner of profile and options; it accepts only what each rule that they turn on leaves alone.

    ``hosts`` have options of their own: nothing is accepted on them and below.
    """
    classes = np.zeros(256, np.uint8)
    path = _path_bytes(profile, options)
    # ClearURLs rules may look at any part of any URL, so there is no host that is accepted.
    for characters, bit in (
        (_LOWER + "0123456789-_." if options.clearurls is None else "", _HOST),
        (path, _PATH),
        (_QUERY_BYTES, _QUERY),
        (_ALPHANUMERIC + "-._~", _UNRESERVED),
        (_LOWER, _LETTER),
    ):
        for character in characters:
            classes[ord(character)] |= bit
    names = np.zeros(NAME_SLOTS, np.bool_)
    if profile.tracking:
        for name in TRACKING_PARAMETERS:
            names[_slot_of(name)] = True
    of_hosts = np.zeros(NAME_SLOTS, np.bool_)
    for host in hosts:
        of_hosts[_slot_of(host[::-1])] = True
    visit_ids = profile.visit_ids or options.visit_ids
    every_query = options.inner_url or options.drop_amp or options.unescape_ampersands or options.split_semicolons
    every_pair = (
        options.merge_empty_values
        or options.sort_values
        or options.drop_repeats
        or bool(options.strip_parameters or options.only_parameters)
    )
    return Scanner(
        classes,
        names,
        slash_runs=not profile.duplicate_slashes,
        pairs=profile.empty_pairs or profile.tracking or visit_ids or profile.query_sort or every_pair,
        sort=profile.query_sort,
        keep_empty_query=not profile.empty_query,
        longest_value=MIN_VALUE_LENGTH - 1 if visit_ids else 1 << 62,
        https=options.ignore_scheme,
        prefixes=options.drop_www or options.drop_mobile or options.drop_amp,
        path_ends=options.drop_index or options.drop_trailing_slash or options.drop_amp,
        escapes=options.inner_url or options.nfc or options.decode_repeatedly,
        routes=options.keep_fragment_routes,
        every_query=every_query,
        every_pair=every_pair,
        by_host=bool(hosts),
        hosts=of_hosts,
    )


def _slot_of(name: str) -> int:
    slot = 0
    for byte in name.lower().encode():
        slot = (slot * 31 + (byte | 0x20)) % NAME_SLOTS
    return slot


@kernel
def _prefixed(text: Bytes, start: int, end: int) -> bool:
    """Whether the first label of the host may be www, m, mobile or amp: begins with w, m or a."""
    return start < end and text[start] in (119, 109, 97)


@kernel
def _has_options(text: Bytes, start: int, end: int, hosts: Bool) -> bool:
    """Whether the host, or one it is below, may be among those with options."""
    slot = 0
    for i in range(end - 1, start - 1, -1):
        slot = (slot * 31 + (text[i] | 32)) % NAME_SLOTS
        if hosts[slot] and (i == start or text[i - 1] == 46):
            return True
    return False


@kernel
def _odd_end(text: Bytes, start: int, end: int) -> bool:
    """Whether the path may end in a slash, a name of index files or a mark of AMP pages."""
    if end - start <= 1:
        return False
    i = end - 1
    while text[i] != 47:
        i -= 1
    # The last segment is empty, or has three letters at least: amp, .amp, index., default. (in any case).
    if i == end - 1:
        return True
    first = text[i + 1] | 32
    return first in (97, 105, 100) or (text[end - 1] | 32) in (112, 108)  # a, i, d; .amp, .amp.html


@kernel
def _host_end(text: Bytes, start: int, end: int, classes: Bytes) -> int:
    """Index of the slash after a plain lower-case host name; -1 if it is anything else."""
    label = start
    i = start
    while i < end and text[i] != 47:
        byte = text[i]
        if not classes[byte] & 1:
            return -1
        if byte == 46:
            if i == label:
                return -1
            label = i + 1
        elif byte == 45 and i >= label + 3 and text[i - 1] == 45 and text[i - 2] == 110 and text[i - 3] == 120:
            return -1  # xn--
        i += 1
    # A last label that begins with a letter is no number, so the host is no IPv4 address.
    return i if i < end and i > label and classes[text[label]] & 16 else -1


@kernel
def _hex(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    return byte - 55 if 65 <= byte <= 70 else -1


@kernel
def _escaped(text: Bytes, i: int, end: int, classes: Bytes) -> int:
    """Value of the upper-case escape at ``i`` if it is one that stays as it is, else -1."""
    if i + 2 >= end:
        return -1
    high, low = _hex(text[i + 1]), _hex(text[i + 2])
    if high < 0 or low < 0:
        return -1
    value = high * 16 + low
    return -1 if classes[value] & 8 else value


@kernel
def _is_route(text: Bytes, i: int, end: int) -> bool:
    """Whether the fragment at the ``#`` at ``i``, if one is there, begins with ! or /."""
    return i + 1 < end and text[i + 1] in (33, 47)


@kernel
def _path_end(text: Bytes, start: int, end: int, classes: Bytes, slash_runs: bool, escapes: bool) -> int:
    """Index of the ``?`` or ``#`` after the path that starts with the slash at ``start``, or ``end``; -1: not sure."""
    i = start
    while i < end:
        byte = text[i]
        if byte in (63, 35):
            return i
        if byte == 47:
            if i + 1 < end and (text[i + 1] == 46 or (text[i + 1] == 47 and not slash_runs)):
                return -1
        elif byte == 37:
            if escapes or _escaped(text, i, end, classes) < 0:
                return -1
            i += 2
        elif not classes[byte] & 2:
            return -1
        i += 1
    return i


@kernel
def _query_end(text: Bytes, start: int, end: int, classes: Bytes, escapes: bool) -> int:
    """Index of the ``#`` after the query that starts at ``start``, or ``end``; -1: not sure."""
    i = start
    while i < end and text[i] != 35:
        if text[i] == 37:
            value = _escaped(text, i, end, classes)
            if escapes or value < 0 or value == 32:
                return -1
            i += 2
        elif not classes[text[i]] & 4:
            return -1
        i += 1
    return i


@kernel
def _before(text: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Whether the bytes a..a_end come before the bytes b..b_end."""
    while a < a_end and b < b_end:
        if text[a] != text[b]:
            return bool(text[a] < text[b])
        a += 1
        b += 1
    return a == a_end and b < b_end


@kernel
def _pairs_stay(text: Bytes, start: int, end: int, names: Bool, sort: bool, longest_value: int) -> bool:
    """Whether no pair of a query that is not empty is dropped or moved."""
    previous, previous_end = start, start
    i = start
    while True:
        name, slot = i, 0
        while i < end and text[i] != 61 and text[i] != 38:
            slot = (slot * 31 + (text[i] | 32)) % NAME_SLOTS
            i += 1
        name_end = i
        if names[slot] or (sort and _before(text, name, name_end, previous, previous_end)):
            return False
        while i < end and text[i] != 38:
            i += 1
        if i == name or i - name_end - 1 > longest_value:
            return False
        if i == end:
            return True
        previous, previous_end = name, name_end
        i += 1


@kernel
def _scheme_end(text: Bytes, start: int, end: int, https: bool) -> int:
    """Index after ``http://``, or after ``https://`` unless ``https`` says to doubt it; -1: not sure."""
    if end - start < 10 or text[start] != 104 or text[start + 1] != 116 or text[start + 2] != 116:
        return -1
    i = start + 4
    if text[start + 3] != 112:
        return -1
    if text[i] == 115:
        if https:
            return -1
        i += 1
    return i + 3 if text[i] == 58 and text[i + 1] == 47 and text[i + 2] == 47 else -1


@kernel
def _query_start(text: Bytes, start: int, end: int, scanner: Scanner) -> int:
    """Index of the ``?`` or ``#`` after the path, or ``end``; -1: not sure of what is before."""
    host = _scheme_end(text, start, end, scanner.https)
    path = _host_end(text, host, end, scanner.classes) if host >= 0 else -1
    if path < 0:
        return -1
    if scanner.prefixes and _prefixed(text, host, path):
        return -1
    if scanner.by_host and _has_options(text, host, path, scanner.hosts):
        return -1
    i = _path_end(text, path, end, scanner.classes, scanner.slash_runs, scanner.escapes)
    return -1 if i >= 0 and scanner.path_ends and _odd_end(text, path, i) else i


@kernel
def _kept_length(text: Bytes, start: int, end: int, scanner: Scanner) -> int:
    """Length of the prefix of the URL text[start:end] that is its key, or NOT_SURE, or ONLY_PAIRS - length."""
    i = _query_start(text, start, end, scanner)
    if i < 0:
        return -1
    query = i
    if i < end and text[i] == 63:
        query = i + 1
        i = _query_end(text, query, end, scanner.classes, scanner.escapes)
    if i < 0 or (scanner.routes and _is_route(text, i, end)):
        return -1
    if i == query:
        # No query, or an empty one.
        return i - start if scanner.keep_empty_query or text[i - 1] != 63 else i - start - 1
    if scanner.every_query:
        return -1
    if scanner.pairs and (
        scanner.every_pair or not _pairs_stay(text, query, i, scanner.names, scanner.sort, scanner.longest_value)
    ):
        return ONLY_PAIRS - (i - start)
    return i - start


@kernel
def kept_lengths(
    text: Bytes, offsets: npt.NDArray[np.signedinteger], valid: Bool, scanner: Scanner, max_bytes: int, out: Int64
) -> int:
    """Fill ``out`` with the length of each URL's prefix that is its key, NOT_SURE, or ONLY_PAIRS - length.

    Returns how many are negative.
    ``offsets`` has one more value than ``valid`` and ``out``. A null gets 0.
    """
    unsure = 0
    for i in range(len(out)):
        start, end = int(offsets[i]), int(offsets[i + 1])
        length = 0
        if valid[i]:
            length = -1 if end - start > max_bytes else _kept_length(text, start, end, scanner)
            if length < 0:
                unsure += 1
        out[i] = length
    return unsure


@kernel
def gather(
    text: Bytes,
    offsets: npt.NDArray[np.signedinteger],
    other: Bytes,
    other_starts: Int64,
    target_offsets: npt.NDArray[np.signedinteger],
    target: Bytes,
) -> None:
    """Copy each key to its place in ``target``: from ``text``, or from ``other`` where ``other_starts`` is not -1."""
    for i in range(len(other_starts)):
        at = np.int64(target_offsets[i])
        length = np.int64(target_offsets[i + 1]) - at
        if other_starts[i] < 0:
            start = np.int64(offsets[i])
            for j in range(length):
                target[at + j] = text[start + j]
        else:
            start = other_starts[i]
            for j in range(length):
                target[at + j] = other[start + j]
