"""rensa: R-MinHash sketches made in batches, those of kept documents in its RMinHashLSH."""

from __future__ import annotations

import tables
from rensa import RMinHash, RMinHashLSH


def main() -> None:
    """Keeps each document that resembles no kept one."""
    options = tables.arguments()
    corpus = tables.read(options.files)
    index = RMinHashLSH(tables.THRESHOLD, tables.NUM_PERM, tables.BANDS)
    kept: dict[int, RMinHash] = {}
    keep: list[bool] = []
    for batch in tables.shingled(corpus):
        sketches = RMinHash.from_token_sets(batch, tables.NUM_PERM, 1)
        for words, sketch in zip(batch, sketches, strict=True):
            # Documents without words are all alike to the sketch; they are kept and go past the index.
            alike = words and any(sketch.jaccard(kept[c]) >= tables.THRESHOLD for c in index.query(sketch))
            if words and not alike:
                index.insert(len(keep), sketch)
                kept[len(keep)] = sketch
            keep.append(not alike)
    tables.write_kept(corpus, keep, options.output)


if __name__ == "__main__":
    main()
