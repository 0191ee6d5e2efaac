"""JSON objects, one per line (``.jsonl``, ``.ndjson``, Scrapy's ``.jl``) or in one array (``.json``).

Values are taken as they were seen, never guessed: see `dedup_pipeline.schema.SEEN`. The rules for what
JSON itself leaves open: of equal keys the last wins and stands where the first stood; ``NaN`` and
``Infinity`` are no JSON; a number beyond the range of a double is refused; a lone surrogate written
as an escape becomes U+FFFD; bytes that are no UTF-8 stay as they are in values and become U+FFFD in keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Batch, Kind
from dedup_pipeline.sources.batches import SeenRows, Value
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.lines import read_lines
from dedup_pipeline.sources.options import ReadOptions
from dedup_pipeline.sources.streams import ByteStream, StreamFault

BOM = b"\xef\xbb\xbf"

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BLANK = b" \t\r\n"


class NotUsable(Exception):
    """A record that cannot be used: ``reason`` and ``detail`` as in `dedup_pipeline.schema.Bad`."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


def read_jsonl(source: Source, stream: ByteStream, options: ReadOptions) -> Iterator[Batch]:
    """The objects of ``stream``, a position per line, blank ones included.

    Raises:
        SourceBroken: the stream's fault; ``truncated`` too where the last line has no line feed and
            is the beginning of an object.
    """
    rows = SeenRows(source.name, options)
    position = -1
    try:
        for line, ended, _, size in read_lines(stream, options.record_bytes):
            position += 1
            text = line.removeprefix(BOM) if line is not None and position == 0 else line
            if text is None:
                rows.refuse(position, "too_large", f"a line of {size} bytes, more than {options.record_bytes}")
            elif not text or not text.strip(_BLANK):
                rows.skipped["blank_line"] += 1
            else:
                _add(rows, position, text, ended)
            if rows.full:
                yield rows.take(stream.consumed)
        position += 1
        if stream.trailing_garbage:
            rows.skipped["trailing_garbage"] += 1
    except StreamFault as fault:
        if rows:
            yield rows.take(stream.consumed)
        # `position` is that of the last line, unless that line itself is the fault
        at = position if fault.__cause__.__class__ is NotUsable else position + 1
        raise SourceBroken(source.name, at, fault.reason, fault.detail) from fault
    if rows:
        yield rows.take(stream.consumed)


def _add(rows: SeenRows, position: int, text: bytes, ended: bool) -> None:
    try:
        row, repaired = parse_object(text)
    except NotUsable as fault:
        if not ended and fault.reason == "not_json" and text.lstrip(_BLANK).startswith(b"{"):
            raise StreamFault("truncated", "the last line ends inside a JSON object") from fault
        rows.refuse(position, fault.reason, fault.detail)
    else:
        rows.repaired += rows.add(position, row) and repaired


def parse_object(line: bytes) -> tuple[dict[str, Value], bool]:
    """The values of one JSON object, and whether text in it had to be repaired.

    Raises:
        NotUsable: ``not_json``, ``not_object``, ``too_deep`` or ``number_out_of_range``.

    >>> parse_object(b'{"id": 7, "tags": ["a", "b"]}')
    ({'id': (3, b'7'), 'tags': (6, b'["a","b"]')}, False)
    """
    try:
        text = line.decode()
        raw = False
    except UnicodeDecodeError:
        text = _without_escaped_surrogates(line.decode("utf-8", "surrogateescape"))
        raw = True
    return seen_object(_parsed(text), raw)


def seen_object(value: object, raw: bool) -> tuple[dict[str, Value], bool]:
    """The members of a parsed object as seen; ``raw``: surrogates in it stand for bytes that are no UTF-8."""
    if not isinstance(value, dict):
        raise NotUsable("not_object", f"a JSON {_NAMES.get(type(value), 'value')}, not an object")
    texts = _Texts(raw)
    row: dict[str, Value] = {}
    for name, member in value.items():
        key = name
        if not key.isascii() and _SURROGATE.search(key):
            key = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", key)
            texts.repaired = True
        row[key] = (5, texts.encoded(member)) if isinstance(member, str) else _seen(member, texts)
    return row, texts.repaired


_NAMES: dict[type, str] = {
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "truth value",
    type(None): "null",
}


def _no_constant(word: str) -> object:
    raise NotUsable("not_json", f"{word} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _parsed(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotUsable("not_json", f"{error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise NotUsable("too_deep", "lists or objects nested too deeply") from error
    except ValueError as error:
        raise NotUsable("number_out_of_range", "an integer of more than 4300 digits") from error


class _Texts:
    """Strings to UTF-8, noting whether one had to be repaired."""

    __slots__ = ("raw", "repaired")

    def __init__(self, raw: bool) -> None:
        self.raw = raw
        self.repaired = False

    def encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.repaired = True
            if self.raw:
                return text.encode("utf-8", "surrogateescape")
            return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()


def _seen(value: object, texts: _Texts) -> Value:
    if value is None:
        return int(Kind.NULL), None
    if value is True:
        return int(Kind.BOOL), b"true"
    if value is False:
        return int(Kind.BOOL), b"false"
    if isinstance(value, int):
        return int(Kind.INT), str(value).encode()
    if isinstance(value, float):
        if math.isinf(value):
            raise NotUsable("number_out_of_range", "a number beyond the range of a double")
        return int(Kind.FLOAT), repr(value).encode()
    try:
        compact = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise NotUsable("too_deep", "lists or objects nested too deeply") from error
    except ValueError as error:
        raise NotUsable("number_out_of_range", "a number beyond the range of a double") from error
    return int(Kind.JSON), texts.encoded(compact)


def _without_escaped_surrogates(text: str) -> str:
    """``text`` with escapes of lone surrogates replaced, so that the remaining surrogates are raw bytes."""
    out: list[str] = []
    at = 0
    high = -1  # where an escaped high surrogate ends that may still find its other half
    for match in _ESCAPE.finditer(text):
        code = int(match[1], 16) if match[1] else 0
        if high == match.start() and 0xDC00 <= code <= 0xDFFF:
            high = -1
            continue
        if high >= 0:
            out.append(text[at : high - 6] + "\\ufffd")
            at = high
            high = -1
        if 0xD800 <= code <= 0xDBFF:
            high = match.end()
        elif 0xDC00 <= code <= 0xDFFF:
            out.append(text[at : match.start()] + "\\ufffd")
            at = match.end()
    if high >= 0:
        out.append(text[at : high - 6] + "\\ufffd")
        at = high
    return "".join(out) + text[at:]
