"""Makes a WARC file of a given size with HTML pages as a crawl of many sites would hold them.

Pages are of 20 to 80 kB: doctype, head with meta elements, styles and scripts, a large menu, an article of
paragraphs, headings, lists, tables, figures and code, teasers of other pages, comments, footer. Six
page designs; each host has one of them, a vocabulary order and boilerplate of its own, and one charset
(most UTF-8, some ISO-8859-1 or windows-1252, told by header, by meta element or by both). Words are invented and
drawn by Zipf's law; everything follows from the seed.

What a page is made of is fitted to 270 real pages from 30 sample archives of WARC tools (mean 48 kB): 65 % of the
characters there are tags, 34 tags to the thousand characters, 21 % text, 16 % main text by Resiliparse.

    python -m benchmarks.warc --megabytes 500 crawl.warc
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

VERSION = 2
"""Of the pages; goes up whenever equal seeds give other bytes, so that no kept file is taken for a newer one."""
HOSTS = 150
VOCABULARY = 40_000
START = datetime(2024, 3, 1, tzinfo=UTC)
CHARSETS = ("utf-8",) * 8 + ("iso-8859-1", "windows-1252")
DESIGNS = (
    ("div", "article-body", "site-nav"),
    ("article", "post-content", "menu"),
    ("main", "content", "navbar-nav"),
    ("div", "mw-parser-output", "vector-menu"),
    ("section", "entry-content", "nav-links"),
    ("td", "maintext", "leftcol"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages of one host have in common."""

    host: str
    charset: str
    charset_in_header: bool
    container: str
    content_class: str
    menu_class: str
    style: str
    script: str
    menu: str
    footer: str


class Prose:
    """Seeded source of words, sentences and paragraphs."""

    def __init__(self, seed: int) -> None:
        """Equal seeds give equal prose."""
        self.order = random.Random(seed)
        self.words = np.array(_vocabulary(self.order), dtype=object)
        self.draws = np.random.default_rng(seed)
        self.drawn: list[str] = []

    def take(self, count: int) -> list[str]:
        """``count`` words; word number i comes with probability about 1 / (i + 1)."""
        if len(self.drawn) < count:
            ranks = np.exp(self.draws.random(count + 100_000) * np.log(len(self.words))).astype(np.int64) - 1
            self.drawn = list(self.words[ranks])
        taken, self.drawn[-count:] = self.drawn[-count:], []
        return taken

    def sentence(self) -> str:
        """A sentence of 5 to 27 words."""
        words = self.take(5 + int(self.order.random() * 23))
        if len(words) > 12:
            words[len(words) // 2] += ","
        return " ".join(words).capitalize() + "."

    def paragraph(self, sentences: int) -> str:
        """That many sentences, some with inline markup."""
        parts = [self.sentence() for _ in range(sentences)]
        if sentences > 2:
            parts[1] = f'<a href="/{"-".join(self.take(3))}">{parts[1][:-1]}</a>.'
            parts[2] = parts[2].replace(" ", " <em>", 1).replace(".", "</em>.")
        return " ".join(parts)


def _vocabulary(order: random.Random) -> list[str]:
    """Distinct invented words, short ones first, about one in twelve with a letter outside ASCII."""
    onsets = [*"bcdfghjklmnprstvwz", "st", "tr", "pl", "br", "ch", "sh", "th", "gr"]
    vowels = [*"aeiouaeio", "ai", "ea", "ou", *"éöü"]
    codas = ["", "", "", "n", "r", "s", "t", "l", "nd", "st", "ng"]
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        syllables = 1 + min(3, len(found) * 4 // VOCABULARY + order.randrange(2))
        found["".join(order.choice(onsets) + order.choice(vowels) + order.choice(codas) for _ in range(syllables))] = (
            None
        )
    return list(found)


def make_site(number: int, prose: Prose, order: random.Random) -> Site:
    """Host number ``number`` with its own design, menu, footer, styles and scripts."""
    container, content_class, menu_class = DESIGNS[number % len(DESIGNS)]
    links = "".join(_menu_item(i, prose.take(2)) for i in range(60))
    rules = "".join(
        f".{w}-{i}{{margin:{i}px;color:#{order.randrange(1 << 24):06x}}}" for i, w in enumerate(prose.take(30))
    )
    lines = "".join(f'window.q.push(["{w}",{order.random():.6f}]);' for w in prose.take(30))
    return Site(
        host=f"www.{prose.take(1)[0].encode('ascii', 'ignore').decode()}-{number}.example",
        charset=order.choice(CHARSETS),
        charset_in_header=order.random() < 0.6,
        container=container,
        content_class=content_class,
        menu_class=menu_class,
        style=f"<style>{rules}</style>",
        script=f"<script>(function(){{window.q=window.q||[];{lines}}})();</script>",
        menu=f'<nav class="{menu_class}" role="navigation"><!-- menu --><ul class="level-1">{links}</ul></nav>',
        footer=f'<footer class="footer"><p>{prose.paragraph(2)}</p><p>&copy; 2024 {prose.sentence()}</p></footer>',
    )


def _menu_item(number: int, words: list[str]) -> str:
    """Two words of text in markup for a whole screen."""
    return (
        f'<li id="menu-item-{number}" class="menu-item item-{number} depth-1"><a href="/{words[0]}/{words[1]}/" '
        f'title="{words[0]}"><span class="label">{words[0]} {words[1]}</span></a></li>\n'
    )


def _teaser(number: int, prose: Prose, order: random.Random) -> str:
    """A card that leads to another page: much markup, few words."""
    words = prose.take(4)
    picture = f"/media/{order.randrange(1 << 30):x}"
    return (
        f'<div class="col col-{number % 4}"><div class="card teaser" data-id="{order.randrange(1 << 24)}">'
        f'<a href="/{"-".join(words)}" class="card-link"><img class="lazy" src="{picture}.jpg" '
        f'srcset="{picture}-480.jpg 480w, {picture}-800.jpg 800w" width="480" height="270" alt=""></a>'
        f'<h4 class="card-title"><a href="/{"-".join(words)}"><span>{" ".join(words)}</span></a></h4>'
        f"</div></div><!-- end of teaser {number}, cached -->\n"
    )


def make_page(site: Site, number: int, size: int, prose: Prose, order: random.Random) -> str:
    """An HTML page of about ``size`` characters."""
    title = " ".join(prose.take(6)).capitalize()
    meta = "" if site.charset_in_header and number % 2 else f'<meta charset="{site.charset}">'
    head = (
        f'<!DOCTYPE html>\n<html lang="en"><head>{meta}<title>{title}</title>'
        f'<meta name="description" content="{prose.sentence()}"><link rel="canonical" href="https://{site.host}/{number}">'
        f"{site.style}{site.script}</head>"
    )
    sidebar = "".join(_menu_item(i, prose.take(2)) for i in range(20))
    tail = (
        f'</{site.container}><aside class="sidebar"><h3>{prose.take(1)[0]}</h3><ul>{sidebar}</ul></aside>'
        f'<section id="comments">{_comments(prose, order)}</section>{{teasers}}{site.footer}{site.script}'
        "</body></html>\n"
    )
    body = [
        (
            f'<body class="page-{number % 7}"><header><h1>{title}</h1></header>{site.menu}'
            f'<{site.container} class="{site.content_class}">'
        )
    ]
    if site.container == "td":
        body[0] = body[0].replace("<td", "<table><tr><td", 1)
        tail = tail.replace("</td>", "</td></tr></table>", 1)
    length = len(head) + len(tail) + len(body[0])
    teasers: list[str] = []
    while length < size:
        part = _block(prose, order)
        while order.random() < 0.5:
            teasers.append(_teaser(len(teasers), prose, order))
            length += len(teasers[-1])
        body.append(part)
        length += len(part)
    return head + "\n".join(body) + tail.replace("{teasers}", f'<div class="row">{"".join(teasers)}</div>', 1)


def _block(prose: Prose, order: random.Random) -> str:
    """One block of an article, in the wrappers of an editor."""
    number = order.randrange(1 << 20)
    return (
        f'<div class="block block-{number % 9}" id="b-{number:x}"><div class="inner"><div class="wrap">'
        f"{_content(prose, order)}</div></div></div>"
    )


def _content(prose: Prose, order: random.Random) -> str:
    kind = order.random()
    if kind < 0.70:
        return f'<p class="text">{prose.paragraph(order.randrange(1, 4))}</p>'
    if kind < 0.80:
        return f'<h2 id="s{order.randrange(999)}">{" ".join(prose.take(5)).capitalize()}</h2>'
    if kind < 0.87:
        items = (f'<li class="item"><span>{" ".join(prose.take(4))}</span></li>' for _ in range(order.randrange(3, 9)))
        return f"<ul>{''.join(items)}</ul>"
    if kind < 0.92:
        rows = (
            '<tr class="row">' + "".join(f'<td align="left">{w}</td>' for w in prose.take(4)) + "</tr>"
            for _ in range(order.randrange(3, 12))
        )
        return "<table class='data'><tbody>" + "".join(rows) + "</tbody></table>"
    if kind < 0.96:
        name = order.randrange(1 << 30)
        return (
            f'<figure><img src="/media/{name:x}.jpg" width="800" height="450" alt="{prose.sentence()}">'
            f"<figcaption>{prose.sentence()}</figcaption></figure>"
        )
    return (
        "<pre><code>"
        + "\n".join(f"{w} = {w}(&quot;{order.randrange(999)}&quot;) &lt; 7" for w in prose.take(8))
        + "</code></pre>"
    )


def _comments(prose: Prose, order: random.Random) -> str:
    one = '<div class="comment" data-depth="{}"><b class="author">{}</b> <time>{} hours ago</time><p>{}</p></div>'
    return "".join(
        one.format(order.randrange(3), prose.take(1)[0], order.randrange(1, 24), prose.paragraph(1))
        for _ in range(order.randrange(5))
    )


def records(seed: int) -> Iterator[bytes]:
    """WARC/1.0 records without end: one warcinfo, then a request and a response for each page."""
    order, prose = random.Random(seed), Prose(seed)
    sites = [make_site(number, prose, order) for number in range(HOSTS)]
    yield _record(
        "warcinfo",
        None,
        "application/warc-fields",
        b"software: benchmarks.warc\r\nformat: WARC File Format 1.0\r\n",
        order,
        0,
    )
    number = 0
    while True:
        site = sites[min(int(order.expovariate(4 / HOSTS)), HOSTS - 1)]
        size = order.randrange(20_000, 80_001)
        page = make_page(site, number, size, prose, order).encode(site.charset, "xmlcharrefreplace")
        url = f"https://{site.host}/{number // 100}/{number}-{'-'.join(prose.take(3))}".encode(
            "ascii", "ignore"
        ).decode()
        request = f"GET /{url.split('/', 3)[3]} HTTP/1.1\r\nHost: {site.host}\r\nAccept: text/html\r\n\r\n".encode()
        yield _record("request", url, "application/http; msgtype=request", request, order, number)
        kind = f"text/html; charset={site.charset}" if site.charset_in_header else "text/html"
        header = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nServer: nginx\r\nContent-Length: {len(page)}\r\n\r\n".encode()
        )
        yield _record("response", url, "application/http; msgtype=response", header + page, order, number, page)
        number += 1


def _record(
    kind: str,
    url: str | None,
    media: str,
    block: bytes,
    order: random.Random,
    number: int,
    payload: bytes | None = None,
) -> bytes:
    """One record as ISO 28500 (WARC 1.0) has it, closed by two line ends."""
    fields = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:{uuid.UUID(int=order.getrandbits(128), version=4)}>",
        f"WARC-Date: {(START + timedelta(seconds=number)):%Y-%m-%dT%H:%M:%SZ}",
    ]
    if url is not None:
        fields.append(f"WARC-Target-URI: {url}")
    if payload is not None:
        fields.append("WARC-Payload-Digest: sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode())
    fields += [f"Content-Type: {media}", f"Content-Length: {len(block)}"]
    return "\r\n".join(fields).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def write_warc(target: Path, size: int, *, seed: int = 1) -> int:
    """Writes whole records until ``size`` bytes are reached, and returns the number of pages.

    A name ending in ``.gz`` gets one gzip member a record (level 6); ``size`` is then still that of the
    uncompressed records.
    """
    compressed = target.suffix == ".gz"
    written = pages = 0
    with target.open("wb") as stream:
        for record in records(seed):
            stream.write(gzip.compress(record, 6, mtime=0) if compressed else record)
            written += len(record)
            pages += b"WARC-Type: response" in record[:64]
            if written >= size and pages and b"WARC-Type: response" in record[:64]:
                return pages
    raise AssertionError("records() does not end")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this generator."""
    parser = argparse.ArgumentParser(description="Make a WARC file of varied HTML pages.")
    parser.add_argument("target", type=Path, help="file to write; compressed when the name ends in .gz")
    parser.add_argument("--megabytes", type=float, default=500, help="size of the records, uncompressed (default 500)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    pages = write_warc(options.target, int(options.megabytes * 1e6), seed=options.seed)
    print(f"{options.target}: {pages} pages, {options.target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
