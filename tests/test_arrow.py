"""Every layout of Arrow strings as bytes and offsets, against what the array itself says it holds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_pipeline.arrow import string_buffers

LAWS = settings(deadline=None, max_examples=200)
TEXTS = st.lists(st.none() | st.text(max_size=20), max_size=12)
LAYOUTS = {
    "string": lambda values: pa.array(values, pa.string()),
    "large string": lambda values: pa.array(values, pa.large_string()),
    "string view": lambda values: pa.array(values, pa.string_view()),
    "binary": lambda values: pa.array(_encoded(values), pa.binary()),
    "large binary": lambda values: pa.array(_encoded(values), pa.large_binary()),
    "binary view": lambda values: pa.array(_encoded(values), pa.binary_view()),
    "dictionary": lambda values: pa.array(values, pa.string()).dictionary_encode(),
    "large dictionary": lambda values: pa.array(values, pa.large_string()).dictionary_encode(),
    "dictionary of bytes": lambda values: pa.array(_encoded(values), pa.binary()).dictionary_encode(),
}


def _encoded(values: list[str | None]) -> list[bytes | None]:
    return [None if value is None else value.encode() for value in values]


def read(strings: pa.Array) -> list[bytes]:
    content, offsets = string_buffers(strings)
    assert content.dtype == np.uint8
    assert offsets.dtype == np.int64
    assert content.flags.c_contiguous
    assert len(offsets) == len(strings) + 1
    return [content[start:end].tobytes() for start, end in pairwise(offsets.tolist())]


def held(values: list[str | None]) -> list[bytes]:
    return [(value or "").encode() for value in values]


@pytest.mark.parametrize("layout", LAYOUTS)
@LAWS
@given(values=TEXTS, cut=st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_every_layout_whole_and_sliced(layout: str, values: list[str | None], cut: tuple[int, int]) -> None:
    strings = LAYOUTS[layout](values)
    assert read(strings) == held(values)
    start, end = sorted(cut)
    assert read(strings[start:end]) == held(values[start:end])
    assert read(strings[start:][:end][1:]) == held(values[start:][:end][1:])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_a_null_that_spans_bytes_is_empty(kind: pa.DataType) -> None:
    """Arrow allows bytes behind a null slot; no kernel may see them."""
    width = np.int64 if str(kind).startswith("large") else np.int32
    ends = pa.py_buffer(np.array([0, 3, 9, 12], dtype=width).tobytes())
    strings = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), ends, pa.py_buffer(b"onehiddentwo")])
    strings.validate(full=True)
    assert read(strings) == [b"one", b"", b"two"]
    assert read(strings[1:]) == [b"", b"two"]
    assert read(strings[1:2]) == [b""]
    assert read(strings[2:]) == [b"two"]


def test_offsets_need_not_begin_at_zero() -> None:
    ends = pa.py_buffer(np.array([4, 6, 9], dtype=np.int32).tobytes())
    strings = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"restabcde")])
    assert read(strings) == [b"ab", b"cde"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_bytes_are_shared_and_not_copied(kind: pa.DataType) -> None:
    strings = pa.array(["ab", None, "cde"], kind)
    for taken in (strings, strings[1:], strings[:0:1]):
        content, _ = string_buffers(taken)
        if len(taken):
            assert content.ctypes.data == strings.buffers()[2].address


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", [[], [None], ["", ""], [None, "", None]], ids=str)
def test_without_a_single_byte(layout: str, values: list[str | None]) -> None:
    assert read(LAYOUTS[layout](values)) == [b""] * len(values)


def test_an_array_of_nulls_alone() -> None:
    assert read(pa.array([None, None])) == [b"", b""]
    assert read(pa.array([None, None], pa.null())[1:]) == [b""]


def test_fixed_width_bytes() -> None:
    assert read(pa.array([b"abcd", None, b"efgh"], pa.binary(4))) == [b"abcd", b"", b"efgh"]


def test_bytes_that_are_no_utf8() -> None:
    values = [b"\xff\xfe", None, b"\xed\xa0\x80"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert read(pa.array(values, kind)) == [b"\xff\xfe", b"", b"\xed\xa0\x80"]
    assert read(pa.array(values).dictionary_encode()) == [b"\xff\xfe", b"", b"\xed\xa0\x80"]


def test_a_dictionary_with_a_null_among_its_values() -> None:
    strings = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", None, "b"]))
    assert read(strings) == [b"a", b"", b"", b"b"]


@pytest.mark.parametrize(
    "strings",
    [pa.array([1, 2]), pa.array([1.5]), pa.array([["a"]]), pa.array([{"a": "b"}])],
    ids=lambda array: str(array.type),
)
def test_what_is_no_string_is_refused(strings: pa.Array) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="cast"):
        string_buffers(strings)
