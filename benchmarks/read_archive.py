"""Our reading of archives by itself: framing, digests, text and title on so many extraction workers.

What a run does before it deduplicates; nothing is written but the counts. Run as a process of its own by ``run.py``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from dedup_pipeline.sources import Extraction, ReadOptions, find_sources, read_source


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the archives named as arguments."""
    parser = argparse.ArgumentParser(description="Read archives into Arrow batches and count their documents.")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", type=int, default=2, help="extraction workers (default 2)")
    options = parser.parse_args(arguments)
    pages = size = 0
    with Extraction(options.threads) as extraction:
        for source in find_sources(options.files):
            for batch in read_source(source, ReadOptions(batch_bytes=8 << 20), extraction):
                pages += batch.rows.num_rows
                size += batch.rows.nbytes
    print(json.dumps({"read": pages, "kept": pages, "bytes": size}))


if __name__ == "__main__":
    main()
