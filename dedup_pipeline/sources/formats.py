"""What a file is, by its first bytes."""

from __future__ import annotations

import csv
import re

from dedup_pipeline.sources.frames import Arc, Warc
from dedup_pipeline.sources.jsonl import BOM
from dedup_pipeline.sources.streams import StreamFault
from dedup_pipeline.sources.tabular import sniff_delimiter

HEAD = 64 << 10
"""Bytes looked at."""

FORMATS = ("jsonl", "json", "csv", "parquet", "warc", "arc")

_SIGNATURES = (
    (b"PK\x03\x04", "a ZIP file (WACZ, spreadsheet, ...)"),
    (b"PK\x05\x06", "an empty ZIP file"),
    (b"%PDF-", "a PDF file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x37\xa4\x30\xec", "a zstd dictionary"),
    (b"ARROW1", "an Arrow file"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PARE", "a Parquet file with an encrypted footer"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
)
_CDX = re.compile(rb" ?CDX [ANa-zA-Z ]+\r?\n")
_CDXJ = re.compile(rb"!\w+ [{\[]|\S+\)\S* \d{8,17}[ \t]")
_NAME = re.compile(r"[^\W\d][\w .:/()#-]{0,99}")
_JSON_STARTS = {b"{": "jsonl", b"[": "json"}
_TABLE_ENDINGS = (".csv", ".tsv", ".tab")
_PACKED_ENDINGS = (".gz", ".zst", ".zstd", ".bz2", ".lz4")


def recognise(head: bytes, name: str) -> str | None:
    """The format of a file whose decompressed bytes begin with ``head``; None for an empty one.

    The name decides only whether text is a table. Text of another name is a table when its first line
    looks like column names and the lines behind it have as many fields.

    Raises:
        StreamFault: ``unknown_format``, with what the file seems to be.
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            raise _unknown(kind)
    text = head.removeprefix(BOM).lstrip(b" \t\r\n")
    if not text:
        if head.strip(b"\xef\xbb\xbf \t\r\n\0"):
            raise _unknown("binary")
        return None
    if text[:5].upper() == b"WARC/":
        return "warc"
    line = Arc.start.match(text)
    if text.startswith(b"filedesc:") or (line and Arc().accept(line[0])):
        return "arc"
    if text[:1] in _JSON_STARTS:
        return _JSON_STARTS[text[:1]]
    return _text_format(head, text, name)


def _text_format(head: bytes, text: bytes, name: str) -> str:
    if _CDX.match(head) or _CDXJ.match(text):
        raise _unknown("an index of a web archive (CDX, CDXJ)")
    if text.startswith(b"<"):
        raise _unknown("HTML or XML")
    if b"\0" in text[:1024] and not _is_table_name(name):
        raise _unknown("binary")
    if Warc.start.search(text):
        return "warc"  # damaged at its beginning
    if _is_table_name(name) or _looks_like_table(text):
        return "csv"
    raise _unknown("text that is neither JSON lines nor a table with a header")


def _unknown(kind: str) -> StreamFault:
    return StreamFault("unknown_format", f"looks like {kind}; Parquet, JSON, CSV, WARC, WET and ARC are read")


def _is_table_name(name: str) -> bool:
    name = name.lower()
    for ending in _PACKED_ENDINGS:
        name = name.removesuffix(ending)
    return name.endswith(_TABLE_ENDINGS)


def _looks_like_table(text: bytes) -> bool:
    lines = text.decode("utf-8", "replace").splitlines()[:4]
    if len(lines) < 2:
        return False
    try:
        table = list(csv.reader(lines[:3], delimiter=sniff_delimiter(lines[0])))
    except csv.Error:
        return False
    header, rest = table[0], table[1:]
    named = len(header) > 1 and len(set(header)) == len(header) and all(_NAME.fullmatch(field) for field in header)
    return named and all(len(row) == len(header) for row in rest if row)
