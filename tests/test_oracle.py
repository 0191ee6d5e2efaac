"""The oracle is judged by cases small enough to decide by hand, and by ledgers broken on purpose."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from oracle import (
    MISSING,
    Record,
    Rule,
    Shingled,
    Verdict,
    brute,
    check_promises,
    cluster_sizes,
    count_differences,
    decide,
    fingerprint,
    fold,
    is_word,
    jaccard,
    priority,
    records_of,
    replay,
    shingles,
    stands_alone,
    tokens,
    true_pairs,
)

ABC = "a b c d e f g h i j k l m n o p q r s t"  # 20 tokens, 18 shingles


def crawl(*rows: tuple[str | None, str | None]) -> list[Record]:
    """Records of one source from (url, text); the URL is its own key."""
    return [Record("crawl.jsonl", i, f"r{i}", url, url, (text,), text) for i, (url, text) in enumerate(rows)]


def texts(*values: str | None) -> list[Record]:
    return crawl(*((None, value) for value in values))


def words(*numbers: int | range) -> str:
    """A text of numbered words; neighbouring ranges share shingles."""
    flat = [n for part in numbers for n in ([part] if isinstance(part, int) else part)]
    return " ".join(f"w{n}" for n in flat)


def fates(verdicts: Sequence[Verdict]) -> list[tuple[str | None, int | None]]:
    return [(v.stage, v.keeper) for v in verdicts]


STAYS = (None, None)


# --- tokens and shingles ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ("", []),
        (" -- ... ! ", []),
        ("Don't stop_here 3.5", ["don", "t", "stop_here", "3", "5"]),
        ("ÉCOLE Straße ΣΟΦΟΣ", ["école", "straße", "σοφοσ"]),
        ("İstanbul", ["İstanbul"]),  # folds to two characters only, so it stays
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("東京tower", ["東", "京", "tower"]),
        ("カタカナー ｱ々", ["カ", "タ", "カ", "ナ", "ー", "ｱ", "々"]),
        ("ก็ดี", ["ก", "็", "ด", "ี"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),  # Hangul is written with spaces
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("x\u20ddy", ["x\u20ddy"]),  # an enclosing mark is a mark
        ("½ ² Ⅷ 〇", ["½", "²", "ⅷ", "〇"]),
        ("a‿b c", ["a‿b", "c"]),
        ("\U0001f600ok\U00020000", ["ok", "\U00020000"]),
        ("㋐㈱", []),  # circled kana are symbols
    ],
)
def test_tokens_by_hand(text: str | None, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the definition is pinned to Unicode 14.0.0")
def test_the_fast_tokeniser_is_the_definition() -> None:
    every = [chr(point) for point in range(0x110000)]
    word = {c for c in every if is_word(c)}
    alone = {c for c in word if stands_alone(c)}

    def slowly(text: str) -> list[str]:
        found, run = [], ""
        for c in text:
            if c in word and c not in alone:
                run += fold(c)
                continue
            found += [run] if run else []
            found += [fold(c)] if c in alone else []
            run = ""
        return found + ([run] if run else [])

    for text in ("".join(every), "x".join(every[:0x10000]), "x".join(every[0x10000:])):
        assert tokens(text) == slowly(text)
    # Folding a token is folding a text: no character stops or starts to be a word by it, or stands alone.
    assert all(fold(c) in word and (fold(c) in alone) == (c in alone) for c in word)
    ascii_text = "".join(random.Random(1).choices([chr(i) for i in range(128)], k=5000))
    assert tokens(ascii_text) == slowly(ascii_text) == tokens(ascii_text + " é")[:-1]


def test_shingles_by_hand() -> None:
    assert shingles("a b c d") == {("a", "b", "c"), ("b", "c", "d")}
    assert shingles("a b a b a b") == {("a", "b", "a"), ("b", "a", "b")}
    assert shingles("A, b!") == {("a", "b")}
    assert shingles("a b c") == {("a", "b", "c")}
    assert shingles("...") == shingles("") == shingles(None) == frozenset()
    assert shingles("a b", n=1) == {("a",), ("b",)}
    assert shingles("ab  C", n=3, kind="char") == {"ab ", "b c"}
    assert shingles("ab", n=3, kind="char") == {"ab"}
    assert shingles("東京Tower", n=3, kind="char") == {"東京t", "京to", "tow", "owe", "wer"}


def test_jaccard_by_hand() -> None:
    assert jaccard(shingles(ABC), shingles(ABC.upper())) == 1.0
    assert jaccard(frozenset("abcd"), frozenset("abcde")) == 0.8
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_numbered_shingles_are_the_shingles() -> None:
    shingled = Shingled(3, "word")
    values = [ABC, ABC + " u", "x y z", "x y", "", "..."]
    for a, b in combinations(values, 2):
        assert jaccard(shingled(a), shingled(b)) == jaccard(shingles(a), shingles(b))


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8, 0.95, 1.0])
def test_true_pairs_are_all_pairs(threshold: float) -> None:
    random_ = random.Random(int(threshold * 100))
    sets = [frozenset(random_.sample(range(40), random_.randint(0, 12))) for _ in range(150)]
    sets += [one | {99} for one in sets[:60]] + [frozenset(range(30)) - {i} for i in range(30)]
    expected = {
        (i, j, jaccard(sets[i], sets[j]))
        for i, j in combinations(range(len(sets)), 2)
        if jaccard(sets[i], sets[j]) >= threshold
    }
    found = list(true_pairs(sets, threshold))
    assert len(found) == len(set(found))
    assert set(found) == expected


# --- the tests of the stages -----------------------------------------------------------------------------


def test_fingerprints_tell_null_missing_and_empty_apart() -> None:
    def of(*fields: object, digest: str | None = None) -> object:
        return fingerprint(Record("s", 0, None, None, None, fields, None, digest))

    distinct = [("x", None), ("x", ""), ("x", MISSING), (None, "x"), ("x", "y"), ("xy", ""), (7, "x"), ("7", "x")]
    distinct += [(7.0, "x"), (True, "x"), (1, "x"), (["a"], "x"), ("['a']", "x")]
    assert len({of(*fields) for fields in distinct}) == len(distinct)
    assert of("x", None) == of("x", None) is not None
    assert of(None, MISSING) is of("", None) is of("") is None
    assert of("", digest="sha1:A") == of(None, digest="sha1:A") != of(None, digest="sha1:B")
    assert of("x", digest="sha1:A") == of("x", digest="sha1:B")


def test_priority() -> None:
    rows = [
        Record(s, p, None, None, None, (t,), t)
        for s, p, t in [("b", 0, "xx"), ("a", 1, None), ("a", 0, "ééé"), ("a", 10, "yy"), ("a", 2, "")]
    ]
    assert priority(rows, "first") == [2, 1, 4, 3, 0]
    assert priority(rows, "last") == [0, 3, 4, 1, 2]
    assert priority(rows, "longest") == [2, 3, 0, 1, 4]
    with pytest.raises(ValueError, match="newest"):
        priority(rows, "newest")


# --- the rule --------------------------------------------------------------------------------------------


def test_the_first_stage_that_passes_decides() -> None:
    rows = crawl(("u1", ABC), ("u1", ABC), ("u2", ABC), ("u1", "something else entirely"), ("u3", ABC + " u"))
    verdicts = decide(rows)
    assert fates(verdicts) == [STAYS, ("urls", 0), ("records", 0), ("urls", 0), ("near", 0)]
    assert [v.same_content for v in verdicts] == [None, True, None, False, None]
    assert [v.similarity for v in verdicts] == [None, None, 1.0, None, 18 / 19]
    assert cluster_sizes(verdicts) == [5, 5, 5, 5, 5]


def test_a_record_whose_url_twin_fell_later_is_judged_on_its_own() -> None:
    # r1 falls to r0 by content; r2 has the URL of r1, which is not kept, so nothing speaks against r2.
    rows = crawl(("u1", ABC), ("u2", ABC), ("u2", "quite another page"), ("u2", "a third page again"))
    assert fates(decide(rows)) == [STAYS, ("records", 0), STAYS, ("urls", 2)]
    # The same where the twin fell as a near duplicate.
    rows = crawl(("u1", ABC), ("u2", ABC + " u"), ("u2", "quite another page"))
    assert fates(decide(rows)) == [STAYS, ("near", 0), STAYS]


def test_an_equal_text_is_kept_again_when_its_first_copy_fell_by_url() -> None:
    # r1 falls to r0 by URL although its text is new; so r2, a copy of r1, is the first of its text to stay.
    rows = crawl(("u1", "one page here"), ("u1", ABC), ("u2", ABC), ("u3", ABC))
    assert fates(decide(rows)) == [STAYS, ("urls", 0), STAYS, ("records", 2)]


def test_nothing_falls_along_a_chain() -> None:
    # Neighbours share 9 of 11 shingles (.82), the ends 8 of 12 (.67).
    a, b, c = words(range(12)), words(range(1, 13)), words(range(2, 14))
    assert jaccard(shingles(a), shingles(b)) == 9 / 11
    assert jaccard(shingles(a), shingles(c)) == 8 / 12
    assert fates(decide(texts(a, b, c))) == [STAYS, ("near", 0), STAYS]
    assert fates(decide(texts(b, a, c))) == [STAYS, ("near", 0), ("near", 0)]
    # A URL chain does not glue either: r2 is near to the dropped r1 only.
    rows = crawl(("u1", "short other page"), ("u1", ABC), ("u2", ABC + " u"))
    assert fates(decide(rows)) == [STAYS, ("urls", 0), STAYS]


def test_the_most_similar_keeper_wins_then_the_earlier() -> None:
    base = list(range(100))
    far, close = words(*base[:84]), words(*base[6:])  # .67 to each other; .84 and .94 to the whole
    assert fates(decide(texts(far, close, words(*base)))) == [STAYS, STAYS, ("near", 1)]
    left, right = words(*base[:90]), words(*base[10:])
    assert jaccard(shingles(left), shingles(right)) == 78 / 98 < 0.8
    tie = texts(left, right, words(*base))
    assert fates(decide(tie)) == [STAYS, STAYS, ("near", 0)]
    assert fates(decide(tie, Rule(policy="longest"))) == [("near", 2), ("near", 2), STAYS]
    assert fates(decide(tie, Rule(policy="last"))) == [("near", 2), ("near", 2), STAYS]
    # Of equals, the earlier in priority: with "last" and the whole text in front, that is the later one.
    tie = texts(words(*base), left, right)
    assert fates(decide(tie, Rule(policy="last"))) == [("near", 2), STAYS, STAYS]


def test_the_threshold_itself_passes() -> None:
    a, b = words(range(11)), words(range(1, 12))  # 8 of 10
    assert jaccard(shingles(a), shingles(b)) == 0.8
    assert fates(decide(texts(a, b))) == [STAYS, ("near", 0)]
    assert fates(decide(texts(a, b), Rule(threshold=0.81))) == [STAYS, STAYS]


def test_empty_texts_match_nothing() -> None:
    rows = texts("", "", None, None, "...", "...", "?")
    # Equal texts without a token are equal records; they are near to nothing.
    assert fates(decide(rows)) == [STAYS, STAYS, STAYS, STAYS, STAYS, ("records", 4), STAYS]
    assert fates(decide(rows, Rule(stages=("near",)))) == [STAYS] * 7
    assert fates(decide(crawl(("u", ""), ("u", "")))) == [STAYS, ("urls", 0)]


def test_short_texts_are_one_shingle() -> None:
    rows = texts("Not found", "not  found!", "not", "found not", "NOT")
    assert fates(decide(rows)) == [STAYS, ("near", 0), STAYS, STAYS, ("near", 2)]


def test_equal_texts_with_other_fields_meet_in_near() -> None:
    rows = [replace(r, fields=(f"title {r.position}",)) for r in texts(ABC, ABC, ABC.upper())]
    verdicts = decide(rows)
    assert fates(verdicts) == [STAYS, ("near", 0), ("near", 0)]
    assert [v.similarity for v in verdicts] == [None, 1.0, 1.0]


def test_changed_keep_passes_changed_pages_on() -> None:
    rows = crawl(("u", ABC), ("u", "another page now"), ("u", ABC), ("u", ABC + " u"), ("u", "another page now"))
    keep = Rule(changed="keep")
    assert fates(decide(rows, keep)) == [STAYS, STAYS, ("urls", 0), ("near", 0), ("urls", 1)]
    assert fates(decide(crawl(("u", ""), ("u", None), ("u", "x")), keep)) == [STAYS, ("urls", 0), STAYS]


def test_brute_counts_pairs_of_records() -> None:
    rows = texts(ABC, ABC, ABC + " u", "other text entirely", "", "")
    everything = {r.identity for r in rows}
    missed = brute(rows, everything)
    assert (missed.pairs, missed.both_kept) == (3, 3)
    assert (missed.pairs_of_distinct_text, missed.both_kept_of_distinct_text) == (2, 2)
    assert len(missed.examples) == 3 - 1  # of several pairs of two texts one is shown
    missed = brute(rows, {rows[0].identity, rows[3].identity, rows[4].identity})
    assert (missed.pairs, missed.both_kept, missed.examples) == (3, 0, ())


# --- ledgers, right and broken ---------------------------------------------------------------------------

LEDGER = pa.schema(
    [(name, pa.string()) for name in ("source", "id", "url", "canonical_url", "status", "stage", "duplicate_of")]
    + [("duplicate_of_source", pa.string()), ("position", pa.int64()), ("duplicate_of_position", pa.int64())]
    + [("similarity", pa.float64()), ("same_content", pa.bool_()), ("cluster_size", pa.int64())]
)
PAIRS = pa.schema(
    [(f"{name}_{side}", kind) for side in "ab" for name, kind in
     [("source", pa.string()), ("position", pa.int64()), ("id", pa.string())]]
    + [("similarity", pa.float64())]
)  # fmt: skip


def ledger_of(rows: Sequence[Record], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "source": r.source, "position": r.position, "id": r.id, "url": r.url, "canonical_url": r.canonical_url,
            "status": v.status, "stage": v.stage, "similarity": v.similarity, "same_content": v.same_content,
            "duplicate_of": None if v.keeper is None else rows[v.keeper].id,
            "duplicate_of_source": None if v.keeper is None else rows[v.keeper].source,
            "duplicate_of_position": None if v.keeper is None else rows[v.keeper].position,
            "cluster_size": size,
        }
        for r, v, size in zip(rows, verdicts, cluster_sizes(verdicts), strict=True)
    ]  # fmt: skip


def pair_of(a: Record, b: Record) -> dict[str, Any]:
    return {
        "source_a": a.source, "position_a": a.position, "id_a": a.id,
        "source_b": b.source, "position_b": b.position, "id_b": b.id,
        "similarity": jaccard(shingles(a.text), shingles(b.text)),
    }  # fmt: skip


def pairs_of(rows: Sequence[Record], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    firsts = list({r.text: r for r in reversed(rows)}.values())
    firsts.sort(key=lambda r: r.identity)
    found = {(a.identity, b.identity): pair_of(a, b) for a, b in combinations(firsts, 2)}
    found = {key: pair for key, pair in found.items() if pair["similarity"] >= 0.8}
    for r, v in zip(rows, verdicts, strict=True):
        if v.stage == "near" and v.keeper is not None:
            a, b = sorted([r, rows[v.keeper]], key=lambda r: r.identity)
            found[a.identity, b.identity] = pair_of(a, b)
    return [found[key] for key in sorted(found)]


def agreement(rows: Sequence[Record], ledger: list[dict[str, Any]], pairs: list[dict[str, Any]]) -> list[str]:
    return replay(rows, pa.Table.from_pylist(ledger, LEDGER), pa.Table.from_pylist(pairs, PAIRS))


@pytest.fixture
def perfect() -> tuple[list[Record], list[dict[str, Any]], list[dict[str, Any]]]:
    base = list(range(100))
    rows = crawl(
        ("u1", words(*base)),
        ("u1", "a changed page here"),
        ("u2", words(*base[:90])),
        ("u2", "judged on its own"),
        (None, words(*base)),
        ("u3", words(*base[3:])),
        ("u4", ""),
        ("u4", ""),
        (None, "judged on its own"),
        ("u5", "JUDGED on its own"),
    )
    rows = [replace(r, fields=("other",)) if r.position == 4 else r for r in rows]
    verdicts = decide(rows)
    assert [v.stage for v in verdicts] == [
        None, "urls", "near", None, "near", "near", None, "urls", "records", "near",
    ]  # fmt: skip
    return rows, ledger_of(rows, verdicts), pairs_of(rows, verdicts)


Perfect = tuple[list[Record], list[dict[str, Any]], list[dict[str, Any]]]


def test_replay_agrees_with_a_perfect_ledger(perfect: Perfect) -> None:
    rows, ledger, pairs = perfect
    assert agreement(rows, ledger, pairs) == []
    assert count_differences(pa.Table.from_pylist(ledger, LEDGER), rows, decide(rows)) == 0


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (0, {"cluster_size": 1}),
        (0, {"status": "dropped", "stage": "near"}),
        (1, {"same_content": True}),
        (1, {"stage": "records"}),
        (2, {"similarity": 0.9}),
        (2, {"similarity": None}),
        (2, {"duplicate_of_position": 3}),
        (2, {"duplicate_of": "r3"}),
        (2, {"status": "kept", "stage": None, "duplicate_of": None, "similarity": None}),
        (3, {"status": "dropped", "stage": "urls", "duplicate_of_position": 2}),
        (5, {"similarity": 95 / 98 + 1e-9}),
        (5, {"cluster_size": 2}),
        (6, {"status": "quarantined"}),
        (8, {"similarity": None}),
        (9, {"id": "r8"}),
        (9, {"position": 11}),
        (9, {"canonical_url": "u1"}),
    ],
)
def test_replay_notices_one_changed_row(perfect: Perfect, row: int, changes: dict[str, Any]) -> None:
    rows, ledger, pairs = perfect
    ledger[row] |= changes
    assert agreement(rows, ledger, pairs) != []


@pytest.mark.parametrize("changes", [{"similarity": 0.8}, {"id_a": "r9"}, {"position_b": 3}, {"position_b": 99}])
def test_replay_notices_one_changed_pair(perfect: Perfect, changes: dict[str, Any]) -> None:
    rows, ledger, pairs = perfect
    pairs[0] |= changes
    assert agreement(rows, ledger, pairs) != []


def test_replay_notices_missing_repeated_and_turned_pairs(perfect: Perfect) -> None:
    rows, ledger, pairs = perfect
    for i in range(len(pairs)):
        between = {(pairs[i]["position_a"]), (pairs[i]["position_b"])}
        if any(r["stage"] == "near" and {r["position"], r["duplicate_of_position"]} == between for r in ledger):
            assert agreement(rows, ledger, pairs[:i] + pairs[i + 1 :]) != []
    assert agreement(rows, ledger, [*pairs, pairs[0]]) != []
    turned = {name[:-1] + {"a": "b", "b": "a"}[name[-1]]: v for name, v in pairs[0].items() if name[-2] == "_"}
    assert agreement(rows, ledger, [turned | {"similarity": pairs[0]["similarity"]}, *pairs[1:]]) != []


def manifest_of(ledger: list[dict[str, Any]]) -> dict[str, Any]:
    def count(**wanted: object) -> int:
        return sum(all(row[name] == value for name, value in wanted.items()) for row in ledger)

    dropped = {name: count(stage=name) for name in ("urls", "records", "near")}
    common = {"read": len(ledger), "kept": count(status="kept"), "quarantined": 0, "dropped": dropped}
    changed = count(stage="urls", same_content=False)
    return {"counts": {**common, "urls_changed": changed, "sources": [{"source": "crawl.jsonl", **common}]}}


def broken_promises(rows: Sequence[Record], ledger: list[dict[str, Any]], manifest: dict[str, Any]) -> list[str]:
    documents = {"id": [r.id for r in rows], "text": [r.text for r in rows]}
    stays = [i for i, row in enumerate(ledger) if row["status"] == "kept"]
    kept = {name: [column[i] for i in stays] for name, column in documents.items()}
    return check_promises(pa.Table.from_pylist(ledger, LEDGER), rows, kept, documents, manifest)


def test_a_perfect_ledger_keeps_its_promises(perfect: Perfect) -> None:
    rows, ledger, _ = perfect
    assert broken_promises(rows, ledger, manifest_of(ledger)) == []


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (0, {"cluster_size": 7}),
        (0, {"similarity": 1.0}),
        (0, {"status": "lost"}),
        (1, {"canonical_url": "u7"}),
        (1, {"duplicate_of_position": 99}),
        (2, {"similarity": 0.85}),
        (2, {"duplicate_of_position": 5, "duplicate_of": "r5"}),  # near, but not kept
        (2, {"duplicate_of_position": 3, "duplicate_of": "r3"}),  # kept, but not near
        (2, {"duplicate_of": "r5"}),
        (2, {"stage": "records", "similarity": 1.0}),
        (8, {"stage": "urls", "similarity": None}),
        (9, {"cluster_size": 1}),
        (9, {"position": 3}),
    ],
)
def test_check_promises_notices_one_changed_row(perfect: Perfect, row: int, changes: dict[str, Any]) -> None:
    rows, ledger, _ = perfect
    ledger[row] |= changes
    assert broken_promises(rows, ledger, manifest_of(ledger)) != []


@pytest.mark.parametrize("name", ["read", "kept", "quarantined", "urls_changed"])
def test_check_promises_notices_a_wrong_count(perfect: Perfect, name: str) -> None:
    rows, ledger, _ = perfect
    manifest = manifest_of(ledger)
    manifest["counts"][name] += 1
    assert broken_promises(rows, ledger, manifest) != []
    manifest = manifest_of(ledger)
    if name in manifest["counts"]["sources"][0]:
        manifest["counts"]["sources"][0][name] += 1
        assert broken_promises(rows, ledger, manifest) != []


def test_check_promises_notices_another_kept_row(perfect: Perfect) -> None:
    rows, ledger, _ = perfect
    documents = {"text": [r.text for r in rows]}
    stays = [r.text for r, row in zip(rows, ledger, strict=True) if row["status"] == "kept"]
    table, manifest = pa.Table.from_pylist(ledger, LEDGER), manifest_of(ledger)
    assert check_promises(table, rows, {"text": stays}, documents, manifest) == []
    assert check_promises(table, rows, {"text": stays[:-1]}, documents, manifest) != []
    assert check_promises(table, rows, {"text": ["x", *stays[1:]]}, documents, manifest) != []
    assert check_promises(table, rows, {}, documents, manifest) != []


def test_records_of_a_table() -> None:
    table = pa.table({"id": ["a", "b"], "text": ["x", None], "title": [None, "t"]})
    assert records_of(table, "s", fields=("title", "text")) == [
        Record("s", 0, "a", None, None, (None, "x"), "x"),
        Record("s", 1, "b", None, None, ("t", None), None),
    ]
