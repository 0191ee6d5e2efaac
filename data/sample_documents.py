"""A document of the sample with the outcome expected of it, and what makes documents."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from sample_texts import Dice, Grammar, Text, jaccard, sections, swap_sentence

SEED = "dedup sample 1"
WORDS = 215
NEAR = 0.85
APART = 0.785
ATTEMPTS = 10_000


@dataclass(frozen=True, slots=True)
class Document:
    """One document, and what the default run should make of it.

    Attributes:
        key: unique name, "plant-group-letter".
        plant: what it was planted for.
        source: ``crawl`` (the WARC) or ``feed``.
        url: as the crawler met it; None where the feed gives none.
        address: the address meant, equal exactly where the default rules make the URL keys equal; "" without URL.
        text: what is to be read from it; None for an image, a null, or a missing text.
        form: how it is written: ``page``, ``bare``, ``empty``, ``script``, ``image``, ``null``, ``missing``.
        encoding: charset of the payload.
        transfer: "", ``gzip`` (content encoding) or ``chunked``.
        aside: text of the ad slot outside the article.
        expected: ``kept``, ``dropped`` or ``skipped`` (read, but no document).
        stage: the stage that drops it, or the kind under which it is skipped.
        keeper: key of the document it falls to.
        same_content: "true" or "false" where the urls stage drops it, else "".
        note: one remark for a reader.
    """

    key: str
    plant: str
    source: str
    url: str | None
    address: str
    text: Text | None
    form: str = "page"
    encoding: str = "utf-8"
    transfer: str = ""
    aside: str = ""
    language: str = "en"
    expected: str = "kept"
    stage: str = ""
    keeper: str = ""
    same_content: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        """The record id: a urn made from the key in the archive, the key itself in the feed."""
        if self.source == "feed":
            return f"feed-{self.key}"
        return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'https://sample.example/' + self.key)}>"

    def falls(self, keeper: Document, stage: str, same_content: str = "", note: str = "") -> Document:
        """This document, expected to be dropped to ``keeper`` in ``stage``."""
        return replace(
            self, expected="dropped", stage=stage, keeper=keeper.key, same_content=same_content, note=note or self.note
        )


Group = list[Document]

HOSTS = (
    "www.harbour.example",
    "almanac.example.org",
    "workshop.example.com",
    "kitchen.example.net",
    "fields.example",
    "letters.example.org",
    "archive.example.net",
)
MIRRORS = ("mirror.example.org", "copies.example.com", "print.example", "cache.example.net")


class Planter:
    """Makes the groups. One grammar, one pair of dice per group, so that plants do not disturb each other."""

    def __init__(self) -> None:
        self.grammar = Grammar()
        self.ads = sections("parts.txt")["ads"]

    def fresh(self, name: str, words: int = WORDS) -> tuple[Dice, str, Text]:
        """Dice, topic and page of the group ``name``."""
        dice = Dice(f"{SEED}/{name}")
        topic = dice.pick(self.grammar.topics)
        return dice, topic, self.grammar.page(topic, dice, words)

    def document(self, name: str, letter: str, plant: str, source: str, text: Text, mirror: bool = False) -> Document:
        """A page of its own at an address of its own."""
        dice = Dice(f"{SEED}/{name}/{letter}")
        host = dice.pick(MIRRORS if mirror else HOSTS)
        path = "-".join(text.title.lower().split()[:4]).strip("-,:").replace(",", "").replace(":", "")
        url = f"https://{host}/{path if path.isascii() else 'page'}/{1000 + dice.below(9000)}{letter}{name[-2:]}"
        aside = dice.pick(self.ads)
        return Document(f"{name}-{letter}", plant, source, url, url, text, aside=aside)

    def edited(self, text: Text, topic: str, dice: Dice, place: float, low: float, high: float) -> Text:
        """``text`` with a sentence near ``place`` replaced, so that the two have a Jaccard in [low, high]."""
        for _ in range(ATTEMPTS):
            near = swap_sentence(text, place, self.grammar.sentence(topic, dice))
            if low <= jaccard(text, near) <= high:
                return near
            place = dice.unit()
        raise RuntimeError(f"no sentence of {text.title!r} can be replaced for a Jaccard in [{low}, {high}]")

    def ends(self, middle: Text, topic: str, dice: Dice, low: float, high: float) -> tuple[Text, Text]:
        """Two texts near ``middle``, the second with a Jaccard in [low, high], that are below the threshold apart."""
        for _ in range(ATTEMPTS):
            a = self.edited(middle, topic, dice, 0.3 * dice.unit(), NEAR, 0.88)
            b = self.edited(middle, topic, dice, 0.6 + 0.4 * dice.unit(), low, high)
            if jaccard(a, b) <= APART:
                return a, b
        raise RuntimeError(f"no two edits of {middle.title!r} have a Jaccard of at most {APART}")
