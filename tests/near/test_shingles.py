"""Texts to shingle sets: the kernel against the definition written in plain Python."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BROKEN, STRANGE, broken_bytes, sentences, texts

from dedup_pipeline.near.shingles import KINDS, SHINGLE_SCHEME, shingle_sets

from . import oracle_shingles as oracle

LAWS = settings(deadline=None, max_examples=200)
KIND = st.sampled_from(KINDS)
WIDTH = st.integers(1, 6)


def sets_of(strings: list[bytes], kind: str, n: int, before: bytes = b"", after: bytes = b"") -> list[list[int]]:
    """The sets of several texts that stand in one buffer, between bytes that belong to none of them."""
    content = np.frombuffer(bytearray(before + b"".join(strings) + after), dtype=np.uint8)
    offsets = np.cumsum([len(before), *map(len, strings)], dtype=np.int64)
    hashes, ends = shingle_sets(content, offsets, kind, n)
    assert hashes.dtype == np.uint64
    assert ends.dtype == np.int64
    assert ends[0] == 0
    assert ends[-1] == len(hashes)
    return [hashes[start:end].tolist() for start, end in pairwise(ends)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 100])
def test_the_whole_catalogue(kind: str, n: int) -> None:
    strings = [text.encode() for text in STRANGE.values()] + list(BROKEN.values())
    got = dict(zip([*STRANGE, *BROKEN], sets_of(strings, kind, n), strict=True))
    wanted = dict(zip([*STRANGE, *BROKEN], [oracle.shingle_hashes(text, kind, n) for text in strings], strict=True))
    assert got == wanted


@pytest.mark.parametrize(("kind", "step"), [("word", 1), ("char", 7)])
def test_every_code_point(kind: str, step: int) -> None:
    """Each code point behind a letter, so that its class, its folding and its bytes all show."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # Unassigned and private planes are one class; every 61st code point of them is enough.
    codes = [code for code in codes if code < 0x33500 or 0xE0000 <= code < 0xE0200 or code % 61 == 0]
    codes = codes[::step]
    strings = ["".join(f"a{chr(code)} " for code in codes[at : at + 64]).encode() for at in range(0, len(codes), 64)]
    assert sets_of(strings, kind, 1) == [oracle.shingle_hashes(text, kind, 1) for text in strings]


@LAWS
@given(st.lists(texts(), max_size=5), KIND, WIDTH)
def test_text(drawn: list[str], kind: str, n: int) -> None:
    assert sets_of([text.encode() for text in drawn], kind, n) == [
        oracle.shingle_hashes(text, kind, n) for text in drawn
    ]


@LAWS
@given(st.lists(broken_bytes(), max_size=5), KIND, WIDTH)
def test_bytes_that_are_no_utf8_count_as_what_python_replaces(drawn: list[bytes], kind: str, n: int) -> None:
    got = sets_of(drawn, kind, n)
    assert got == [oracle.shingle_hashes(content, kind, n) for content in drawn]
    assert got == sets_of([content.decode("utf-8", "replace").encode() for content in drawn], kind, n)


def test_every_pair_of_lead_and_continuation() -> None:
    """All 2-byte strings above ASCII, and all 3-byte ones at the borders of the table of well-formed sequences."""
    borders = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF]
    strings = [b"a" + bytes([one, two]) + b"b" for one in range(0x80, 0x100) for two in range(0x100)]
    strings += [
        b"a" + bytes([one, two, three]) + b"b" for one in range(0xC0, 0x100) for two in borders for three in borders
    ]
    strings += [bytes([one, two, 0x80, three]) for one in range(0xF0, 0xF6) for two in borders for three in borders]
    assert sets_of(strings, "char", 1) == [oracle.shingle_hashes(text, "char", 1) for text in strings]


@LAWS
@given(texts(), st.binary(max_size=9), st.binary(max_size=9), KIND, WIDTH)
def test_what_stands_beside_a_text_is_not_read(text: str, before: bytes, after: bytes, kind: str, n: int) -> None:
    """A character or a token is cut at the end of its text even where the bytes behind would go on with it."""
    [got] = sets_of([text.encode()], kind, n, before, after)
    assert got == oracle.shingle_hashes(text, kind, n)


@LAWS
@given(texts(max_size=200), KIND)
def test_cut_anywhere(text: str, kind: str) -> None:
    content = text.encode()
    strings = [content[:end] for end in range(max(0, len(content) - 12), len(content) + 1)]
    assert sets_of(strings, kind, 2) == [oracle.shingle_hashes(part, kind, 2) for part in strings]


@pytest.mark.parametrize("kind", KINDS)
def test_token_lengths(kind: str) -> None:
    """Every length about the chunk of eight bytes, at the end of the buffer and before it."""
    strings = [(letter * length).encode() for length in range(1, 40) for letter in ("a", "Z", "é", "ก", "\U00010400")]
    strings += [b"aZ" * length + "é".encode() + b"Q" * rest for length in range(9) for rest in range(9)]
    wanted = [oracle.shingle_hashes(text, kind, 2) for text in strings]
    assert sets_of(strings, kind, 2) == wanted
    assert [sets_of([text], kind, 2)[0] for text in strings] == wanted


@LAWS
@given(sentences(), WIDTH, KIND)
def test_repeats_are_entered_once_in_order_of_first_occurrence(text: str, n: int, kind: str) -> None:
    [got] = sets_of([text.encode()], kind, n)
    assert len(got) == len(set(got))
    assert got == oracle.shingle_hashes(text, kind, n)


def test_texts_of_all_lengths_do_not_disturb_each_other() -> None:
    """The table of one text is used again for the next: long, short and empty in turn, and the output must grow."""
    lengths = [0, 3000, 1, 2, 0, 40, 5000, 7, 16, 17, 31, 32, 33, 0, 900]
    strings = [
        " ".join(f"{letter}{number % 700}" for number in range(length)).encode()
        for length in lengths
        for letter in "xy"
    ]
    for n in (1, 3):
        assert sets_of(strings, "word", n) == [oracle.shingle_hashes(text, "word", n) for text in strings]


def test_many_one_letter_tokens_outgrow_the_first_guess() -> None:
    """Han characters and one-letter words need most room per byte."""
    strings = [
        "".join(chr(0x4E00 + code) for code in range(3000)).encode(),
        " ".join(map(chr, range(0x4E00, 0x5400))).encode(),
    ]
    strings += [b"a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9"] * 300
    for kind in KINDS:
        assert sets_of(strings, kind, 1) == [oracle.shingle_hashes(text, kind, 1) for text in strings]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 8, 9, 64, 1000, sys.maxsize])
def test_fewer_tokens_than_n_are_one_shingle(n: int) -> None:
    words = [f"w{number}" for number in range(8)]
    got = [len(found) for found in sets_of([" ".join(words[:count]).encode() for count in range(9)], "word", n)]
    assert got == [0] + [max(1, count - n + 1) for count in range(1, 9)]


def test_rolling_over_a_long_text_equals_the_polynomial() -> None:
    text = " ".join(f"t{number * number % 9973}" for number in range(3000))
    [got] = sets_of([text.encode()], "word", 1000)
    units = oracle.units(text, "word")
    assert len(got) == 2001
    assert [got[at] for at in (0, 1, 999, 1000, 2000)] == [
        oracle.shingle(units[at : at + 1000]) for at in (0, 1, 999, 1000, 2000)
    ]


def test_five_million_tokens() -> None:
    count = 5_000_000
    content = np.frombuffer(bytearray(" ".join(map(str, range(count))).encode()), dtype=np.uint8)
    hashes, ends = shingle_sets(content, np.array([0, len(content)], dtype=np.int64), "word", 3)
    assert ends.tolist() == [0, count - 2]
    assert bool(np.all(np.diff(np.sort(hashes)) != 0))
    for at in (0, 1, 99_998, 1_234_567, count - 3):
        assert hashes[at] == oracle.shingle([oracle.token_hash(str(number)) for number in range(at, at + 3)])


def test_five_million_tokens_of_three_words() -> None:
    content = np.frombuffer(bytearray(b"a b c " * 1_666_667), dtype=np.uint8)
    hashes, _ = shingle_sets(content, np.array([0, len(content)], dtype=np.int64), "word", 3)
    assert hashes.tolist() == oracle.shingle_hashes("a b c a b", "word", 3)


def test_hash_zero_is_written_as_one() -> None:
    """These tokens hash to 0: their last eight bytes are what the first eight left."""
    for token in ("f87rd55sia377if2", "2kaoyyfzxk7hbhiu", "cb_qu7vffmm8ykt6"):
        assert oracle.token_hash(token) == 0
        assert sets_of([token.encode(), token.upper().encode()], "word", 1) == [[1], [1]]
        # Twice: the second 1 must be found in the table, and another value must not be.
        assert sets_of([f"{token} x {token} 汉{token}".encode()], "word", 1) == [
            [1, oracle.shingle_hashes("x", n=1)[0], oracle.shingle_hashes("汉", n=1)[0]]
        ]


def test_no_texts() -> None:
    assert sets_of([], "word", 3) == []
    assert sets_of([b""], "word", 3) == [[]]
    assert sets_of([b"", b"", b""], "char", 3) == [[], [], []]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cat sat on the mat.", "the CAT   sat\non-the mat"),
        ("Straße", "STRA\u1e9eE"),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
        ("a汉b", "a 汉 b"),
        ("\u212aelvin", "kelvin"),
    ],
)
def test_texts_that_read_alike(one: str, other: str) -> None:
    assert sets_of([one.encode()], "word", 2) == sets_of([other.encode()], "word", 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b", "ab"),
        ("a_b", "a b"),
        ("the cat sat", "sat cat the"),
        ("12", "1 2"),
        ("é", "e"),
        ("é", "e\u0301"),  # no normalisation: canonically equivalent forms stay two tokens
        ("a", "aa"),
        ("abcdefgh", "abcdefgha"),
        ("İ", "i"),
        ("می\u200cخواهم", "می خواهم"),
    ],
)
def test_texts_that_do_not(one: str, other: str) -> None:
    assert sets_of([one.encode()], "word", 3) != sets_of([other.encode()], "word", 3)


def test_character_shingles_join_words_with_one_space() -> None:
    same = ["ab cd", "ab  cd", "...ab--CD...", "\n ab\t\u3000cd"]
    first, *others = sets_of([text.encode() for text in same], "char", 3)
    assert len(first) == 3
    assert others == [first] * 3
    assert sets_of([b"abcd"], "char", 3)[0] != first


def test_golden_hashes() -> None:
    """Made by the definition in plain Python once: a change here is a new `SHINGLE_SCHEME`."""
    assert SHINGLE_SCHEME == "chunk8-poly64/1"
    for (text, kind, n), wanted in GOLDEN.items():
        assert [f"{value:016x}" for value in sets_of([text.encode()], kind, n)[0]] == wanted, (text, kind, n)


GOLDEN: dict[tuple[str, str, int], list[str]] = {
    ("a", "word", 3): [
        "a976032e0615b70f",
    ],
    ("the cat sat on the mat", "word", 3): [
        "f6e0599b0fb8e5d0",
        "eff1bcbee9e3d103",
        "5d19b59f12c87792",
        "91b5090f8999f0fb",
    ],
    ("internationalisation", "word", 1): [
        "3719aa813805d210",
    ],
    ("Straße 汉字 हिन्दी 𐐀x", "word", 1): [
        "18fbf57c65115452",
        "7664095cb36fad11",
        "77b41668288875ec",
        "7ff4e6064400fc12",
        "7e7dbb1f45b41bba",
    ],
    ("भाषा ไทย", "word", 2): [
        "3895995b0b40a74e",
        "02f06213619c7660",
        "1af3252c9ab8e2ac",
    ],
    ("Ab, c", "char", 3): [
        "f6d9eae1dfcd03ac",
        "7d249f503fbfe0fa",
    ],
    ("e\u0301 \U0001f469\u200d\U0001f4bb", "char", 2): [
        "cc19a325962df7f8",
        "dca801dc9d07c4a8",
        "f92bc80d347b929c",
    ],
}
