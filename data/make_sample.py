"""Makes the sample crawl, its expected outcomes and its labelled pairs; see README.md beside this file.

    python data/make_sample.py [FOLDER]     # default: this folder

The same files come out each time; nothing is read but ``texts/``. Needs Python 3.11 or later, nothing else.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from pathlib import Path

from sample_documents import Document
from sample_files import crawl_bytes, feed_bytes
from sample_plan import documents, labels

SOURCES = {"crawl": "sample/crawl.warc.gz", "feed": "sample/feed.jsonl"}
EXPECTED = ("id", "plant", "expected", "stage", "keeper", "same_content", "source", "address", "note")


def csv_bytes(header: Iterable[str], rows: Iterable[Iterable[str]]) -> bytes:
    """A CSV file with ``\\n`` line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def expected_bytes(pages: list[Document]) -> bytes:
    """What the default run should do with each document, in the order of the files."""
    ids = {page.key: page.id for page in pages}
    return csv_bytes(
        EXPECTED,
        (
            (
                page.id,
                page.plant,
                page.expected,
                page.stage,
                ids[page.keeper] if page.keeper else "",
                page.same_content,
                SOURCES[page.source],
                page.address,
                page.note,
            )
            for page in pages
        ),
    )


def sample_files() -> dict[str, bytes]:
    """Every file of the sample by its path in the folder."""
    pages = documents()
    pairs = ((a, b, "true" if same else "false") for a, b, same in labels(pages))
    return {
        SOURCES["crawl"]: crawl_bytes(pages),
        SOURCES["feed"]: feed_bytes(pages),
        "expected.csv": expected_bytes(pages),
        "labels.csv": csv_bytes(("id_a", "id_b", "is_duplicate"), pairs),
    }


def main(arguments: list[str]) -> int:
    """Writes the files into the folder named, or beside this script."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, content in sample_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(f"{path}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
