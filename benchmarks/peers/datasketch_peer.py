"""datasketch: MinHash of xxh3 hashes, kept documents in its MinHashLSH."""

from __future__ import annotations

import tables
from datasketch import MinHash, MinHashLSH
from xxhash import xxh3_64_intdigest


def main() -> None:
    """Keeps each document that resembles no kept one."""
    options = tables.arguments()
    corpus = tables.read(options.files)
    index = MinHashLSH(num_perm=tables.NUM_PERM, params=(tables.BANDS, tables.ROWS))
    kept: dict[int, MinHash] = {}
    keep: list[bool] = []
    for batch in tables.shingled(corpus):
        encoded = ([shingle.encode() for shingle in words] for words in batch)
        sketches = MinHash.generator(encoded, num_perm=tables.NUM_PERM, seed=1, hashfunc=low_bits)
        for words, sketch in zip(batch, sketches, strict=True):
            # Documents without words are all alike to the sketch; they are kept and go past the index.
            alike = words and any(sketch.jaccard(kept[c]) >= tables.THRESHOLD for c in index.query(sketch))
            if words and not alike:
                index.insert(len(keep), sketch, check_duplication=False)
                kept[len(keep)] = sketch
            keep.append(not alike)
    tables.write_kept(corpus, keep, options.output)


def low_bits(value: bytes) -> int:
    """32 bits of xxh3: datasketch's default scheme takes hashes of 32 bits, and sha1 would be slower."""
    return xxh3_64_intdigest(value) & 0xFFFFFFFF


if __name__ == "__main__":
    main()
