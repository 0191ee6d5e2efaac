"""The one rule and the promises, written a second time in plain Python.

Nothing here comes from the package and nothing is hashed, sampled or approximated: shingles are tuples of
strings, sets are compared by equality, every similarity is the quotient of two counts. pyarrow is used to
read tables only.

- `decide`: the rule over all pairs of documents; what a run with perfect recall would answer.
- `replay`: the rule over the pairs that a run says it found; every ledger row must agree.
- `brute`: how many of all true pairs ended with both records kept (what LSH missed).
- `check_promises`: P1 and P2 from ledger and texts, fast enough for a whole corpus.

Every check returns a list of sentences, one per disagreement; an empty list is agreement.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Identity = tuple[str, int]
EXACT = 1e-12


class _Missing:
    """The value of a field that a record does not have (null is something else)."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Record:
    """One document: where it stands, what it says, and the values of the selected fields."""

    source: str
    position: int
    id: str | None
    url: str | None
    canonical_url: str | None
    fields: tuple[object, ...]
    text: str | None
    payload_digest: str | None = None

    @property
    def identity(self) -> Identity:
        return self.source, self.position


# --- tokens and shingles ---------------------------------------------------------------------------------


def is_word(c: str) -> bool:
    """Letters, marks, numbers, connector punctuation, and the two joiners."""
    category = unicodedata.category(c)
    return category[0] in "LMN" or category == "Pc" or c in "\u200c\u200d"


_ALONE_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "KATAKANA",  # and KATAKANA-HIRAGANA
    "HALFWIDTH KATAKANA",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
)
_ALONE_POINTS = {0x3005, 0x3007, *range(0x3021, 0x302A), *range(0x3038, 0x303C)}


def stands_alone(c: str) -> bool:
    """Whether a word character is a token of its own."""
    return is_word(c) and (ord(c) in _ALONE_POINTS or unicodedata.name(c, "").startswith(_ALONE_NAMES))


def fold(c: str) -> str:
    """Simple folding: always one character for one character."""
    for folded in (c.casefold(), c.lower()):
        if len(folded) == 1:
            return folded
    return c


def _character_class(points: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[tuple[str, int], re.Pattern[str]], dict[int, str]]:
    """Patterns for a token and for a run of word characters, in the Basic Multilingual Plane (the same but
    faster) and in all of Unicode; and the folding."""
    alone: list[int] = []
    others: list[int] = []
    folded: dict[int, str] = {}
    for point in range(0x110000):
        c = chr(point)
        if not is_word(c):
            continue
        (alone if stands_alone(c) else others).append(point)
        if fold(c) != c:
            folded[point] = fold(c)
    patterns = {}
    for end in (0x10000, 0x110000):
        run, single = (_character_class(p for p in points if p < end) for points in (others, alone))
        patterns["token", end] = re.compile(f"{run}+|{single}")
        patterns["run", end] = re.compile(f"(?:{run}|{single})+")
    return patterns, folded


_ASCII_RUN = re.compile("[0-9a-z_]+")


def _pieces(text: str | None, what: str) -> list[str]:
    if not text:
        return []
    if text.isascii():
        return _ASCII_RUN.findall(text.lower())
    patterns, folded = _tables()
    narrow = len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text)
    pattern = patterns[what, 0x10000 if narrow else 0x110000]
    return [piece.lower() if piece.isascii() else piece.translate(folded) for piece in pattern.findall(text)]


def tokens(text: str | None) -> list[str]:
    """Word runs, folded; characters of the scripts without spaces one by one."""
    return _pieces(text, "token")


def runs(text: str | None) -> list[str]:
    """Maximal runs of word characters of whatever script, folded."""
    return _pieces(text, "run")


def shingles(text: str | None, n: int = 3, kind: str = "word") -> frozenset[Any]:
    """The set of shingles: tuples of n tokens, or strings of n characters of the runs joined by one space."""
    found = tokens(text)
    if not found:
        return frozenset()
    if kind == "char":
        joined = " ".join(runs(text))
        return frozenset(joined[i : i + n] for i in range(max(1, len(joined) - n + 1)))
    if len(found) < n:
        return frozenset([tuple(found)])
    return frozenset(zip(*(found[i:] for i in range(n)), strict=False))


def jaccard(a: frozenset[Any], b: frozenset[Any]) -> float:
    """Shared over united; 0 where either is empty, since an empty text matches nothing."""
    if not a or not b:
        return 0.0
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared)


class Shingled:
    """Shingle sets by text, each made once. Shingles are numbered as they are met, to save memory: equal
    numbers are equal shingles, because a dict compares its keys."""

    def __init__(self, n: int, kind: str) -> None:
        self.n, self.kind = n, kind
        self._numbers: dict[Any, int] = {}
        self._sets: dict[str, frozenset[int]] = {}

    def __call__(self, text: str | None) -> frozenset[int]:
        if not text:
            return frozenset()
        known = self._sets.get(text)
        if known is None:
            numbers = self._numbers
            known = frozenset(numbers.setdefault(s, len(numbers)) for s in shingles(text, self.n, self.kind))
            self._sets[text] = known
        return known


# --- the tests of the stages -----------------------------------------------------------------------------


def fingerprint(record: Record) -> tuple[object, ...] | None:
    """Two records are one in the records stage when these are equal; None equals nothing."""
    if all(value is None or value is MISSING or value == "" for value in record.fields):
        return ("payload", record.payload_digest) if record.payload_digest else None
    return ("fields", *((type(value).__name__, repr(value)) for value in record.fields))


def priority(records: Sequence[Record], policy: str = "first") -> list[int]:
    """Indexes of ``records`` in order of priority, highest first."""
    order = sorted(range(len(records)), key=lambda i: records[i].identity)
    if policy == "last":
        order.reverse()
    elif policy == "longest":
        order.sort(key=lambda i: -len(records[i].text or ""))  # stable: ties stay in (source, position) order
    elif policy != "first":
        raise ValueError(f"the oracle knows no policy {policy!r}")
    return order


# --- the rule --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rule says of one record; ``keeper`` is an index into the records."""

    status: str
    stage: str | None = None
    keeper: int | None = None
    similarity: float | None = None
    same_content: bool | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """The settings that the rule depends on."""

    policy: str = "first"
    threshold: float = 0.8
    n: int = 3
    kind: str = "word"
    stages: tuple[str, ...] = ("urls", "records", "near")
    changed: str = "drop"


DEFAULT = Rule()


def apply_rule(
    records: Sequence[Record],
    rule: Rule,
    candidates: Callable[[str], Iterable[str]],
    shingled: Shingled,
) -> list[Verdict]:
    """The rule, record by record. ``candidates(text)`` names the other texts that near may compare with."""
    prints = [fingerprint(r) for r in records]
    kept_by_url: defaultdict[str, list[int]] = defaultdict(list)
    kept_by_print: defaultdict[object, list[int]] = defaultdict(list)
    kept_by_text: defaultdict[str, list[int]] = defaultdict(list)
    verdicts: dict[int, Verdict] = {}
    rank: dict[int, int] = {}

    def verdict(i: int) -> Verdict:
        record = records[i]
        if "urls" in rule.stages and record.canonical_url is not None:
            for k in kept_by_url[record.canonical_url]:
                same = prints[i] == prints[k]  # two records without a fingerprint do not differ in content
                if same or rule.changed == "drop":
                    return Verdict("dropped", "urls", k, None, same)
        if "records" in rule.stages and prints[i] is not None:
            for k in kept_by_print[prints[i]]:
                return Verdict("dropped", "records", k, 1.0)
        if "near" in rule.stages and record.text:
            mine = shingled(record.text)
            found = []
            for text in {record.text, *candidates(record.text)}:
                if kept_by_text.get(text):
                    similarity = jaccard(mine, shingled(text))
                    if similarity >= rule.threshold:
                        found += [(-similarity, rank[k], k) for k in kept_by_text[text]]
            if found:
                negative, _, k = min(found)
                return Verdict("dropped", "near", k, -negative)
        return Verdict("kept")

    for turn, i in enumerate(priority(records, rule.policy)):
        rank[i] = turn
        verdicts[i] = verdict(i)
        if verdicts[i].status == "kept":
            record = records[i]
            if record.canonical_url is not None:
                kept_by_url[record.canonical_url].append(i)
            if prints[i] is not None:
                kept_by_print[prints[i]].append(i)
            if record.text:
                kept_by_text[record.text].append(i)
    return [verdicts[i] for i in range(len(records))]


def cluster_sizes(verdicts: Sequence[Verdict]) -> list[int]:
    """For every record the size of its star: the keeper and all that fell to it."""
    fallen = Counter(v.keeper for v in verdicts if v.keeper is not None)
    return [1 + fallen[i if v.keeper is None else v.keeper] for i, v in enumerate(verdicts)]


# --- all true pairs --------------------------------------------------------------------------------------


def true_pairs(sets: Sequence[frozenset[int]], threshold: float) -> Iterator[tuple[int, int, float]]:
    """All pairs (i, j), i != j, of ``sets`` with Jaccard >= threshold > 0, each once.

    Exact. Two sets this similar share at least threshold * size of either, so with all shingles in one
    order (rare ones first) they share one among the first size - ceil(threshold * size) + 1 of each
    (prefix filter: Chaudhuri, Ganti, Kaushik, ICDE 2006).
    """
    spread = Counter(s for one in sets for s in one)
    index: defaultdict[int, list[int]] = defaultdict(list)
    for i in sorted(range(len(sets)), key=lambda i: len(sets[i])):
        mine = sets[i]
        if not mine:
            continue
        least = max(1, math.ceil(threshold * len(mine) - 1e-9))
        prefix = sorted(mine, key=lambda s: (spread[s], s))[: len(mine) - least + 1]
        for j in {j for s in prefix for j in index[s]}:
            if len(sets[j]) >= least:
                similarity = jaccard(mine, sets[j])
                if similarity >= threshold:
                    yield min(i, j), max(i, j), similarity
        for s in prefix:
            index[s].append(i)


def _similar_texts(records: Sequence[Record], threshold: float, shingled: Shingled) -> dict[str, list[str]]:
    """Every text with all other texts whose Jaccard with it reaches the threshold."""
    by_set: defaultdict[frozenset[int], list[str]] = defaultdict(list)
    for text in {r.text for r in records if r.text}:
        if shingled(text):
            by_set[shingled(text)].append(text)
    similar: defaultdict[str, list[str]] = defaultdict(list)
    groups = list(by_set.values())
    for group in groups:
        for text in group:
            similar[text] += [t for t in group if t != text]
    for i, j, _ in true_pairs(list(by_set), threshold):
        for a in groups[i]:
            similar[a] += groups[j]
        for b in groups[j]:
            similar[b] += groups[i]
    return similar


def decide(records: Sequence[Record], rule: Rule = DEFAULT, shingled: Shingled | None = None) -> list[Verdict]:
    """The rule over all pairs: what a run answers when it misses none."""
    shingled = shingled or Shingled(rule.n, rule.kind)
    similar = _similar_texts(records, rule.threshold, shingled) if "near" in rule.stages else {}
    return apply_rule(records, rule, lambda text: similar.get(text, ()), shingled)


@dataclass(frozen=True, slots=True)
class Missed:
    """Counts of pairs of records with true Jaccard >= threshold.

    ``*_of_distinct_text`` leaves out the pairs whose two texts are equal; ``examples`` holds up to ten
    pairs of which both records were kept.
    """

    pairs: int
    both_kept: int
    pairs_of_distinct_text: int
    both_kept_of_distinct_text: int
    examples: tuple[tuple[Identity, Identity, float], ...]


def brute(
    records: Sequence[Record], kept: set[Identity], rule: Rule = DEFAULT, shingled: Shingled | None = None
) -> Missed:
    """How many of all true pairs of ``records`` ended with both records in ``kept``."""
    shingled = shingled or Shingled(rule.n, rule.kind)
    by_text: defaultdict[str, list[Identity]] = defaultdict(list)
    for r in sorted(records, key=lambda r: r.identity):
        if r.text and shingled(r.text):
            by_text[r.text].append(r.identity)
    similar = _similar_texts(records, rule.threshold, shingled)
    pairs = both = equal = both_equal = 0
    examples: list[tuple[Identity, Identity, float]] = []
    stay = {text: [i for i in identities if i in kept] for text, identities in by_text.items()}
    for text, identities in by_text.items():
        equal += math.comb(len(identities), 2)
        both_equal += math.comb(len(stay[text]), 2)
        if len(stay[text]) > 1:
            examples.append((stay[text][0], stay[text][1], 1.0))
        for other in similar.get(text, ()):
            if text < other:
                pairs += len(identities) * len(by_text[other])
                both += len(stay[text]) * len(stay[other])
                if stay[text] and stay[other]:
                    examples.append((stay[text][0], stay[other][0], jaccard(shingled(text), shingled(other))))
    return Missed(pairs + equal, both + both_equal, pairs, both, tuple(sorted(examples)[:10]))


# --- a run's answer against the rule ---------------------------------------------------------------------


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _close(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else abs(a - b) <= EXACT


def replay(
    records: Sequence[Record],
    ledger: pa.Table,
    pairs: pa.Table,
    rule: Rule = DEFAULT,
    shingled: Shingled | None = None,
) -> list[str]:
    """Disagreements between a ledger and the rule, given the near pairs that the run found.

    ``records``: all documents that were not quarantined. Canonical URLs are the ledger's own (their rules
    are tested elsewhere). Two texts may be compared in the near stage when the pairs table holds a pair of
    records with these texts, or when they are equal; every similarity is computed anew.
    """
    shingled = shingled or Shingled(rule.n, rule.kind)
    rows = _rows(ledger)
    problems = _out_of_order(rows)
    usable = [row for row in rows if row["status"] != "quarantined"]
    records = sorted(records, key=lambda r: r.identity)
    if [r.identity for r in records] != [(row["source"], row["position"]) for row in usable]:
        said = {(row["source"], row["position"]) for row in usable}
        read = {r.identity for r in records}
        return [
            *problems,
            f"the ledger has {len(usable)} usable rows for {len(records)} documents",
            f"only in the ledger {sorted(said - read)[:5]}, not in the ledger {sorted(read - said)[:5]}",
        ]
    records = [replace(r, canonical_url=row["canonical_url"]) for r, row in zip(records, usable, strict=True)]
    similar, complaints = _read_pairs(records, usable, pairs, rule, shingled)
    problems += complaints
    verdicts = apply_rule(records, rule, lambda text: similar.get(text, ()), shingled)
    sizes = cluster_sizes(verdicts)
    for i, row in enumerate(usable):
        problems += _compare(records, i, verdicts[i], sizes[i], row)
    return problems


def _out_of_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    identities = [(row["source"], row["position"]) for row in rows]
    return [
        f"ledger rows {a} and {b} do not stand in (source, position) order, or repeat"
        for a, b in pairwise(identities)
        if a >= b
    ]


def _read_pairs(
    records: Sequence[Record],
    ledger: Sequence[Mapping[str, Any]],
    pairs: pa.Table,
    rule: Rule,
    shingled: Shingled,
) -> tuple[dict[str, set[str]], list[str]]:
    """The texts that the pairs table lets meet, and what is wrong with the table."""
    by_identity = {r.identity: r for r in records}
    first: dict[str | None, Identity] = {}
    for i in priority(records, rule.policy):
        first.setdefault(records[i].text, records[i].identity)
    fallen = {
        frozenset([(row["source"], row["position"]), (row["duplicate_of_source"], row["duplicate_of_position"])])
        for row in ledger
        if row["stage"] == "near"
    }
    similar: defaultdict[str, set[str]] = defaultdict(set)
    problems: list[str] = []
    seen: set[frozenset[Identity]] = set()
    for row in _rows(pairs):
        a, b = (row["source_a"], row["position_a"]), (row["source_b"], row["position_b"])
        said = f"pair {a} {b}"
        if a not in by_identity or b not in by_identity:
            problems.append(f"{said}: not both are usable documents")
            continue
        left, right = by_identity[a], by_identity[b]
        if a >= b:
            problems.append(f"{said}: the sides are not in (source, position) order")
        if frozenset([a, b]) in seen:
            problems.append(f"{said}: stands there twice")
        seen.add(frozenset([a, b]))
        if (row["id_a"], row["id_b"]) != (left.id, right.id):
            problems.append(f"{said}: ids {row['id_a']!r} {row['id_b']!r}, not {left.id!r} {right.id!r}")
        similarity = jaccard(shingled(left.text), shingled(right.text))
        if not _close(row["similarity"], similarity) or similarity < rule.threshold:
            problems.append(f"{said}: similarity {row['similarity']!r}, true Jaccard {similarity!r}")
        firsts = left.text != right.text and first[left.text] == a and first[right.text] == b
        if not firsts and frozenset([a, b]) not in fallen:
            problems.append(f"{said}: neither the first records of two texts nor a near duplicate and its keeper")
        if left.text and right.text:
            similar[left.text].add(right.text)
            similar[right.text].add(left.text)
    problems += [f"near duplicate and keeper {set(pair)} are missing from the pairs" for pair in fallen - seen]
    return similar, problems


def _compare(records: Sequence[Record], i: int, verdict: Verdict, size: int, row: Mapping[str, Any]) -> list[str]:
    record = records[i]
    keeper = None if verdict.keeper is None else records[verdict.keeper]
    expected: dict[str, object] = {
        "id": record.id,
        "url": record.url,
        "status": verdict.status,
        "stage": verdict.stage,
        "duplicate_of": keeper and keeper.id,
        "duplicate_of_source": keeper and keeper.source,
        "duplicate_of_position": None if keeper is None else keeper.position,
        "same_content": verdict.same_content,
        "cluster_size": size,
    }
    wrong = [f"{name} {row[name]!r}, not {value!r}" for name, value in expected.items() if row[name] != value]
    if not _close(row["similarity"], verdict.similarity):
        wrong.append(f"similarity {row['similarity']!r}, not {verdict.similarity!r}")
    return [f"{record.identity}: " + "; ".join(wrong)] if wrong else []


def count_differences(ledger: pa.Table, records: Sequence[Record], verdicts: Sequence[Verdict]) -> int:
    """Rows whose status, stage or keeper differ from ``verdicts`` (of the same records, in ledger order)."""
    usable = [row for row in _rows(ledger) if row["status"] != "quarantined"]
    differing = 0
    for record, verdict, row in zip(records, verdicts, usable, strict=True):
        keeper = (None, None) if verdict.keeper is None else records[verdict.keeper].identity
        said = (row["source"], row["position"], row["status"], row["stage"])
        named = (row["duplicate_of_source"], row["duplicate_of_position"])
        differing += said != (*record.identity, verdict.status, verdict.stage) or named != keeper
    return differing


# --- the promises over a whole corpus --------------------------------------------------------------------


def check_promises(
    ledger: pa.Table,
    records: Sequence[Record],
    kept: Mapping[str, Sequence[object]],
    documents: Mapping[str, Sequence[object]],
    manifest: Mapping[str, Any],
    rule: Rule = DEFAULT,
) -> list[str]:
    """What breaks P1 or P2, from ledger, texts, kept rows and manifest alone.

    ``records``: every usable document in (source, position) order. ``kept``: the columns of OUT/kept.
    ``documents``: the same columns of all usable documents, aligned with ``records``.
    """
    rows = _rows(ledger)
    problems = _out_of_order(rows)
    usable = [row for row in rows if row["status"] != "quarantined"]
    if [r.identity for r in records] != [(row["source"], row["position"]) for row in usable]:
        return [*problems, f"{len(usable)} usable ledger rows are not the {len(records)} documents"]
    problems += _check_counts(rows, manifest)
    stays = [i for i, row in enumerate(usable) if row["status"] == "kept"]
    for name, column in documents.items():
        if [column[i] for i in stays] != list(kept.get(name, ())):
            problems.append(f"column {name!r} of the kept rows is not what the ledger calls kept")
    return problems + _check_stars(usable, records, rule)


def _check_counts(rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> list[str]:
    """P1: every document ends in exactly one of kept, dropped, quarantined, per source and in all."""
    counts = manifest["counts"]
    status = Counter(row["status"] for row in rows)
    stage = Counter(row["stage"] for row in rows if row["status"] == "dropped")
    problems = [f"unknown status {name!r}" for name in status.keys() - {"kept", "dropped", "quarantined"}]
    problems += [f"unknown stage {name!r}" for name in stage.keys() - {"urls", "records", "near"}]

    def compare(what: str, said: object, true: int) -> None:
        if said != true:
            problems.append(f"{what}: the manifest says {said!r}, the ledger {true}")

    def of_stage(dropped: Any) -> int:
        return sum(dropped.values()) if isinstance(dropped, Mapping) else dropped

    compare("read", counts["read"], len(rows))
    compare("kept", counts["kept"], status["kept"])
    compare("quarantined", counts["quarantined"], status["quarantined"])
    for name in ("urls", "records", "near"):
        compare(f"dropped.{name}", counts["dropped"][name], stage[name])
    changed = sum(row["same_content"] is False for row in rows if row["stage"] == "urls")
    compare("urls_changed", counts["urls_changed"], changed)
    if counts["read"] != counts["kept"] + sum(counts["dropped"].values()) + counts["quarantined"]:
        problems.append(f"read is not kept + dropped + quarantined: {counts}")
    per_source = Counter((row["source"], row["status"]) for row in rows)
    named = set()
    for entry in counts["sources"]:
        source = entry["source"]
        named.add(source)
        read = sum(per_source[source, name] for name in status)
        compare(f"{source} read", entry["read"], read)
        compare(f"{source} kept", entry["kept"], per_source[source, "kept"])
        compare(f"{source} dropped", of_stage(entry["dropped"]), per_source[source, "dropped"])
        compare(f"{source} quarantined", entry["quarantined"], per_source[source, "quarantined"])
    problems += [f"source {s!r} is not in the manifest" for s in {row["source"] for row in rows} - named]
    return problems


def _check_stars(usable: Sequence[Mapping[str, Any]], records: Sequence[Record], rule: Rule) -> list[str]:
    """P2: each dropped row names a kept row of the run, and the pair passes the test of that stage."""
    problems: list[str] = []
    at = {(row["source"], row["position"]): i for i, row in enumerate(usable)}
    by_keeper: defaultdict[int, list[int]] = defaultdict(list)
    for i, row in enumerate(usable):
        named = (row["duplicate_of_source"], row["duplicate_of_position"])
        if row["status"] == "kept":
            idle = ("stage", "duplicate_of", "duplicate_of_source", "duplicate_of_position", "similarity")
            if any(row[name] is not None for name in idle):
                problems.append(f"{records[i].identity}: kept, but names {named} or a stage")
        elif named not in at:
            problems.append(f"{records[i].identity}: names {named}, which is no document of this run")
        elif usable[at[named]]["status"] != "kept" or usable[at[named]]["id"] != row["duplicate_of"]:
            problems.append(f"{records[i].identity}: {named} is not kept, or not of id {row['duplicate_of']!r}")
        else:
            by_keeper[at[named]].append(i)
    for k, row in enumerate(usable):
        if row["status"] == "kept":
            # One keeper at a time: its shingles are made once and forgotten with its star.
            problems += _check_star(k, by_keeper.get(k, []), usable, records, rule)
    return problems


def _check_star(
    k: int, fallen: Sequence[int], usable: Sequence[Mapping[str, Any]], records: Sequence[Record], rule: Rule
) -> list[str]:
    problems = [
        f"{records[i].identity}: cluster_size {usable[i]['cluster_size']!r}, not {1 + len(fallen)}"
        for i in (k, *fallen)
        if usable[i]["cluster_size"] != 1 + len(fallen)
    ]
    keeper_shingles: frozenset[Any] | None = None
    for i in fallen:
        row, said = usable[i], f"{records[i].identity} falls to {records[k].identity} in {usable[i]['stage']}"
        if row["stage"] == "urls":
            key = row["canonical_url"]
            if key is None or key != usable[k]["canonical_url"] or row["similarity"] is not None:
                problems.append(f"{said}: keys {key!r}, {usable[k]['canonical_url']!r}")
        elif row["stage"] == "records":
            mine = fingerprint(records[i])
            if mine is None or mine != fingerprint(records[k]) or row["similarity"] != 1.0:
                problems.append(f"{said}: the selected fields differ")
        else:
            if keeper_shingles is None:
                keeper_shingles = shingles(records[k].text, rule.n, rule.kind)
            similarity = jaccard(shingles(records[i].text, rule.n, rule.kind), keeper_shingles)
            if similarity < rule.threshold or not _close(row["similarity"], similarity):
                problems.append(f"{said}: similarity {row['similarity']!r}, true Jaccard {similarity!r}")
    return problems


# --- reading ---------------------------------------------------------------------------------------------


def read_tables(folder: Path) -> pa.Table:
    """All parts of a folder of Parquet files, in the order of their names."""
    parts = [pq.ParquetFile(part).read() for part in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(parts)


def records_of(
    table: pa.Table,
    source: str | Sequence[str],
    positions: Sequence[int] | None = None,
    fields: Sequence[str] = ("text",),
) -> list[Record]:
    """The rows of a table as records; without ``positions`` they are numbered from 0."""
    names = set(table.column_names)
    rows = table.num_rows

    def column(name: str) -> list[Any]:
        return table.column(name).to_pylist() if name in names else [None] * rows

    sources = [source] * rows if isinstance(source, str) else source
    selected = list(zip(*(column(name) for name in fields), strict=True))
    return [
        Record(*values)
        for values in zip(
            sources,
            range(rows) if positions is None else positions,
            column("id"),
            column("url"),
            [None] * rows,
            selected,
            column("text"),
            column("payload_digest"),
            strict=True,
        )
    ]


def records_of_jsonl(path: Path, source: str, fields: Sequence[str] = ("text",)) -> list[Record]:
    """The objects of a JSON-lines file by line number; lines that hold no object are left out."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for position, line in enumerate(lines):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                selected = tuple(row.get(name, MISSING) for name in fields)
                found.append(Record(source, position, row.get("id"), row.get("url"), None, selected, row.get("text")))
    return found
