"""The near stage over texts in memory: every container, every setting, and the pairs against brute force."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BROKEN, STRANGE, sentences, texts

import dedup_pipeline.near
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.near import minhash_signatures, near_duplicates, shingle_hashes
from dedup_pipeline.near.texts import PAIRS

from . import oracle_shingles as oracle

LAWS = settings(deadline=None, max_examples=100)
Pairs = dict[tuple[int, int], float]

SAME = ["the cat sat on the mat", None, "The cat sat on the mat!", "", "a dog", "A DOG.", "a dog"]
SAME_PAIRS = {(0, 2): 1.0, (4, 5): 1.0, (4, 6): 1.0, (5, 6): 1.0}


def found(given: Any, **settings: Any) -> Pairs:
    """The pairs, after a look at the table's promises."""
    table = near_duplicates(given, **settings)
    assert table.schema == PAIRS
    rows = [(row["a"], row["b"]) for row in table.to_pylist()]
    assert all(left < right for left, right in rows)
    assert rows == sorted(set(rows))
    return dict(zip(rows, table.column("similarity").to_pylist(), strict=True))


def brute(given: list[Any], threshold: float = 0.8, shingle: str = "word", n: int = 3) -> Pairs:
    sets = [set(oracle.shingle_hashes("" if text is None else text, shingle, n)) for text in given]
    exact = {
        (a, b): oracle.jaccard(sets[a], sets[b]) for a, b in combinations(range(len(given)), 2) if sets[a] and sets[b]
    }
    return {pair: similarity for pair, similarity in exact.items() if similarity >= threshold}


def sliced(values: list[Any]) -> pa.Array:
    return pa.array(["before", *values, "behind"])[1:-1]


CONTAINERS: dict[str, Any] = {
    "list": SAME,
    "tuple": tuple(SAME),
    "object array": np.array(SAME, dtype=object),
    "bytes": [None if text is None else text.encode() for text in SAME],
    "some bytes": [text.encode() if text and "cat" in text else text for text in SAME],
    "string": pa.array(SAME),
    "large string": pa.array(SAME, pa.large_string()),
    "string view": pa.array(SAME, pa.string_view()),
    "binary": pa.array([None if text is None else text.encode() for text in SAME]),
    "dictionary": pa.array(SAME).dictionary_encode(),
    "slice": sliced(SAME),
    "slice of a dictionary": pa.array(["x", *SAME]).dictionary_encode()[1:],
    "chunks": pa.chunked_array([SAME[:2], [], SAME[2:5], SAME[5:]]),
    "sliced chunks": pa.chunked_array([["x", *SAME[:3]], [*SAME[3:], "y"]])[1:-1],
    "chunks of dictionaries": pa.chunked_array(
        [pa.array(SAME[:4]).dictionary_encode(), pa.array(SAME[4:]).dictionary_encode()]
    ),
    "chunks of views": pa.chunked_array([pa.array(SAME, pa.string_view())]),
    "chunks of binary": pa.chunked_array([pa.array(SAME).cast(pa.binary())]),
    "series": pd.Series(SAME),
    "series of objects": pd.Series(SAME, dtype=object),
    "series with its own index": pd.Series(SAME, index=range(50, 57)),
    "arrow series": pd.Series(SAME, dtype=pd.ArrowDtype(pa.large_string())),
    "category": pd.Series(SAME).astype("category"),
    "index": pd.Index(SAME),
    "series of bytes": pd.Series([None if text is None else text.encode() for text in SAME], dtype=object),
    "series with NaN": pd.Series([float("nan") if text is None else text for text in SAME], dtype=object),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container(container: str) -> None:
    assert found(CONTAINERS[container]) == SAME_PAIRS
    wanted = minhash_signatures(SAME, num_perm=4)
    assert np.array_equal(minhash_signatures(CONTAINERS[container], num_perm=4), wanted)


def test_an_iterator() -> None:
    assert found(text for text in SAME) == SAME_PAIRS


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        [None, None],
        ["", "..."],
        pa.array([], pa.string()),
        pa.array([None, None]),
        pa.chunked_array([], pa.string()),
        pd.Series([], dtype=object),
    ],
    ids=["list", "nulls", "no words", "array", "array of nulls", "chunked", "series"],
)
def test_nothing_is_like_nothing(nothing: Any) -> None:
    assert found(nothing, threshold=0.01) == {}
    rows = minhash_signatures(nothing, num_perm=4)
    assert rows.shape == (len(nothing), 4)
    assert (rows == 0xFFFFFFFF).all()


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        pa.array,
        lambda values: pa.chunked_array([values]),
        lambda values: pd.Series(values, dtype=object),
        lambda values: pa.chunked_array([pa.array(values).dictionary_encode()]),
    ],
    ids=["list", "array", "chunks", "series", "dictionary"],
)
def test_bytes_that_are_no_utf8(wrap: Any) -> None:
    values = [*BROKEN.values(), *(content.decode("utf-8", "replace").encode() for content in BROKEN.values())]
    assert found(wrap(values), shingle="char", n=2, threshold=1.0) == brute(values, 1.0, "char", 2)


@pytest.mark.parametrize(
    "wrap", [list, lambda values: pd.Series(values, dtype=object), lambda values: pd.Index(values, dtype=object)]
)
def test_a_lone_surrogate_separates_words(wrap: Any) -> None:
    assert found(wrap(["the cat\ud800sat down", "The cat sat down", None])) == {(0, 1): 1.0}


def test_the_whole_catalogue() -> None:
    values = [*STRANGE.values(), *STRANGE.values()]
    for shingle in ("word", "char"):
        got = found(values, shingle=shingle, n=2)
        wanted = brute(values, shingle=shingle, n=2)
        assert got.items() <= wanted.items()
        for at, text in enumerate(STRANGE.values()):
            assert ((at, at + len(STRANGE)) in got) == bool(oracle.shingle_hashes(text, shingle))


@LAWS
@given(
    st.lists(st.none() | sentences() | texts(max_size=20), max_size=12),
    st.sampled_from([0.05, 1 / 3, 0.5, 0.8, 1.0]),
    st.sampled_from(["word", "char"]),
    st.integers(1, 4),
    st.sampled_from([1, 16, 128]),
)
def test_only_true_pairs_and_all_equal_ones(
    given: list[str | None], threshold: float, shingle: str, n: int, num_perm: int
) -> None:
    got = found(given, threshold=threshold, shingle=shingle, n=n, num_perm=num_perm, target_recall=0.9)
    wanted = brute(given, threshold, shingle, n)
    assert got.items() <= wanted.items()
    assert {pair for pair, similarity in wanted.items() if similarity == 1.0} <= got.keys()


@pytest.mark.parametrize(("threshold", "target"), [(0.8, 0.99), (0.5, 0.95), (0.3, 0.9)])
def test_recall_is_at_least_what_was_asked_for(threshold: float, target: float) -> None:
    """Copies of texts with words changed, so that true pairs lie all along from the threshold to 1."""
    generator = np.random.default_rng(3)
    given: list[str] = []
    for _ in range(150):
        words = generator.integers(0, 5000, 120).astype(str)
        for changes in (0, 1, 2, 3, 5, 8):
            copy = words.copy()
            copy[generator.integers(0, 120, changes)] = generator.integers(5000, 9000, changes).astype(str)
            given.append(" ".join(copy))
    group = [given[at : at + 6] for at in range(0, len(given), 6)]
    wanted = sum(len(brute(copies, threshold)) for copies in group)
    got = found(given, threshold=threshold, target_recall=target)
    assert wanted > 500
    assert target <= len(got) / wanted <= 1.0


def test_hashes_of_one_text() -> None:
    for text in ("", "one", "the cat sat on the mat", "汉字 हिन्दी"):
        for same in (text, text.encode()):
            hashes = shingle_hashes(same)
            assert hashes.dtype == np.uint64
            assert hashes.tolist() == oracle.shingle_hashes(text)
    assert shingle_hashes("abcd", shingle="char", n=2).tolist() == oracle.shingle_hashes("abcd", "char", 2)
    assert shingle_hashes(b"a\xffb").tolist() == shingle_hashes("a b").tolist()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"threshold": 0.0}, "threshold = 0.0"),
        ({"threshold": -0.5}, "threshold = -0.5"),
        ({"threshold": 1.0000001}, "threshold = 1.0000001"),
        ({"threshold": float("nan")}, "threshold = nan"),
        ({"target_recall": 0.0}, "target_recall = 0.0"),
        ({"target_recall": 1.0}, "target_recall = 1.0"),
        ({"target_recall": float("nan")}, "target_recall = nan"),
        ({"num_perm": 0}, "num_perm = 0"),
        ({"num_perm": -3}, "num_perm = -3"),
        ({"n": 0}, "n = 0"),
        ({"n": -1}, "n = -1"),
        ({"shingle": "line"}, "shingle = 'line': give one of word, char"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        near_duplicates(["a", "b"], **settings)


def test_signatures_and_hashes_check_their_settings_too() -> None:
    with pytest.raises(ConfigError, match="num_perm = 0"):
        minhash_signatures(["a"], num_perm=0)
    with pytest.raises(ConfigError, match="n = 0"):
        shingle_hashes("a", n=0)
    with pytest.raises(ConfigError, match="shingle = 'x'"):
        shingle_hashes("a", shingle="x")


@pytest.mark.parametrize("stranger", [3, 1.5, float("nan"), ["a"]])
def test_what_is_no_text_is_refused(stranger: Any) -> None:
    with pytest.raises(TypeError, match=f"a text is a {type(stranger).__name__}: give strings, bytes or None"):
        near_duplicates(["a", stranger])


def test_the_package_names_its_functions_alone() -> None:
    assert sorted(dedup_pipeline.near.__all__) == ["minhash_signatures", "near_duplicates", "shingle_hashes"]
    with pytest.raises(AttributeError, match="no attribute 'near_duplicate'"):
        _ = dedup_pipeline.near.near_duplicate
