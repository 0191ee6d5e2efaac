"""Signatures and band keys: against datasketch, against plain Python, and against what theory says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHash
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.near.minhash import EMPTY, MINHASH_SCHEME, SEED, band_keys, permutations, signatures
from dedup_pipeline.near.texts import minhash_signatures

from . import oracle_shingles as oracle

LAWS = settings(deadline=None, max_examples=100)
HASHES = st.integers(1, (1 << 64) - 1)
SETS = st.lists(st.lists(HASHES, max_size=40, unique=True), max_size=5)


def signed(sets: list[list[int]], num_perm: int = 128, seed: int = SEED) -> np.ndarray:
    hashes = np.array([value for found in sets for value in found], dtype=np.uint64)
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    return signatures(hashes, offsets, num_perm, seed)


def sketch(values: list[int], num_perm: int = 128, seed: int = SEED) -> MinHash:
    made = MinHash(num_perm, seed=seed, scheme=MINHASH_SCHEME, hashfunc=int)
    made.update_batch([value & 0xFFFFFFFF for value in values])
    return made


@LAWS
@given(SETS, st.sampled_from([1, 2, 7, 16, 128]), st.integers(0, 5))
def test_equals_datasketch_and_plain_python(sets: list[list[int]], num_perm: int, seed: int) -> None:
    got = signed(sets, num_perm, seed)
    assert got.dtype == np.uint32
    assert got.shape == (len(sets), num_perm)
    factors, summands = permutations(num_perm, seed).tolist()
    for row, found in zip(got, sets, strict=True):
        assert row.tolist() == oracle.signature(found, factors, summands)
        if found:
            assert row.tolist() == sketch(found, num_perm, seed).hashvalues.tolist()


@pytest.mark.parametrize("count", [*range(26), 63, 64, 65, 1000])
def test_set_sizes_about_the_block_of_eight(count: int) -> None:
    """The least value may come from any place of a block, or from the rest behind the last one."""
    values = [oracle.mix64(number) for number in range(1, count + 1)]
    rows = signed([values[at:] + values[:at] for at in range(min(count, 9))] + [values])
    assert (rows == rows[0]).all()
    if count:
        assert rows[0].tolist() == sketch(values).hashvalues.tolist()
    else:
        assert (rows == EMPTY).all()


def test_the_upper_half_of_a_hash_has_no_say() -> None:
    low = [oracle.mix64(number) & 0xFFFFFFFF for number in range(1, 20)]
    assert signed([low, [value | 0xABCDEF << 32 for value in low]]).tolist() == [signed([low])[0].tolist()] * 2


@LAWS
@given(st.lists(HASHES, min_size=1, max_size=30), st.lists(HASHES, min_size=1, max_size=30))
def test_signature_of_a_union_is_the_least_of_both(left: list[int], right: list[int]) -> None:
    one, other, both = signed([left, right, left + right])
    assert (np.minimum(one, other) == both).all()


@pytest.mark.parametrize("num_perm", [1, 16, 96, 128, 256])
def test_permutations_are_those_datasketch_draws(num_perm: int) -> None:
    got = permutations(num_perm)
    assert got.dtype == np.uint32
    assert got.shape == (2, num_perm)
    assert (got[0] % 2 == 1).all()
    theirs = MinHash(num_perm, seed=SEED, scheme=MINHASH_SCHEME, hashfunc=int).permutations
    assert np.array_equal(got, np.asarray(theirs, dtype=np.uint32))
    with pytest.raises(ValueError, match="read-only"):
        got[0, 0] = 0


def test_a_signature_can_be_loaded_into_datasketch() -> None:
    texts = [
        "the cat sat on the mat and slept",
        "the cat sat on the mat and ate",
        "quite another text than these two are",
    ]
    rows = minhash_signatures(texts)
    loaded = [MinHash(128, seed=SEED, scheme=MINHASH_SCHEME, hashfunc=int, hashvalues=row) for row in rows]
    lean = [LeanMinHash(seed=SEED, hashvalues=row, scheme=MINHASH_SCHEME) for row in rows]
    for text, minhash, leaner in zip(texts, loaded, lean, strict=True):
        own = sketch(oracle.shingle_hashes(text))
        assert minhash.jaccard(own) == 1.0
        assert leaner.jaccard(LeanMinHash(own)) == 1.0
    agreed = float((rows[0] == rows[1]).mean())
    assert 0.0 < agreed < 1.0
    assert loaded[0].jaccard(loaded[1]) == lean[0].jaccard(lean[1]) == agreed


def test_values_agree_as_often_as_the_sets_are_alike() -> None:
    """Broder's law within 3 sigma, over 2000 pairs of random sets at each similarity and 16 permutations."""
    generator = np.random.default_rng(7)
    pairs, size = 2000, 60
    for shared in (0, 6, 20, 30, 40, 54, 60):
        values = generator.integers(1, 1 << 63, (pairs, 2 * size - shared), dtype=np.uint64)
        content = np.concatenate([values[:, :size], values[:, size - shared :]], axis=1).ravel()
        offsets = np.arange(0, content.size + 1, size, dtype=np.int64)
        rows = signatures(content, offsets, 16).reshape(pairs, 2, 16)
        agreed = (rows[:, 0] == rows[:, 1]).mean()
        similarity = shared / (2 * size - shared)
        sigma = math.sqrt(similarity * (1 - similarity) / (pairs * 16))
        assert abs(agreed - similarity) <= 3 * sigma


def test_permutations_are_independent_of_each_other() -> None:
    """How often two values agree *both* is the square of the similarity, within 3 sigma, for each neighbouring pair."""
    generator = np.random.default_rng(8)
    pairs, size, shared = 4000, 30, 20
    values = generator.integers(1, 1 << 63, (pairs, 2 * size - shared), dtype=np.uint64)
    content = np.concatenate([values[:, :size], values[:, size - shared :]], axis=1).ravel()
    rows = signatures(content, np.arange(0, content.size + 1, size, dtype=np.int64), 16).reshape(pairs, 2, 16)
    agreed = rows[:, 0] == rows[:, 1]
    both = (agreed[:, 0::2] & agreed[:, 1::2]).mean()
    chance = (shared / (2 * size - shared)) ** 2
    assert abs(both - chance) <= 3 * math.sqrt(chance * (1 - chance) / (pairs * 8))


@LAWS
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 5), st.randoms(use_true_random=False))
def test_band_keys_equal_plain_python(bands: int, rows: int, spare: int, random: object) -> None:
    values = [[random.randrange(1 << 32) for _ in range(bands * rows + spare)] for _ in range(3)]  # type: ignore[attr-defined]
    got = band_keys(np.array(values, dtype=np.uint32), bands, rows)
    assert got.dtype == np.uint64
    assert got.tolist() == [
        [oracle.band_key(row[band * rows : (band + 1) * rows]) for band in range(bands)] for row in values
    ]


@pytest.mark.parametrize(("bands", "rows"), [(16, 6), (9, 13), (1, 128), (128, 1), (4, 8)])
def test_every_value_of_a_band_is_in_its_key_and_in_no_other(bands: int, rows: int) -> None:
    width = bands * rows
    first = np.random.default_rng(1).integers(0, 1 << 32, width, dtype=np.uint32)
    for flip in (1, 1 << 15, 1 << 16, 1 << 31):
        changed = np.tile(first, (width, 1))
        changed[np.arange(width), np.arange(width)] ^= np.uint32(flip)
        differs = band_keys(changed, bands, rows) != band_keys(first[None], bands, rows)
        assert np.array_equal(differs, np.repeat(np.eye(bands, dtype=bool), rows, axis=0))


def test_the_order_of_the_values_counts() -> None:
    values = np.array([[1, 2, 3, 4], [2, 1, 4, 3], [3, 4, 1, 2]], dtype=np.uint32)
    keys = band_keys(values, 2, 2)
    assert len(np.unique(keys[:2])) == 4
    assert keys[2].tolist() == keys[0, ::-1].tolist()


def test_unrelated_bands_do_not_meet() -> None:
    """Small and regular values, which a sum or a truncation would fold together."""
    grid = np.stack(np.meshgrid(*[np.arange(30, dtype=np.uint32) * np.uint32(1 << 16)] * 3), axis=-1).reshape(-1, 3)
    keys = band_keys(np.ascontiguousarray(grid), 1, 3)[:, 0]
    assert len(np.unique(keys)) == len(grid)
    # All 64 bits move: every bit is set in about half of the keys.
    ones = ((keys[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / math.sqrt(len(keys))


def test_golden_values() -> None:
    """Made in plain Python once; stored signatures and keys must go on to meet new ones."""
    assert (SEED, MINHASH_SCHEME) == (1, "affine32")
    rows = minhash_signatures(["the cat sat on the mat", "", "汉字 हिन्दी"], num_perm=8)
    assert [row.tobytes().hex() for row in rows.astype(">u4")] == [
        "0a846af21d032f851e3b4b9b330d93bd48686ec375692c5805928b114873545f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "d025ccb65c25e2a3908b895dce91f2269909c3f7c3fc8416dddda8908c75bf23",
    ]
    assert [[f"{key:016x}" for key in keys] for keys in band_keys(rows, 2, 4).tolist()] == [
        ["904bb80b9fda2eea", "23f3f2416eb74708"],
        ["5908ba1eae999e16", "5908ba1eae999e16"],
        ["36f0e0b2e4a28d07", "f99d4f2643e1bd29"],
    ]
