"""Plants that are written out one by one: URL variants, URLs that only look alike, short and empty pages, no pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sample_documents import Document, Group, Planter
from sample_texts import Text

VARIANTS = (
    ("https://www.harbour.example/tides", "https://www.harbour.example/tides?utm_source=letter&utm_medium=email"),
    ("https://www.harbour.example/boats", "https://www.harbour.example/boats?UTM_Campaign=spring"),
    ("https://www.harbour.example/crew?id=7", "https://www.harbour.example/crew?fbclid=Ab3dEf&id=7&gclid=x_9"),
    ("https://almanac.example.org/moon", "https://almanac.example.org:443/moon"),
    ("http://almanac.example.org/sun", "http://almanac.example.org:80/sun"),
    ("https://almanac.example.org/Stars", "HTTPS://Almanac.EXAMPLE.org/Stars"),
    ("https://workshop.example.com/tools", "https://workshop.example.com/tools#bench"),
    ("https://workshop.example.com/caf%C3%A9", "https://workshop.example.com/caf%c3%a9"),
    ("https://workshop.example.com/~oil", "https://workshop.example.com/%7Eoil"),
    ("https://kitchen.example.net/find?a=1&b=2&c=3", "https://kitchen.example.net/find?c=3&a=1&b=2"),
    ("https://kitchen.example.net/rye", "https://kitchen.example.net/rye?"),
    ("https://kitchen.example.net/list?a=1&b=2", "https://kitchen.example.net/list?&a=1&&b=2&"),
    ("https://kitchen.example.net/q?w=two+words", "https://kitchen.example.net/q?w=two%20words"),
    ("https://fields.example/barley/old", "https://fields.example/barley/new/../old"),
    ("https://fields.example/oats/red", "https://fields.example//oats///red"),
    ("https://fields.example/hops", "https://fields.example./hops"),
    ("https://letters.example.org/", "https://letters.example.org"),
    ("https://xn--bcher-kva.example/regal", "https://b\u00fccher.example/regal"),
    ("https://letters.example.org/post?id=5", "HTTPS://LETTERS.example.org:443/post?utm_term=x&id=5#top"),
)
"""Two spellings of one address; the first is the key that the default rules give. The last mixes four rules."""

RULES = (
    *("tracking parameters", "tracking in any case", "click ids", "port 443", "port 80", "case of scheme and host"),
    *("fragment", "percent case", "unreserved escape", "parameter order", "empty query", "empty pairs"),
    *("plus and %20", "dot segments", "slash runs", "trailing dot", "empty path", "IDN host", "four at once"),
)

DISTINCT = (
    ("https://archive.example.net/page?n=1", "https://archive.example.net/page?n=2"),
    ("https://archive.example.net/Shelf", "https://archive.example.net/shelf"),
    ("https://archive.example.net/a%2Fb", "https://archive.example.net/a/b"),
    ("https://archive.example.net/x?ref=east", "https://archive.example.net/x?ref=west"),
    ("https://archive.example.net/dir", "https://archive.example.net/dir/"),
    ("http://archive.example.net/plain", "https://archive.example.net/plain"),
    ("https://archive.example.net/r?t=1&t=2", "https://archive.example.net/r?t=2&t=1"),
    ("https://archive.example.net/v?a", "https://archive.example.net/v?a="),
)
"""Addresses that look alike and are two: value, path case, %2F, ref, slash, scheme, order of one name, "a" and "a="."""


def make_urls(planter: Planter) -> Iterator[Group]:
    """Pages under two or three spellings of one URL, and pages whose URLs only look alike."""
    for number, ((address, spelling), rule) in enumerate(zip(VARIANTS, RULES, strict=True)):
        name = f"url_variant-{number:02d}"
        _, _, text = planter.fresh(name)
        first = replace(planter.document(name, "a", "url_variant", "crawl", text), url=address, address=address)
        second = replace(first, key=f"{name}-b", url=spelling, aside=planter.ads[0])
        group = [first, second.falls(first, "urls", "true", rule)]
        if number % 4 == 0:
            third = replace(first, key=f"{name}-c", source="feed", url=f"{address.split('?')[0]}#feed")
            if "?" not in address:
                group.append(third.falls(first, "urls", "true", "fragment, in the feed"))
        yield group
    for number, pair in enumerate(DISTINCT):
        name = f"url_distinct-{number:02d}"
        group = []
        for letter, url in zip("ab", pair, strict=True):
            _, _, text = planter.fresh(f"{name}/{letter}")
            page = planter.document(name, letter, "url_distinct", "crawl", text)
            group.append(replace(page, url=url, address=url))
        yield group


def make_special() -> Iterator[Group]:
    """Short pages, empty pages, images, and records that are no documents."""
    yield from make_short()
    yield from make_empty()
    yield from make_skipped()


def at(key: str, plant: str, text: str | None, form: str, source: str = "crawl") -> Document:
    """A page at a plain address of its own; ``text`` is all it says."""
    url = f"https://tiny.example/{key}"
    return Document(key, plant, source, url, url, None if text is None else Text(text, ()), form)


def make_short() -> Iterator[Group]:
    """Texts of few words: equal ones fall, others stay although they are shorter than one shingle."""
    cat, again, upper = at("short-00-a", "short", "cat", "bare"), at("short-00-b", "short", "cat", "bare"), "short-00-c"
    yield [
        cat,
        again.falls(cat, "records", note="equal text"),
        at(upper, "short", "Cat", "bare").falls(cat, "near", note="equal but for case"),
    ]
    dog = at("short-01-a", "short", "dog", "bare")
    yield [dog, at("short-01-b", "short", "dog", "bare", "feed").falls(dog, "records", note="equal text in the feed")]
    for number, text in enumerate(
        ("cat dog", "dog cat", "cat cat", "the cat sat", "the cat sat down", "404", "\u732b")
    ):
        yield [at(f"short-{number + 2:02d}-a", "short", text, "bare")]
    for number, text in enumerate(("bird", "cat bird", "the dog sat", "\u72ac")):
        yield [at(f"short-{number + 10:02d}-a", "short", text, "bare", "feed")]


def make_empty() -> Iterator[Group]:
    """Documents without text stay, but for two whose payloads are the same bytes."""
    for number in range(4):
        yield [at(f"empty-{number:02d}-a", "empty", "", "script")]
    yield [replace(at("empty-04-a", "empty", "", "empty"), note="no payload at all")]
    first, second = (at(f"empty-05-{letter}", "empty", "", "script") for letter in "ab")
    yield [first, second.falls(first, "records", note="same payload digest")]
    for number, form in enumerate(("bare", "bare", "null", "null", "missing", "missing")):
        yield [at(f"empty-{number + 6:02d}-a", "empty", "" if form == "bare" else None, form, "feed")]
    picture, copy, other = (at(f"image-0{key}", "image", None, "image") for key in ("0-a", "0-b", "1-a"))
    yield [picture, copy.falls(picture, "records", note="same payload digest")]
    yield [other]


def make_skipped() -> Iterator[Group]:
    """Responses that are read but are no documents, and revisits."""
    for number, (form, what) in enumerate(
        (
            ("404", "404 response"),
            ("404", "404 response"),
            ("301", "301 response"),
            ("500", "500 response"),
            ("post", "response to a POST"),
            ("revisit", "revisit record"),
            ("revisit", "revisit record"),
        )
    ):
        page = at(f"skipped-{number:02d}-a", "skipped", "Nothing to keep here", form)
        yield [replace(page, expected="skipped", note=what)]
