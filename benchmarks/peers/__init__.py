"""Other tools doing MinHash deduplication of the same files, each in a virtualenv of its own.

All use word 3-grams, 128 permutations, and 16 bands of 8 rows: every permutation is used, and a pair at
Jaccard 0.8 becomes a candidate with probability 1 - (1 - 0.8^8)^16 = 0.947. The scripts in this folder
run inside those virtualenvs and import nothing of ours but ``tables.py`` beside them. The last line each
prints is ``{"read": ..., "kept": ...}``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool to compare with.

    Attributes:
        script: file in this folder.
        requirements: what its virtualenv holds, versions pinned.
        modules: what must import there before the virtualenv counts as made.
        note: how the tool is used and in what its result differs from ours.
    """

    script: str
    requirements: tuple[str, ...]
    modules: tuple[str, ...]
    note: str


PYARROW = "pyarrow==26.0.1"
NUMPY = "numpy==2.4.6"

PEERS: dict[str, Peer] = {
    "rensa": Peer(
        "rensa_peer.py",
        ("rensa==0.5.0", PYARROW, NUMPY),
        ("rensa", "pyarrow.parquet"),
        "R-MinHash over all shingles, its RMinHashLSH with candidates checked by estimated similarity; first stays",
    ),
    "datasketch": Peer(
        "datasketch_peer.py",
        ("datasketch==2.0.0", "xxhash==4.1.0", PYARROW, NUMPY),
        ("datasketch", "xxhash", "pyarrow.parquet"),
        "MinHash (affine32), MinHashLSH with candidates checked by estimated similarity; first stays",
    ),
    "text-dedup": Peer(
        "text_dedup_peer.py",
        ("text-dedup==0.4.0", "datasets==5.2.0", "click==8.5.1", PYARROW, NUMPY),
        ("text_dedup.minhash", "pyarrow.parquet"),
        "its minhash command, xxh3, two processes; no check of candidates, clusters by union; writes Arrow",
    ),
    "datatrove": Peer(
        "datatrove_peer.py",
        ("datatrove[io,processing]==0.10.1", "spacy==3.8.18", PYARROW, NUMPY),
        ("datatrove.pipeline.dedup.minhash", "spacy", "pyarrow.parquet"),
        "its four MinHash steps, local executor with two workers; no check of candidates, clusters by union; "
        "documents without text are left out when read",
    ),
}
