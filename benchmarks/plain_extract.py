"""The yardstick for archives: FastWARC and Resiliparse on one thread, main text and title of every page.

Nothing is written but the counts. Run as a process of its own by ``run.py``.
"""

from __future__ import annotations

import json
import sys

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree


def main() -> None:
    """Reads the archives named as arguments."""
    pages = characters = 0
    for name in sys.argv[1:]:
        with open(name, "rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                payload = record.reader.read()
                page = bytes_to_str(payload, record.http_charset or detect_encoding(payload) or "utf-8")
                tree = HTMLTree.parse(page)
                characters += len(tree.title or "") + len(extract_plain_text(tree, main_content=True))
                pages += 1
    print(json.dumps({"read": pages, "kept": pages, "characters": characters}))


if __name__ == "__main__":
    main()
