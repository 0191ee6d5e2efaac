"""Delimited text with a header (``.csv``, ``.tsv``), every value text.

Fields are split as Python's ``csv`` module does: a field may stand in double quotes, a quote inside is
doubled. The delimiter is the one of comma, tab and semicolon that occurs most often in the header line
outside quotes; of equals the first in that order; a header without any is one column. An empty value
is an empty text, not null.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from dedup_pipeline.errors import SourceBroken
from dedup_pipeline.schema import Batch, Kind
from dedup_pipeline.sources.batches import MAX_COLUMNS, SeenRows
from dedup_pipeline.sources.find import Source
from dedup_pipeline.sources.jsonl import BOM
from dedup_pipeline.sources.lines import read_lines
from dedup_pipeline.sources.options import ReadOptions
from dedup_pipeline.sources.streams import ByteStream, StreamFault

DELIMITERS = ",\t;"


def sniff_delimiter(header: str) -> str:
    """The delimiter of a header line.

    >>> sniff_delimiter('id;"a,b,c";text')
    ';'
    """
    bare = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def read_csv(source: Source, stream: ByteStream, options: ReadOptions) -> Iterator[Batch]:
    """The records behind the header, a position per record from 0, blank lines included.

    Raises:
        SourceBroken: the stream's fault; ``truncated`` for a quote still open at the end, or a last
            record that is short and lacks its line feed; ``bad_header`` for a header with an empty or repeated name.
    """
    lines = _Lines(stream, options.record_bytes)
    try:
        header = lines.header()
    except StreamFault as fault:
        raise SourceBroken(source.name, 0, fault.reason, fault.detail) from fault
    if header is None:
        return
    columns, delimiter = header
    rows = SeenRows(source.name, options, columns)
    _allow_fields(options.record_bytes)
    reader = csv.reader(lines, delimiter=delimiter)
    position = -1
    try:
        while True:
            lines.begin()
            try:
                fields = next(reader)
            except StopIteration:
                break
            except _TooLarge:
                position += 1
                lines.skip_record()
                rows.refuse(position, "too_large", f"a record of more than {options.record_bytes} bytes")
            except csv.Error as error:
                position += 1
                rows.refuse(position, "not_csv", f"{error}")
            else:
                position += 1
                _add(rows, position, fields, columns, lines)
            if rows.full:
                yield rows.take(stream.consumed)
        if stream.trailing_garbage:
            rows.skipped["trailing_garbage"] += 1
    except StreamFault as fault:
        if rows:
            yield rows.take(stream.consumed)
        at = position if lines.last_is_short else position + 1
        raise SourceBroken(source.name, at, fault.reason, fault.detail) from fault
    yield rows.take(stream.consumed)


def _add(rows: SeenRows, position: int, fields: list[str], columns: list[str], lines: _Lines) -> None:
    if lines.open_quote:
        lines.last_is_short = True
        raise StreamFault("truncated", "a quote is still open at the end of the file")
    if not fields:
        rows.skipped["blank_line"] += 1
    elif len(fields) == len(columns):
        text = int(Kind.TEXT)
        values = [field.encode("utf-8", "surrogateescape") for field in fields]
        rows.add(position, {name: (text, value) for name, value in zip(columns, values, strict=True)})
        rows.repaired += any(not field.isascii() and _has_raw(field) for field in fields)
    elif not lines.ended and len(fields) < len(columns):
        lines.last_is_short = True
        raise StreamFault("truncated", f"the last record ends after {len(fields)} of {len(columns)} fields")
    else:
        rows.refuse(position, "wrong_field_count", f"{len(fields)} fields where the header has {len(columns)}")


def _has_raw(field: str) -> bool:
    try:
        field.encode()
    except UnicodeEncodeError:
        return True
    return False


def _allow_fields(size: int) -> None:
    """Raises the limit of the ``csv`` module, which holds for the whole process; it is never lowered."""
    if csv.field_size_limit() < size:
        csv.field_size_limit(size)


class _TooLarge(Exception):
    """A record above the limit."""


class _Lines:
    """Lines as text for ``csv.reader``, which asks for one per record, and for more while a quote is open."""

    def __init__(self, stream: ByteStream, limit: int) -> None:
        self._lines = read_lines(stream, limit)
        self._limit = limit
        self._taken: list[bytes] = []  # lines of the record so far
        self._size = 0
        self._open = 0  # quotes met in a record that is too large
        self.ended = True
        self.open_quote = False
        self.last_is_short = False

    def header(self) -> tuple[list[str], str] | None:
        """Column names and delimiter, None where there is no line at all."""
        self.begin()
        first = next(self._lines, None)
        while first is not None and first[0] is not None and not first[0].removeprefix(BOM).strip():
            first = next(self._lines, None)
        if first is None:
            return None
        text, _, _, size = first
        if text is None:
            raise StreamFault("bad_header", f"a header line of {size} bytes")
        line = text.removeprefix(BOM).decode("utf-8", "replace")
        delimiter = sniff_delimiter(line)
        try:
            columns = next(csv.reader([line], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise StreamFault("bad_header", f"the header line is no CSV: {error}") from error
        if len(columns) > MAX_COLUMNS:
            raise StreamFault("bad_header", f"{len(columns)} columns, more than {MAX_COLUMNS}")
        for number, name in enumerate(columns):
            if not name.strip() or name in columns[:number]:
                what = "has no name" if not name.strip() else "repeats an earlier name"
                raise StreamFault("bad_header", f"column {number + 1} of the header {what}")
        return columns, delimiter

    def begin(self) -> None:
        """A new record begins."""
        self._taken.clear()
        self._size = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            self.open_quote = bool(self._taken)
            raise StopIteration
        text, self.ended, quotes, size = line
        self._size += size
        if text is None or self._size > self._limit:
            self._open = (quotes if text is None else text.count(b'"')) + sum(one.count(b'"') for one in self._taken)
            raise _TooLarge
        self._taken.append(text)
        return text.decode("utf-8", "surrogateescape") + "\n" if self.ended else text.decode("utf-8", "surrogateescape")

    def skip_record(self) -> None:
        """Passes over the rest of a record that was too large: up to the line that closes its quotes."""
        while self._open % 2:
            line = next(self._lines, None)
            if line is None:
                self.last_is_short = True
                raise StreamFault("truncated", "a quote is still open at the end of the file")
            text, self.ended, quotes, _ = line
            self._open += quotes if text is None else text.count(b'"')
