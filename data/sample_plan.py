"""What the sample holds: every document with the outcome it was planted for, and the labelled pairs.

A group is a list of documents that have to do with each other, earlier ones first. `documents` mixes the
groups but keeps the order within each, archive before feed, so that the outcomes follow by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise

from sample_documents import NEAR, SEED, Document, Group, Planter
from sample_special import make_special, make_urls
from sample_texts import Dice, Text, jaccard, other_pages, sections, swap_sentence


def make_ordinary(planter: Planter, name: str, number: int) -> Group:
    """A page like no other."""
    _, _, text = planter.fresh(name, 90 + 15 * (number % 12))
    page = planter.document(name, "a", "ordinary", "crawl" if number % 3 else "feed", text)
    if page.source == "crawl":
        page = replace(page, transfer={4: "gzip", 7: "chunked"}.get(number % 20, ""))
    return [page]


def make_ad_slot(planter: Planter, name: str, number: int) -> Group:
    """Pages that differ in an ad line inside the article."""
    dice, _, text = planter.fresh(name)
    at = 1 + dice.below(len(text.blocks) - 1)
    start = dice.below(len(planter.ads))
    versions = [text.plus(planter.ads[(start + k) % len(planter.ads)], at) for k in range(2 + number % 2)]
    first, *others = [
        planter.document(name, "abc"[k], "ad_slot", "crawl", version, mirror=k > 0)
        for k, version in enumerate(versions)
    ]
    return [first, *(other.falls(first, "near") for other in others)]


def make_updated(planter: Planter, name: str, number: int) -> Group:
    """Pages that differ in their "Updated N minutes ago" line."""
    dice, _, text = planter.fresh(name)
    minutes = [2 + dice.below(25), 30 + dice.below(29)]
    source = "feed" if number % 4 == 0 else "crawl"
    a, b = [
        planter.document(name, "ab"[k], "updated_line", source, text.plus(f"Updated {n} minutes ago", 0), mirror=k > 0)
        for k, n in enumerate(minutes)
    ]
    return [a, b.falls(a, "near")]


def make_aside(planter: Planter, name: str, number: int) -> Group:
    """Pages that differ in the ad slot beside the article, which the extraction leaves out."""
    _, _, text = planter.fresh(name)
    a = replace(planter.document(name, "a", "ad_aside", "crawl", text), aside=planter.ads[number])
    b = replace(planter.document(name, "b", "ad_aside", "crawl", text, mirror=True), aside=planter.ads[number + 1])
    return [a, b.falls(a, "records")]


def make_same_text(planter: Planter, name: str, number: int) -> Group:
    """One text under two or three URLs; some copies compressed or chunked."""
    _, _, text = planter.fresh(name)
    a, b, c = [planter.document(name, letter, "same_text", "crawl", text, mirror=letter != "a") for letter in "abc"]
    b = replace(b, transfer=("", "gzip", "chunked")[number % 3], note=("", "gzip", "chunked")[number % 3])
    return [a, b.falls(a, "records"), *([c.falls(a, "records")] if number % 4 == 0 else [])]


def make_changed(planter: Planter, name: str, number: int) -> Group:
    """One URL, later with other content."""
    _, _, text = planter.fresh(name)
    _, _, later = planter.fresh(name + "/later")
    a = planter.document(name, "a", "changed", "crawl" if number % 3 else "feed", text)
    b = replace(a, key=f"{name}-b", text=later)
    return [a, b.falls(a, "urls", "false")]


def make_copy_of_changed(planter: Planter, name: str, _number: int) -> Group:
    """The changed content stands under a further URL too: it stays, since what fell by its URL is no keeper."""
    dice, topic, later = planter.fresh(name + "/later")
    a, b = make_changed(planter, name, 1)
    a = replace(a, plant="copy_of_changed")
    b = replace(b, plant="copy_of_changed", text=later)
    c = planter.document(name, "c", "copy_of_changed", "crawl", later, mirror=True)
    near = planter.edited(later, topic, dice, 0.5, NEAR, 0.95)
    d = planter.document(name, "d", "copy_of_changed", "crawl", near)
    return [a, b, replace(c, note="its twin fell in urls"), d.falls(c, "near")]


def make_twin_of_dropped(planter: Planter, name: str, number: int) -> Group:
    """C stands at the URL of B, but B fell to A, so C is judged on its own."""
    dice, topic, text = planter.fresh(name)
    _, _, other = planter.fresh(name + "/other")
    near = planter.edited(text, topic, dice, 0.5, NEAR, 0.95)
    plant = "twin_of_dropped"
    a = planter.document(name, "a", plant, "crawl", text)
    b = planter.document(name, "b", plant, "crawl", text if number % 2 else near, mirror=True)
    c = replace(b, key=f"{name}-c", text=other, note="at the URL of a dropped record")
    b = b.falls(a, "records" if number % 2 else "near")
    if number < 2:
        return [a, b, c]
    c = replace(c, text=planter.edited(text, topic, dice, 0.2, NEAR, 0.95))
    return [a, b, c.falls(a, "near")]


def make_chain(planter: Planter, name: str, number: int) -> Group:
    """A ~ B ~ C, but A and C are below the threshold: B falls to A, C stays."""
    dice, topic, b = planter.fresh(name, 225)
    a, c = planter.ends(b, topic, dice, NEAR, 0.88)
    source = "feed" if number % 3 == 2 else "crawl"
    first, second, third = [planter.document(name, "abc"[k], "chain", source, t) for k, t in enumerate((a, b, c))]
    return [first, second.falls(first, "near"), replace(third, note="like b, but b is no keeper")]


def make_nearest(planter: Planter, name: str, _number: int) -> Group:
    """A and B are below the threshold; C is like both and falls to the more similar one, which is the later."""
    dice, topic, middle = planter.fresh(name, 225)
    a, b = planter.ends(middle, topic, dice, 0.89, 0.93)
    first, second, third = [
        planter.document(name, "abc"[k], "nearest", "crawl", t) for k, t in enumerate((a, b, middle))
    ]
    return [first, second, third.falls(second, "near")]


def make_star(planter: Planter, name: str, _number: int) -> Group:
    """The middle comes first: both others fall to it, though they are below the threshold to each other."""
    dice, topic, middle = planter.fresh(name, 225)
    a, b = planter.ends(middle, topic, dice, NEAR, 0.88)
    first, *others = [planter.document(name, "abc"[k], "star", "crawl", t) for k, t in enumerate((middle, a, b))]
    return [first, *(other.falls(first, "near") for other in others)]


def make_heavy_edit(planter: Planter, name: str, number: int) -> Group:
    """A page and its later edition with several new sentences: a duplicate to a reader, below 0.8 all the same."""
    dice, topic, text = planter.fresh(name)
    edition, goal = text, 0.74 - 0.01 * (number % 16)
    while jaccard(text, edition) > goal:
        edition = swap_sentence(edition, dice.unit(), planter.grammar.sentence(topic, dice))
    source = "feed" if number % 2 else "crawl"
    return [planter.document(name, "ab"[k], "heavy_edit", source, t) for k, t in enumerate((text, edition))]


def make_template(planter: Planter, name: str, number: int) -> Group:
    """Pages of one host with the same paragraphs around different bodies: all stay. A few have a real near copy."""
    parts = sections("parts.txt")
    shop = number % 8 < 5
    before, after = (parts[("shop-" if shop else "notice-") + side] for side in ("before", "after"))
    dice, _, text = planter.fresh(name, 40 + 5 * (number % 10))
    host, source = ("shop.example", "crawl") if shop else ("board.example", "feed")
    url = f"https://{host}/{'article' if shop else 'notice'}/{4000 + number}"
    line = "Seen {} times this week"
    body = Text(text.title, (*before, line.format(3 + dice.below(40)), *text.blocks, *after))
    page = Document(f"{name}-a", "template", source, url, url, body)
    if number % 9:
        return [page]
    again = Text(text.title, (*before, line.format(50 + dice.below(40)), *text.blocks, *after))
    copy = Document(f"{name}-b", "template_copy", source, url + "/print", url + "/print", again)
    return [page, copy.falls(page, "near", note="same body too")]


def make_cross(planter: Planter, name: str, number: int) -> Group:
    """A page of the archive that the feed holds too: same URL, same text, or a near copy."""
    dice, topic, text = planter.fresh(name)
    a = planter.document(name, "a", "cross_source", "crawl", text)
    b = planter.document(name, "b", "cross_source", "feed", text, mirror=True)
    if number % 3 == 0:
        b = replace(b, url=f"{a.url}?utm_source=feed#top", address=a.address)
        return [a, b.falls(a, "urls", "true", "same URL")]
    if number % 3 == 1:
        return [a, b.falls(a, "records", note="same text")]
    near = planter.edited(text, topic, dice, dice.unit(), NEAR, 0.97)
    return [a, replace(b, text=near).falls(a, "near", note="near copy")]


def make_no_url(planter: Planter, name: str, number: int) -> Group:
    """Feed records without URL: the urls stage passes over them."""
    dice, topic, text = planter.fresh(name)
    a = replace(planter.document(name, "a", "no_url", "feed", text), url=None, address="")
    b = replace(a, key=f"{name}-b")
    near = planter.edited(text, topic, dice, 0.5, NEAR, 0.97)
    return [[a], [a, b.falls(a, "records")], [a, replace(b, text=near).falls(a, "near")]][number % 3]


def make_languages(planter: Planter) -> Iterator[Group]:
    """The pages in other languages: near copies, and the same text in another encoding or in the feed."""
    legacy = {"fr": "iso-8859-1", "ru": "windows-1251"}
    for language, pages in other_pages().items():
        update, advert = sections("parts.txt")[f"{language} lines"]
        for number, text in enumerate(pages):
            name, end = f"language-{language}{number}", len(text.blocks)
            texts = [text.plus(update.format(n=n), end) for n in (5, 42)] + [text.plus(advert, end)] * 2
            a, b, c, d = [
                replace(planter.document(name, "abcd"[k], "language", "crawl", t, mirror=k > 0), language=language)
                for k, t in enumerate(texts)
            ]
            encoding = legacy.get(language, "utf-8") if number == 0 else "utf-8"
            a = replace(a, encoding=encoding, note=encoding if encoding != "utf-8" else "")
            same = replace(b, text=a.text).falls(a, "records", note="same text in UTF-8")
            yield [
                a,
                same if encoding != "utf-8" else b.falls(a, "near", note="update line"),
                replace(c, source="feed").falls(a, "near", note="ad line"),
                replace(d, source="feed", text=a.text).falls(a, "records", note="same text"),
            ]


def documents() -> list[Document]:
    """Every document in the order of the files: the archive's, then the feed's."""
    planter = Planter()
    counts: list[tuple[str, int, Callable[[Planter, str, int], Group]]] = [
        ("ordinary", 270, make_ordinary),
        ("ad_slot", 24, make_ad_slot),
        ("updated_line", 24, make_updated),
        ("ad_aside", 8, make_aside),
        ("same_text", 20, make_same_text),
        ("changed", 12, make_changed),
        ("copy_of_changed", 3, make_copy_of_changed),
        ("twin_of_dropped", 4, make_twin_of_dropped),
        ("chain", 6, make_chain),
        ("nearest", 3, make_nearest),
        ("star", 3, make_star),
        ("heavy_edit", 24, make_heavy_edit),
        ("template", 80, make_template),
        ("cross_source", 30, make_cross),
        ("no_url", 9, make_no_url),
    ]
    groups: list[Group] = [*make_languages(planter), *make_urls(planter), *make_special()]
    for plant, count, make in counts:
        groups.extend(make(planter, f"{plant}-{number:02d}", number) for number in range(count))
    return mixed(groups)


def mixed(groups: list[Group]) -> list[Document]:
    """The documents of all groups, shuffled, but within a group in their order and the archive first."""
    placed: list[tuple[str, float, Document]] = []
    for group in groups:
        dice = Dice(f"{SEED}/place/{group[0].key}")
        places = sorted(dice.unit() for _ in group)
        placed.extend((page.source, place, page) for place, page in zip(places, group, strict=True))
    return [page for _, _, page in sorted(placed, key=lambda row: (row[0], row[1], row[2].key))]


def labels(pages: list[Document]) -> list[tuple[str, str, bool]]:
    """Labelled pairs (id_a < id_b), true where both show the same page to a reader; right by construction.

    True: copies, near copies, both ends of a chain or star, and heavy edits. False: template pages with different
    bodies, one URL with other content, two pages on one topic, two pages in one language, different short pages.
    """
    by_name: dict[str, list[Document]] = {}
    for page in pages:
        if page.expected != "skipped" and page.text is not None and page.form in ("page", "bare"):
            by_name.setdefault(page.key.rsplit("-", 1)[0], []).append(page)
    taken = {"ad_slot": 14, "updated_line": 12, "ad_aside": 4, "same_text": 10, "changed": 10, "url_variant": 8}
    taken |= {"chain": 6, "star": 3, "nearest": 3, "heavy_edit": 24, "cross_source": 15, "language": 13, "template": 80}
    pairs: list[tuple[Document, Document, bool]] = []
    for name, group in by_name.items():
        plant = name.split("-")[0]
        if taken.get(plant, 0) > 0:
            taken[plant] -= 1
            several = group if plant in ("chain", "star", "nearest") else group[:2]
            pairs += [(a, b, plant != "changed") for a, b in combinations(several, 2)]
    for plant, apart in (("template", 1), ("ordinary", 7)):
        row = [page for page in pages if page.plant == plant]
        pairs += [(row[k], row[k + apart], False) for k in range(0, 40, 1 if plant == "template" else 2)]
    tongues = {page.key: page for page in pages if page.plant == "language"}
    pairs += [(tongues[f"language-{code}0-a"], tongues[f"language-{code}1-a"], False) for code in other_pages()]
    short = [page for page in pages if page.plant == "short" and page.expected == "kept"]
    pairs += [(a, b, False) for a, b in pairwise(short)]
    return sorted({(min(a.id, b.id), max(a.id, b.id), same) for a, b, same in pairs})
