"""What the commands ``bloom size``, ``bloom info`` and ``bloom merge`` tell and do."""

from __future__ import annotations

import math
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dedup_pipeline.errors import ConfigError, OutputError
from dedup_pipeline.store.seen_files import load_seen, save_seen
from dedup_pipeline.urls.bloom import actual_error, bloom_size
from dedup_pipeline.urls.layouts import Layout, plan_classic, plan_layout
from dedup_pipeline.urls.protocol import checked_capacity, checked_error_rate
from dedup_pipeline.urls.seen import choose_seen, exact_bytes

_COUNT = re.compile(r"(\d[\d_,]*(?:\.\d+)?)(?:e\+?(\d{1,2}))?\s*([kmg]?)", re.IGNORECASE)
_SECRET_BYTES = 16
_UNITS = ("B", "kB", "MB", "GB", "TB")


def parse_count(text: str) -> int:
    """Return a number of items: ``1000000``, ``1_000_000``, ``1e6`` or ``1M``.

    Raises:
        ConfigError: it is none.

    >>> parse_count("2.5M"), parse_count("1e9")
    (2500000, 1000000000)
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"N = {text!r}: give a number of URLs, for instance 1000000, 1e6 or 1M")
    thousands = " kmg".index(match[3].lower() or " ")
    number = float(re.sub("[_,]", "", match[1])) * 10.0 ** int(match[2] or 0) * 1000**thousands
    return checked_capacity(round(number))


def read_secret(path: Path | None) -> bytes | None:
    """Return the secret that a file holds, as 16 bytes or 32 hex digits; None without a file.

    Raises:
        ConfigError: the file cannot be read or holds something else.
    """
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--secret-file {path}: {error.strerror}. Name the file that holds the secret.") from None
    if len(content) == _SECRET_BYTES:
        return content
    try:
        decoded = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        decoded = b""
    if len(decoded) != _SECRET_BYTES:
        raise ConfigError(f"--secret-file {path}: it holds neither 16 bytes nor 32 hex digits.")
    return decoded


def sizes(items: int, error_rate: float) -> list[dict[str, Any]]:
    """Return what each kind of seen-set takes for so many URLs: a row with kind, bytes, bits an item and error rate.

    Raises:
        ConfigError: no filter has that capacity or error rate.
    """
    items, error_rate = checked_capacity(items), checked_error_rate(error_rate)
    plan, counters = plan_layout(items, error_rate), plan_classic(items, error_rate)
    book = bloom_size(items, error_rate)
    return [
        _row("bloom", plan, items, plan.bits),
        _row("counting", counters, items, 4 * counters.bits),
        {**_row("text book", Layout("classic", *book), items, book.bits), "error_rate": actual_error(*book, items)},
        {
            "kind": "exact",
            "layout": "128-bit keys",
            "bytes": exact_bytes(items),
            "bits_per_item": 8 * exact_bytes(items) / items,
            "error_rate": 0.0,
            "expected_lost": 0.0,
        },
    ]


def _row(kind: str, layout: Layout, items: int, bits: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "layout": f"{layout.name}, {layout.hashes} bits a key",
        "bytes": -(-bits // 8),
        "bits_per_item": bits / items,
        "error_rate": layout.rate(items),
        "expected_lost": layout.lost(items),
    }


def size_table(items: int, error_rate: float, memory_limit: int) -> str:
    """Return the rows of `sizes` as text, with a word on what a run would choose."""
    lines = [f"{items:,} URLs, error rate {error_rate:g}", ""]
    lines.append(f"{'seen-set':<10} {'layout':<24} {'memory':>10} {'bits/URL':>9} {'error rate':>11} {'URLs lost':>12}")
    lines += [
        f"{row['kind']:<10} {row['layout']:<24} {readable(row['bytes']):>10} {row['bits_per_item']:>9.2f} "
        f"{row['error_rate']:>11.3g} {row['expected_lost']:>12,.4g}"
        for row in sizes(items, error_rate)
    ]
    chosen = choose_seen(items, memory_limit // 2)
    lines += [
        "",
        "URLs lost: new ones answered with 'seen' by the time all are in. The text book's size rounds k and so",
        "misses the rate a little; 'confirmed' is a filter of 16 bits a URL before exact keys on disk, and loses none.",
        f'A run with --memory-limit {readable(memory_limit)} and urls.seen = "auto" would take {chosen}.',
    ]
    return "\n".join(lines)


def readable(size: float) -> str:
    """Return a size for people, in powers of 1000.

    >>> readable(2_859_072), readable(512)
    ('2.86 MB', '512 B')
    """
    if size < 1000:
        return f"{size:.0f} B"
    power = min(int(math.log10(size)) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:.3g} {_UNITS[power]}"


def info(path: Path, secret: bytes | None) -> dict[str, Any]:
    """Return how a saved seen-set stands: its report, its parameters and the size of its file.

    Raises:
        StateError: no such file, damaged, or made with another secret.
    """
    seen = load_seen(path, secret=secret)
    return {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        **asdict(seen.describe()),
        "parameters": seen.parameters(),
    }


def info_text(known: dict[str, Any]) -> str:
    """Return what `info` found as text."""
    about = "about " if known["estimated"] else ""
    capacity = "" if known["capacity"] is None else f" of {known['capacity']:,}"
    lines = [
        f"File        {known['file']} ({readable(known['file_bytes'])})",
        f"Kind        {known['kind']}",
        f"URLs        {about}{known['inserted']:,}{capacity}",
        f"Memory      {readable(known['bytes'])}",
    ]
    if known["fill"] is not None:
        lines.append(f"Fill        {100 * known['fill']:.2f} % of the bits are set")
    lines += [
        f"Error rate  {known['error_rate']:.4g} now, {known['final_error_rate']:.4g} when full",
        f"Lost        about {known['expected_lost']:.4g} URLs so far",
    ]
    plain = {name: value for name, value in known["parameters"].items() if not isinstance(value, list | dict)}
    lines.append("Made with   " + ", ".join(f"{name} = {value}" for name, value in plain.items() if value is not None))
    if known["capacity"] and known["inserted"] >= 0.8 * known["capacity"] and known["kind"] != "scalable":
        lines.append("Note: more than 80 % of the capacity is taken.")
    return "\n".join(lines)


def merge(paths: list[Path], output: Path, secret: bytes | None, overwrite: bool) -> dict[str, Any]:
    """Write the union of saved seen-sets; return what `info` says of it.

    Raises:
        ConfigError: fewer than two files, or sets made with different parameters.
        StateError: a file that cannot be trusted.
        OutputError: the output exists, or cannot be written.
    """
    if len(paths) < 2:
        raise ConfigError("bloom merge: name at least two files")
    if os.path.lexists(output) and not overwrite:
        raise OutputError(f"--output {output} exists. Choose another name, or replace it with --overwrite.")
    merged: Any = load_seen(paths[0], secret=secret)
    for path in paths[1:]:
        try:
            merged = merged.union(load_seen(path, secret=secret))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
    save_seen(merged, output)
    return info(output, secret)
