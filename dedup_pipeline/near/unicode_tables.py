r"""The pinned Unicode tables of the near stage.

What a word character is, how it folds and which characters are tokens of their own must not change
with the Python that happens to run: signatures of two versions would not meet. So the tables of one
Unicode version are shipped in ``unicode_tables.npz``, made by ``python -m
dedup_pipeline.near.unicode_tables OUT.npz`` from the ``unicodedata`` of the Python that runs it.

- **word character**: general category L*, M*, N* or Pc, and U+200C and U+200D, the joiners (after
  UTS #18, Annex C, ``\w``; with all of N*, as Python's ``\w`` has it).
- **simple folding**: the one-character case folding of ``CaseFolding.txt`` (status C and S); here
  ``casefold()`` where that is one character, else ``lower()`` where that is one character, else the
  character itself.
- **own token**: characters of Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar, scripts that
  write no spaces between words.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

PAGE = 256
"""Code points per page of the two-stage tables."""

NOT_WORD, WORD, SOLO = 0, 1, 2
"""The kinds of character: none of a word, part of a word, a token of its own."""

_SOLO_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
)
_SOLO_MARKS = frozenset([0x3005, 0x3007, *range(0x3021, 0x302A), *range(0x3038, 0x303C)])
_JOINERS = frozenset([0x200C, 0x200D])


class Tables(NamedTuple):
    """Two-stage tables: the entry of code point c is ``entries[pages[c >> 8] * 256 + (c & 255)]``.

    Attributes:
        pages: uint16, one per page of 256 code points.
        entries: int32; the lowest two bits are the kind (`NOT_WORD`, `WORD`, `SOLO`), the others what
            folding adds to the code point.
        version: the Unicode version, for instance ``14.0.0``.
    """

    pages: npt.NDArray[np.uint16]
    entries: npt.NDArray[np.int32]
    version: str


@cache
def load_tables() -> Tables:
    """Return the tables that ship with the package."""
    shipped = files("dedup_pipeline.near").joinpath("unicode_tables.npz")
    with shipped.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Tables(arrays["pages"], arrays["entries"], str(arrays["version"]))


def make_tables() -> Tables:
    """Return tables made from the running Python's ``unicodedata``."""
    import unicodedata

    flat = np.zeros(0x110000, dtype=np.int32)
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] not in "LMN" and category != "Pc" and code not in _JOINERS:
            continue
        solo = code in _SOLO_MARKS or unicodedata.name(character, "").startswith(_SOLO_NAMES)
        flat[code] = (_fold(character) - code) * 4 + (SOLO if solo else WORD)
    rows, pages = np.unique(flat.reshape(-1, PAGE), axis=0, return_inverse=True)
    return Tables(pages.reshape(-1).astype(np.uint16), rows.reshape(-1), unicodedata.unidata_version)


def _fold(character: str) -> int:
    for form in (character.casefold(), character.lower()):
        if len(form) == 1:
            return ord(form)
    return ord(character)


if __name__ == "__main__":
    import sys

    made = make_tables()
    np.savez_compressed(sys.argv[1], pages=made.pages, entries=made.entries, version=np.array(made.version))
