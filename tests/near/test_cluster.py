"""The rule across all stages, against the same rule in plain Python on random records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from dedup_pipeline.near.cluster import (
    KEPT,
    NEAR,
    QUARANTINED,
    RECORDS,
    STAGES,
    URLS,
    Neighbours,
    Verdicts,
    count_degrees,
    decide,
    place_pairs,
    sort_rows,
)

Fate = tuple[int, int, float | None]
"""What became of a record, its keeper, and the similarity."""


@dataclass
class Crawl:
    """Records in priority order; None where a record lacks a key."""

    urls: list[str | None]
    prints: list[str | None]
    texts: list[int | None]
    alike: dict[frozenset[int], float] = field(default_factory=dict)
    """Similarity of each verified pair of texts."""
    quarantined: set[int] = field(default_factory=set)

    @property
    def text_count(self) -> int:
        return 1 + max((text for text in self.texts if text is not None), default=-1)


def ruled(crawl: Crawl) -> list[Fate]:
    """Every record against every record kept so far, stage by stage."""
    fates: list[Fate] = []
    for rank in range(len(crawl.urls)):
        if rank in crawl.quarantined:
            fates.append((QUARANTINED, -1, None))
            continue
        kept = [other for other, (fate, _, _) in enumerate(fates) if fate == KEPT]
        same_url = [other for other in kept if crawl.urls[rank] is not None and crawl.urls[other] == crawl.urls[rank]]
        same_print = [
            other for other in kept if crawl.prints[rank] is not None and crawl.prints[other] == crawl.prints[rank]
        ]
        near = [(-similarity, other) for other in kept if (similarity := similarity_of(crawl, rank, other)) is not None]
        if same_url:
            fates.append((URLS, same_url[0], None))
        elif same_print:
            fates.append((RECORDS, same_print[0], 1.0))
        elif near:
            negative, keeper = min(near)
            fates.append((NEAR, keeper, -negative))
        else:
            fates.append((KEPT, rank, None))
    return fates


def similarity_of(crawl: Crawl, one: int, other: int) -> float | None:
    left, right = crawl.texts[one], crawl.texts[other]
    if left is None or right is None:
        return None
    return 1.0 if left == right else crawl.alike.get(frozenset([left, right]))


def firsts(keys: list[str | None]) -> np.ndarray:
    return np.array([-1 if key is None else keys.index(key) for key in keys], dtype=np.int64)


def neighbours_of(alike: dict[frozenset[int], float], texts: int, shuffled: random.Random | None = None) -> Neighbours:
    pairs = [tuple(sorted(pair)) for pair in alike]
    if shuffled:
        shuffled.shuffle(pairs)
    packed = np.array([left << 32 | right for left, right in pairs], dtype=np.uint64)
    values = np.array([alike[frozenset(pair)] for pair in pairs], dtype=np.float64)
    starts = np.zeros(texts + 1, dtype=np.int64)
    count_degrees(packed, starts)
    starts = np.cumsum(starts)
    others, similarities = np.zeros(2 * len(pairs), dtype=np.uint32), np.zeros(2 * len(pairs), dtype=np.float64)
    place_pairs(packed, values, starts.copy(), others, similarities)
    sort_rows(starts, others, similarities)
    return Neighbours(starts, others, similarities)


def decided(crawl: Crawl, shuffled: random.Random | None = None) -> list[Fate]:
    count = len(crawl.urls)
    fates = np.zeros(count, dtype=np.uint8)
    fates[list(crawl.quarantined)] = QUARANTINED
    verdicts = Verdicts(fates, np.full(count, -1, dtype=np.int64), np.full(count, np.nan))
    places = (np.full(count, -1, np.int64), np.full(count, -1, np.int64), np.full(crawl.text_count, -1, np.int64))
    texts = np.array([-1 if text is None else text for text in crawl.texts], dtype=np.int64)
    decide(
        firsts(crawl.urls),
        firsts(crawl.prints),
        texts,
        neighbours_of(crawl.alike, crawl.text_count, shuffled),
        places,
        verdicts,
    )
    return [
        (int(fate), int(keeper), None if np.isnan(similarity) else float(similarity))
        for fate, keeper, similarity in zip(*verdicts, strict=True)
    ]


def random_crawl(seed: int) -> Crawl:
    generator = random.Random(seed)
    count, variety = generator.randrange(0, 40), generator.choice([2, 5, 20])

    def keys(letter: str, share: float) -> list[str | None]:
        return [f"{letter}{generator.randrange(variety)}" if generator.random() < share else None for _ in range(count)]

    urls, prints = keys("u", generator.choice([0.0, 0.5, 1.0])), keys("p", generator.choice([0.0, 0.5, 1.0]))
    drawn = keys("t", generator.choice([0.0, 0.7, 1.0]))
    names = list(dict.fromkeys(name for name in drawn if name))
    texts = [None if name is None else names.index(name) for name in drawn]
    density = generator.choice([0.0, 0.1, 0.5, 1.0])
    alike = {
        frozenset([left, right]): generator.choice([0.8, 0.85, 0.9, 1.0])
        for left in range(len(names))
        for right in range(left)
        if generator.random() < density
    }
    quarantined = {rank for rank in range(count) if generator.random() < generator.choice([0.0, 0.3])}
    return Crawl(urls, prints, texts, alike, quarantined)


def test_a_thousand_random_crawls() -> None:
    seen: set[int] = set()
    for seed in range(1000):
        crawl = random_crawl(seed)
        got = decided(crawl, random.Random(seed))
        assert got == ruled(crawl), seed
        seen |= {fate for fate, _, _ in got}
    assert seen == {KEPT, URLS, RECORDS, NEAR, QUARANTINED}


def test_every_cluster_is_a_star() -> None:
    """Whoever falls, falls to a kept record of higher priority, and passed that stage's test against it itself."""
    for seed in range(1000, 1200):
        crawl = random_crawl(seed)
        fates = decided(crawl)
        for rank, (fate, keeper, similarity) in enumerate(fates):
            if fate == KEPT:
                assert (keeper, similarity) == (rank, None)
            elif fate != QUARANTINED:
                assert keeper < rank
                assert fates[keeper][0] == KEPT
            if fate == URLS:
                assert crawl.urls[rank] == crawl.urls[keeper]
            if fate == RECORDS:
                assert crawl.prints[rank] == crawl.prints[keeper]
            if fate == NEAR:
                assert similarity == similarity_of(crawl, rank, keeper)


def test_no_two_kept_records_pass_any_test() -> None:
    for seed in range(1200, 1400):
        crawl = random_crawl(seed)
        kept = [rank for rank, (fate, _, _) in enumerate(decided(crawl)) if fate == KEPT]
        for column in (crawl.urls, crawl.prints, crawl.texts):
            keys = [column[rank] for rank in kept if column[rank] is not None]
            assert len(keys) == len(set(keys))
        assert all(similarity_of(crawl, one, other) is None for one in kept for other in kept if one != other)


def test_the_order_pairs_were_found_in_has_no_say() -> None:
    for seed in range(50):
        crawl = random_crawl(seed)
        assert decided(crawl, random.Random(1)) == decided(crawl, random.Random(2)) == decided(crawl)


def texts_only(texts: list[int | None], alike: dict[tuple[int, int], float]) -> Crawl:
    none: list[str | None] = [None] * len(texts)
    return Crawl(none, none, texts, {frozenset(pair): value for pair, value in alike.items()})


def test_a_chain_drops_no_one_it_does_not_reach() -> None:
    """0 - 1 - 2 in a chain: 1 falls to 0, and 2, which is not like 0, stays."""
    assert decided(texts_only([0, 1, 2], {(0, 1): 0.9, (1, 2): 0.95})) == [
        (KEPT, 0, None),
        (NEAR, 0, 0.9),
        (KEPT, 2, None),
    ]


def test_the_most_similar_keeper_is_chosen_and_the_first_of_equals() -> None:
    assert decided(texts_only([0, 1, 2], {(0, 2): 0.8, (1, 2): 0.9}))[2] == (NEAR, 1, 0.9)
    assert decided(texts_only([0, 1, 2], {(0, 2): 0.9, (1, 2): 0.9}))[2] == (NEAR, 0, 0.9)
    # A text first seen in a dropped record has a higher number than its keeper's rank says.
    crawl = Crawl(["a", "a", "b", "c"], [None] * 4, [0, 1, 1, 2], {frozenset([0, 2]): 0.9, frozenset([1, 2]): 0.9})
    assert decided(crawl)[3] == (NEAR, 0, 0.9)


def test_the_same_text_beats_a_similar_one_and_the_first_of_two_alike() -> None:
    assert decided(texts_only([0, 1, 1], {}))[2] == (NEAR, 1, 1.0)
    # Text 2 was dropped with record 2 by its URL; only then is text 2 like two kept ones.
    crawl = Crawl(["a", "b", "a", None, None], [None] * 5, [0, 1, 2, 2, 2], {frozenset([1, 3]): 0.9})
    assert decided(crawl)[3:] == [(KEPT, 3, None), (NEAR, 3, 1.0)]
    # Equal sets of shingles, different texts: similarity 1 twice, so the first keeper.
    crawl = texts_only([0, 1, 2], {(0, 2): 1.0, (1, 2): 1.0})
    assert decided(crawl)[2] == (NEAR, 0, 1.0)


def test_stages_are_asked_in_order() -> None:
    crawl = Crawl(["u", None, None, "u"], [None, "p", None, "p"], [None, None, 0, 0])
    assert [fate for fate, _, _ in decided(crawl)] == [KEPT, KEPT, KEPT, URLS]
    crawl.urls[3] = None
    assert decided(crawl)[3] == (RECORDS, 1, 1.0)
    crawl.prints[3] = None
    assert decided(crawl)[3] == (NEAR, 2, 1.0)
    crawl.texts[3] = None
    assert decided(crawl)[3] == (KEPT, 3, None)


def test_a_dropped_record_keeps_no_key() -> None:
    """Record 1 falls by its URL, so its text is not kept, and record 2 with that text stays."""
    crawl = Crawl(["u", "u", "v"], ["p", "q", "q"], [0, 1, 1])
    assert decided(crawl) == [(KEPT, 0, None), (URLS, 0, None), (KEPT, 2, None)]


def test_the_quarantined_are_left_alone() -> None:
    """Nothing falls to them, though their rank is the first of their keys, and nothing is written for them."""
    crawl = Crawl(["u", "u", "u"], ["p", "p", "p"], [0, 0, 0], quarantined={0})
    assert decided(crawl) == [(QUARANTINED, -1, None), (KEPT, 1, None), (URLS, 1, None)]
    everyone = Crawl(["u", "u"], ["p", "p"], [0, 0], quarantined={0, 1})
    assert decided(everyone) == [(QUARANTINED, -1, None)] * 2


def test_no_records() -> None:
    assert decided(Crawl([], [], [])) == []


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_are_both_directions_ascending(seed: int) -> None:
    generator = random.Random(seed)
    texts = generator.randrange(2, 30)
    alike = {
        frozenset([one, other]): generator.random()
        for one in range(texts)
        for other in range(one)
        if generator.random() < 0.4
    }
    starts, others, similarities = neighbours_of(alike, texts, generator)
    for text in range(texts):
        row = slice(starts[text], starts[text + 1])
        wanted = sorted((other, value) for pair, value in alike.items() if text in pair for other in pair - {text})
        assert list(zip(others[row].tolist(), similarities[row].tolist(), strict=True)) == wanted


def test_names_of_the_stages() -> None:
    assert [STAGES[fate] for fate in (KEPT, URLS, RECORDS, NEAR, QUARANTINED)] == [
        None,
        "urls",
        "records",
        "near",
        None,
    ]
