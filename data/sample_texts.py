"""The texts of the sample: a small grammar for English pages, written pages in other languages, fixed parts.

Everything is read from ``texts/`` beside this file. Nothing here reads a clock, and the only source of
chance is `Dice`, whose numbers are the same in every Python version.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

TEXTS = Path(__file__).parent / "texts"
SLOT = re.compile(r"\{(\w+)\}")
SENTENCE = re.compile(r"(?<=[.!?]) ")
T = TypeVar("T")


class Dice:
    """Seeded chance. Uses `random.Random.random` alone, the one sequence Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        """A whole number from 0 to ``n - 1``."""
        return int(self._random.random() * n)

    def pick(self, choices: Sequence[T]) -> T:
        """One of ``choices``."""
        return choices[self.below(len(choices))]

    def unit(self) -> float:
        """A number of [0, 1)."""
        return self._random.random()


@dataclass(frozen=True, slots=True)
class Text:
    """A page without its dress: a title and the paragraphs below it."""

    title: str
    blocks: tuple[str, ...]

    def whole(self) -> str:
        """Title and paragraphs with an empty line between them, as the HTML extraction gives them."""
        return "\n\n".join((self.title, *self.blocks))

    def plus(self, line: str, at: int) -> Text:
        """This text with ``line`` put in as a paragraph before paragraph ``at``."""
        return Text(self.title, (*self.blocks[:at], line, *self.blocks[at:]))


def sections(name: str) -> dict[str, list[str]]:
    """The sections of ``texts/name``: lines by the ``[heading]`` above them; ``#`` lines and blank ones left out."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (TEXTS / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


class Grammar:
    """English pages by topic, from ``texts/english.txt``."""

    def __init__(self) -> None:
        parts = sections("english.txt")
        common = parts.pop("common")
        self.topics = tuple(parts)
        self._lists = {topic: self._read_lists([*common, *lines]) for topic, lines in parts.items()}
        self._patterns = {
            topic: [line[2:] for line in [*common, *lines] if line.startswith("- ")] for topic, lines in parts.items()
        }

    @staticmethod
    def _read_lists(lines: list[str]) -> dict[str, list[str]]:
        pairs = (line.split(" = ", 1) for line in lines if not line.startswith("- "))
        return {name: choices.split(" | ") for name, choices in pairs}

    def _expand(self, pattern: str, lists: dict[str, list[str]], dice: Dice) -> str:
        def choose(match: re.Match[str]) -> str:
            name = match.group(1)
            text = self._expand(dice.pick(lists[name.lower()]), lists, dice)
            return text[0].upper() + text[1:] if name[0].isupper() else text

        return SLOT.sub(choose, pattern)

    def sentence(self, topic: str, dice: Dice) -> str:
        """One sentence about ``topic``."""
        return self._expand(dice.pick(self._patterns[topic]), self._lists[topic], dice)

    def page(self, topic: str, dice: Dice, words: int) -> Text:
        """A page about ``topic`` of at least ``words`` words, in paragraphs of two to five sentences."""
        title = self._expand("{title}", self._lists[topic], dice)
        title = title[0].upper() + title[1:]
        blocks: list[str] = []
        count = 0
        while count < words:
            block = " ".join(self.sentence(topic, dice) for _ in range(2 + dice.below(4)))
            blocks.append(block)
            count += len(block.split())
        return Text(title, tuple(blocks))


def other_pages() -> dict[str, list[Text]]:
    """The pages in other languages, by language code."""
    pages: dict[str, list[Text]] = {}
    for heading, lines in sections("other.txt").items():
        pages.setdefault(heading.split()[0], []).append(Text(lines[0], tuple(lines[1:])))
    return pages


def swap_sentence(text: Text, place: float, new: str) -> Text:
    """``text`` with one sentence, the one about ``place`` (0 to 1) of the way through, replaced by ``new``."""
    spots = [(b, s) for b, block in enumerate(text.blocks) for s in range(len(SENTENCE.split(block)))]
    block, sentence = spots[min(int(place * len(spots)), len(spots) - 1)]
    parts = SENTENCE.split(text.blocks[block])
    parts[sentence] = new
    blocks = list(text.blocks)
    blocks[block] = " ".join(parts)
    return Text(text.title, tuple(blocks))


def shingles(text: str) -> set[tuple[str, ...]]:
    """The sets that the plants are measured by: three consecutive ``\\w+`` tokens of the lower-cased text."""
    tokens = re.findall(r"\w+", text.lower())
    if len(tokens) < 3:
        return {tuple(tokens)} if tokens else set()
    return set(zip(tokens, tokens[1:], tokens[2:], strict=False))


def jaccard(a: Text, b: Text) -> float:
    """Jaccard similarity of the two texts' shingle sets."""
    left, right = shingles(a.whole()), shingles(b.whole())
    return len(left & right) / len(left | right)
