"""A small crawl in two files in which a document meets every fate there is, and what must become of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = [f"word{number}" for number in range(40)]
FRUIT = " ".join(WORDS)
ALMOST = " ".join([*WORDS[:-1], "other"])
"""One of 38 shingles of three words differs on each side: 37 of 39 in common."""
AFAR = " ".join(f"{word}far" for word in WORDS)

FIRST: list[dict[str, Any] | str] = [
    {"id": "k1", "url": "http://A.test/page?utm_source=x", "text": FRUIT, "note": 1},
    {"id": "u1", "url": "http://a.test/page#top", "text": FRUIT, "note": 2},
    {"id": "u2", "url": "http://a.test/page", "text": "quite another text", "note": 3},
    {"id": "r1", "text": FRUIT},
    "{broken",
    {"id": "n1", "url": "http://a.test/near", "text": ALMOST, "note": None},
    {"id": "e1", "url": "http://a.test/empty", "text": ""},
    {"id": "e2", "url": "http://a.test/empty2", "text": None},
    {"id": "e3", "url": "http://a.test/empty#", "text": ""},
]
SECOND: list[dict[str, Any] | str] = [
    {"id": "k1", "url": "http://b.test/", "text": AFAR, "tags": ["x", "y"]},
    {"id": "n2", "url": "http://b.test/near", "text": ALMOST},
    {"id": "u3", "url": "http://a.test/near", "text": AFAR},
]
"""u3 stands at the URL of n1, which fell in a later stage: so it is judged on its own, and falls to k1 by its text."""


def write_fates(folder: Path) -> Path:
    """Write the two files into the new folder ``folder``/crawl and return that."""
    crawl = folder / "crawl"
    crawl.mkdir()
    for name, lines in (("a.jsonl", FIRST), ("b.jsonl", SECOND)):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (crawl / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return crawl
