"""The pinned Unicode tables against the Unicode of this Python, and against facts of the standard."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from dedup_pipeline.near.unicode_tables import NOT_WORD, PAGE, SOLO, WORD, Tables, load_tables, make_tables

TABLES = load_tables()
SAME_UNICODE = pytest.mark.skipif(
    unicodedata.unidata_version != TABLES.version,
    reason=f"this Python has Unicode {unicodedata.unidata_version}, the tables {TABLES.version}",
)


def kind(character: str, tables: Tables = TABLES) -> int:
    return int(tables.entries[int(tables.pages[ord(character) >> 8]) * PAGE + (ord(character) & 255)]) & 3


def folded(character: str) -> str:
    entry = int(TABLES.entries[int(TABLES.pages[ord(character) >> 8]) * PAGE + (ord(character) & 255)])
    return chr(ord(character) + (entry >> 2))


def flat(tables: Tables) -> np.ndarray:
    """The entry of every code point."""
    codes = np.arange(0x110000)
    return tables.entries[tables.pages[codes >> 8].astype(np.int64) * PAGE + (codes & 255)]


@pytest.fixture(scope="module")
def made() -> Tables:
    return make_tables()


def test_shape() -> None:
    assert TABLES.pages.dtype == np.uint16
    assert TABLES.pages.shape == (0x110000 // PAGE,)
    assert TABLES.entries.dtype == np.int32
    assert len(TABLES.entries) % PAGE == 0
    assert int(TABLES.pages.max()) == len(TABLES.entries) // PAGE - 1
    assert set(np.unique(TABLES.entries & 3).tolist()) == {NOT_WORD, WORD, SOLO}


def test_the_version_is_pinned() -> None:
    assert TABLES.version == "14.0.0"


@SAME_UNICODE
def test_what_ships_is_what_is_made(made: Tables) -> None:
    assert made.version == TABLES.version
    assert np.array_equal(made.pages, TABLES.pages)
    assert np.array_equal(made.entries, TABLES.entries)


def test_of_two_versions_only_new_characters_may_differ(made: Tables) -> None:
    """Classes and foldings of assigned characters are all but stable; a few change in a decade."""
    assert (flat(made) != flat(TABLES))[flat(TABLES) != 0].sum() < 50


@SAME_UNICODE
def test_the_command_writes_the_shipped_file(tmp_path: Path) -> None:
    out = tmp_path / "tables.npz"
    subprocess.run([sys.executable, "-m", "dedup_pipeline.near.unicode_tables", str(out)], check=True, timeout=120)
    with np.load(out, allow_pickle=False) as arrays:
        assert str(arrays["version"]) == TABLES.version
        assert np.array_equal(arrays["pages"], TABLES.pages)
        assert np.array_equal(arrays["entries"], TABLES.entries)


def test_ascii_is_what_re_calls_a_word() -> None:
    for character in map(chr, range(128)):
        assert kind(character) == (WORD if re.fullmatch(r"\w", character, re.ASCII) else NOT_WORD)
        assert folded(character) == (character.lower() if kind(character) else character)


@SAME_UNICODE
def test_words_are_what_re_calls_a_word_and_marks_joiners_connectors() -> None:
    word = re.compile(r"\w").fullmatch
    for code, entry in enumerate(flat(TABLES).tolist()):
        character = chr(code)
        more = code in (0x200C, 0x200D) or unicodedata.category(character) in {"Mn", "Mc", "Me", "Pc"}
        assert (entry & 3 != NOT_WORD) == (more or word(character) is not None), hex(code)


@SAME_UNICODE
def test_folding_is_case_folding_of_one_character() -> None:
    for code, entry in enumerate(flat(TABLES).tolist()):
        character = chr(code)
        if entry & 3 == NOT_WORD:
            assert entry == 0
        elif len(character.casefold()) == 1:
            assert chr(code + (entry >> 2)) == character.casefold()


def test_folding_twice_is_folding_once_and_keeps_the_class() -> None:
    entries = flat(TABLES)
    target = np.arange(0x110000) + (entries >> 2)
    moved = np.flatnonzero(entries >> 2)
    assert len(moved) > 1300
    assert (entries[target[moved]] >> 2 == 0).all()
    assert (entries[target[moved]] & 3 == entries[moved] & 3).all()


@pytest.mark.parametrize(
    ("character", "wanted", "to"),
    [
        ("A", WORD, "a"),
        ("_", WORD, "_"),
        ("-", NOT_WORD, "-"),
        ("'", NOT_WORD, "'"),
        ("\u00ad", NOT_WORD, "\u00ad"),  # soft hyphen
        ("ß", WORD, "ß"),
        ("\u1e9e", WORD, "ß"),
        ("\u0130", WORD, "\u0130"),  # its folding is two characters long
        ("\u0131", WORD, "\u0131"),
        ("\u03c2", WORD, "σ"),
        ("\u212a", WORD, "k"),
        ("\u023a", WORD, "\u2c65"),
        ("\uab70", WORD, "\u13a0"),  # Cherokee folds to capitals
        ("\U00010400", WORD, "\U00010428"),
        ("\u0301", WORD, "\u0301"),
        ("\u200d", WORD, "\u200d"),
        ("\u200b", NOT_WORD, "\u200b"),
        ("\u203f", WORD, "\u203f"),
        ("Ⅷ", WORD, "ⅷ"),
        ("²", WORD, "²"),
        ("한", WORD, "한"),
        ("अ", WORD, "अ"),
        ("ع", WORD, "ع"),
        ("汉", SOLO, "汉"),
        ("\U00020000", SOLO, "\U00020000"),
        ("\uf900", SOLO, "\uf900"),
        ("々", SOLO, "々"),
        ("〇", SOLO, "〇"),
        ("ひ", SOLO, "ひ"),
        ("カ", SOLO, "カ"),
        ("ｶ", SOLO, "ｶ"),
        ("ไ", SOLO, "ไ"),
        ("\u0e31", SOLO, "\u0e31"),  # a Thai vowel sign, which is a mark
        ("ລ", SOLO, "ລ"),
        ("ភ", SOLO, "ភ"),
        ("မ", SOLO, "မ"),
        ("。", NOT_WORD, "。"),
        ("฿", NOT_WORD, "฿"),
        ("\U0001f600", NOT_WORD, "\U0001f600"),
        ("\ufe0f", WORD, "\ufe0f"),  # variation selectors are marks
        ("\ufffd", NOT_WORD, "\ufffd"),
        ("\ue000", NOT_WORD, "\ue000"),
        ("\U0010ffff", NOT_WORD, "\U0010ffff"),
    ],
)
def test_facts(character: str, wanted: int, to: str) -> None:
    assert kind(character) == wanted
    assert folded(character) == to
