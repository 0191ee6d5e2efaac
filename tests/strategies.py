"""Strange texts, made once for all tests: a catalogue to walk through and strategies to draw from."""

from __future__ import annotations

from hypothesis import strategies as st

STRANGE: dict[str, str] = {
    "empty": "",
    "blanks": " \t\r\n\v\f\u00a0\u2003\u3000",
    "no word character": "!?.,;:-\u2014\u2026\u20ac\U0001f600",
    "one token": "word",
    "one letter": "a",
    "underscore": "_ __ a_b",
    "eight letters": "eightlet",
    "nine letters": "nineltrs_",
    "sixteen letters": "sixteen_letters_",
    "capitals": "ABCXYZ AbCxYz @[`{ 019/:",
    "latin": "Crème brûlée naïve Ångström ÆSIR ŒUVRE",
    "sharp s": "Straße STRASSE STRA\u1e9eE",
    "dotted i": "I\u0130\u0131i \u0130stanbul",
    "final sigma": "ΟΔΥΣΣΕΥΣ Οδυσσεύς σ\u03c2Σ",
    "folds longer in UTF-8": "\u023a\u023e",
    "folds shorter in UTF-8": "\u212a\u212b \u2126",
    "cherokee": "\u13a0\u13a1 \uab70\uab71",
    "ligatures": "\ufb01\ufb02 \ufb03x",
    "cyrillic": "Ёлка ёлка ЩУКА",
    "chinese": "汉字没有空格，也能分开。",
    "chinese between latin": "abc汉DEF字ghi",
    "iteration mark and zero": "時々〇〡々",
    "japanese": "ひらがなとカタカナとｶﾀｶﾅ",
    "astral han": "\U00020000\U0002a6dfx\U00030000",
    "korean": "한국어 문장은 띄어 쓴다",
    "jamo": "\u1112\u1161\u11ab",
    "thai": "ภาษาไทยไม่เว้นวรรค",
    "lao": "ພາສາລາວ",
    "khmer": "ភាសាខ្មែរ",
    "myanmar": "မြန်မာဘာသာ",
    "arabic": "اللُّغَةُ العَرَبِيَّة ١٢٣",
    "persian joiner": "می\u200cخواهم می\u200dخواهم",
    "hebrew": "עִבְרִית",
    "devanagari": "हिन्दी क्षत्रिय १२३",
    "tamil": "தமிழ் மொழி",
    "combining marks": "e\u0301 e\u0301\u0323x a\u0308o\u0308",
    "marks without a letter": "\u0301\u0302 \u0301",
    "emoji": "\U0001f600 \U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea \u2764\ufe0f 5\ufe0f\u20e3",
    "skin tone": "a\U0001f44d\U0001f3fdb",
    "right to left mark": "a\u200fb \u202eabc\u202c",
    "soft hyphen": "soft\u00adhyphen",
    "byte order mark": "\ufefftext",
    "zero bytes": "a\0b\0\0c",
    "replacement": "a\ufffdb \ufffd",
    "private use": "a\ue000b\U000f0000c\U0010fffd",
    "noncharacters": "a\ufffeb\uffffc\U0010ffff",
    "edges of UTF-8 lengths": "\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff",
    "roman and superscript": "Ⅷ ⅷ x² ½ ①",
    "mathematical": "\U0001d400\U0001d41a \U0001d7d8",
    "deseret": "\U00010400\U00010428",
    "egyptian": "\U00013000\U00013001 \U00013002",
    "connectors": "a\u203fb c\u2040d",
    "variation selectors": "葛\U000e0100 葛",
    "tags": "x\U000e0041\U000e007f",
    "repeated": "a b a b a b a b a b",
    "long token": "x" * 1000,
    "long foreign token": "é" * 1000,
}
"""By name: texts that have broken some program."""

BROKEN: dict[str, bytes] = {
    "lone continuation": b"a\x80b",
    "only continuations": b"\x80\xbf\x80\xbf",
    "overlong two": b"a\xc0\xafb \xc1\xbf",
    "overlong three": b"a\xe0\x80\xafb \xe0\x9f\xbf",
    "overlong four": b"a\xf0\x80\x80\xafb \xf0\x8f\xbf\xbf",
    "surrogate": b"a\xed\xa0\x80b \xed\xbf\xbf",
    "above the last code point": b"a\xf4\x90\x80\x80b",
    "bytes of no UTF-8": b"a\xf5b\xfec\xffd",
    "cut after one": b"a\xe6",
    "cut after two": b"a\xe6\xb1",
    "cut after three": b"a\xf0\x9f\x98",
    "cut before a letter": b"a\xe6\xb1b \xf0\x9f\x98c \xf0\x9fd",
    "cut before a sequence": b"\xe6\xe6\xb1\x89\xf0\x9f\xe6\xb1\x89",
    "latin-1": "Crème brûlée".encode("latin-1"),
    "utf-16": "word word".encode("utf-16"),
    "begins with a continuation": b"\xb1\x89word",
}
"""By name: bytes that are no UTF-8."""

_LETTERS = st.sampled_from([*"abcXYZ019_", *" ", *"-.,'"])
_ODD = st.sampled_from(sorted(set("".join(STRANGE.values()))))
_ANY = st.characters(exclude_categories=["Cs"])
_FRAGMENTS = st.sampled_from(sorted({*BROKEN.values(), *(text.encode()[:9] for text in STRANGE.values())}))


def texts(max_size: int = 60) -> st.SearchStrategy[str]:
    """Text of plain letters, letters out of the catalogue and characters of every plane, without surrogates."""
    return st.text(_LETTERS | _ODD | _ANY, max_size=max_size) | st.text(_LETTERS, max_size=max_size)


def broken_bytes(max_parts: int = 6) -> st.SearchStrategy[bytes]:
    """Bytes that are often, but not always, no UTF-8."""
    part = _FRAGMENTS | st.binary(max_size=6) | st.text(_LETTERS | _ODD, max_size=8).map(str.encode)
    return st.lists(part, max_size=max_parts).map(b"".join)


def sentences(words: str = "abcdefghij", max_size: int = 30) -> st.SearchStrategy[str]:
    """Texts of few different words, so that shingles repeat and texts overlap."""
    return st.lists(st.sampled_from(list(words)), max_size=max_size).map(" ".join)
