"""Keys: the same in every process and for every form of the same bytes; secret ones as the reference says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.keys import KEYS_AT_ONCE, as_strings, key_batches, keys_of
from dedup_pipeline.urls.protocol import secret_mark

SECRET = bytes(range(16))


def integers(keys: np.ndarray[Any, Any]) -> list[int]:
    """Return keys as numbers of 128 bits."""
    return [int(high) << 64 | int(low) for high, low in keys]


def digest(keys: np.ndarray[Any, Any]) -> list[str]:
    """Return SipHash keys as the reference writes its 16 bytes."""
    return [int(low).to_bytes(8, "little").hex() + int(high).to_bytes(8, "little").hex() for high, low in keys]


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_a_key_is_the_xxh3_of_the_bytes(items: list[bytes]) -> None:
    keys, valid = keys_of(items)
    assert integers(keys) == [xxhash.xxh3_128_intdigest(item) for item in items]
    assert valid.all()


@given(st.lists(st.text(max_size=30), max_size=20))
def test_text_and_bytes_and_arrow_are_one_key(items: list[str]) -> None:
    encoded = [item.encode("utf-8", "surrogatepass") for item in items]
    as_text, _ = keys_of(items)
    for other in (encoded, pa.array(encoded, pa.binary()), pa.array(encoded, pa.large_binary()).dictionary_encode()):
        assert integers(keys_of(other)[0]) == integers(as_text)


def test_a_lone_surrogate_counts_as_the_bytes_utf8_would_have_for_it() -> None:
    assert integers(keys_of(["\ud800"])[0]) == [xxhash.xxh3_128_intdigest(b"\xed\xa0\x80")]


def test_a_single_item_is_no_sequence_of_letters() -> None:
    assert len(keys_of("abc")[0]) == len(keys_of(b"abc")[0]) == 1


def test_nulls_are_there_but_not_valid() -> None:
    for items in (["a", None], [b"\xff", None], pa.array(["a", None]), pa.chunked_array([["a"], [None]])):
        keys, valid = keys_of(items)
        assert valid.tolist() == [True, False]
        assert len(keys) == 2


@pytest.mark.parametrize("nothing", [[], pa.array([], pa.string()), pa.array([None, None]), pa.nulls(3, pa.string())])
def test_nothing_but_nulls_gives_nothing_valid(nothing: Any) -> None:
    keys, valid = keys_of(nothing)
    assert len(keys) == len(nothing)
    assert not valid.any()


def test_ready_made_keys_pass_as_they_are() -> None:
    ready = np.arange(20, dtype=np.uint64).reshape(10, 2)
    keys, valid = keys_of(ready)
    assert (keys == ready).all()
    assert valid.all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.zeros((3, 2), np.int64), "ready-made keys are uint64"),
        (np.zeros(3, np.uint64), "ready-made keys are uint64"),
        (np.zeros((3, 3), np.uint64), "ready-made keys are uint64"),
        ([1, 2], "str or bytes, not int"),
        (["a", 2], "str or bytes, not int"),
        (pa.array([1, 2]), "not of int64"),
        (pa.array([["a"]]), "not of list"),
    ],
)
def test_what_is_no_url_is_refused_by_name(wrong: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        keys_of(wrong)


def test_ready_made_keys_have_no_text() -> None:
    with pytest.raises(ConfigError, match="no host"):
        as_strings(np.zeros((1, 2), np.uint64))


def test_batches_are_bounded_and_in_order() -> None:
    count = 2 * KEYS_AT_ONCE + 17
    items = pa.array([f"http://example.com/{n}" for n in range(count)])
    parts = [keys for keys, _ in key_batches(items)]
    assert [len(part) for part in parts] == [KEYS_AT_ONCE, KEYS_AT_ONCE, 17]
    assert (np.concatenate(parts) == keys_of(items)[0]).all()
    ready = keys_of(items)[0]
    assert max(len(part) for part, _ in key_batches(ready)) == KEYS_AT_ONCE


def test_siphash_is_the_references() -> None:
    # vectors_sip128 of the reference implementation, lengths 0 and 15, key 00 01 ... 0f.
    keys, _ = keys_of([b"", bytes(range(15))], SECRET)
    assert digest(keys) == ["a3817f04ba25a8e66df67214c7550293", "5493e99933b0a8117e08ec0f97cfc3d9"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("length", [1, 7, 8, 9, 63, 64, 300])
def test_siphash_is_what_openssl_computes(length: int, tmp_path: Path) -> None:
    content = bytes((7 * at + length) & 0xFF for at in range(length))
    (tmp_path / "content").write_bytes(content)
    told = subprocess.run(
        ["openssl", "mac", "-macopt", f"hexkey:{SECRET.hex()}", "-macopt", "size:16", "-in", tmp_path / "content"]
        + ["SIPHASH"],
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        pytest.skip(f"this openssl has no SipHash: {told.stderr.strip()}")
    assert digest(keys_of([content], SECRET)[0]) == [told.stdout.strip().lower()]


def test_another_secret_gives_other_keys() -> None:
    plain, one, other = (integers(keys_of("http://example.com/", secret)[0]) for secret in (None, SECRET, bytes(16)))
    assert len({*plain, *one, *other}) == 3


@pytest.mark.parametrize("wrong", [b"short", b"", "sixteen letters!", bytes(17)])
def test_a_secret_of_another_length_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="16 random bytes"):
        keys_of("a", wrong)


def test_the_mark_of_a_secret_is_not_the_secret() -> None:
    assert secret_mark(None) is None
    mark = secret_mark(SECRET)
    assert mark == secret_mark(SECRET) != secret_mark(bytes(16))
    assert SECRET.hex() not in str(mark)


def test_keys_do_not_depend_on_the_process() -> None:
    code = "from dedup_pipeline.urls.keys import keys_of; print(keys_of('http://example.com/')[0].tolist())"
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert told == {f"{keys_of('http://example.com/')[0].tolist()}\n"}
