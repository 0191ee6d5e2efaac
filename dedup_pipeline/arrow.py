"""Arrow strings as the plain buffers that kernels take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dedup_pipeline.compiled import Bytes, Int64


def string_buffers(strings: pa.Array) -> tuple[Bytes, Int64]:
    """Return the bytes and the offsets of a string or binary array.

    Args:
        strings: (large_)string, (large_)binary, their views or dictionaries, with slices and nulls.

    Returns:
        uint8 bytes, shared with the array, and int64 offsets, one more than there are strings; a null
        is an empty string.
    """
    kind = strings.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
            strings = strings.cast(pa.large_string() if _holds_text(kind) else pa.large_binary())
        width: type[np.signedinteger] = np.int64
    else:
        width = np.int32
    if len(strings) == 0:
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    if strings.null_count and _null_holds_bytes(strings, width):
        strings = strings.fill_null("" if _holds_text(strings.type) else b"")
    _, ends, content = strings.buffers()
    offsets = np.frombuffer(ends, dtype=width)[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    data = np.zeros(0, dtype=np.uint8) if content is None else np.frombuffer(content, dtype=np.uint8)
    return data, offsets


def _null_holds_bytes(strings: pa.Array, width: type[np.signedinteger]) -> bool:
    """Arrow allows a null slot to span bytes; a kernel that looks at offsets alone would read them."""
    ends = np.frombuffer(strings.buffers()[1], dtype=width)[strings.offset : strings.offset + len(strings) + 1]
    null = ~strings.is_valid().to_numpy(zero_copy_only=False)
    return bool((np.diff(ends)[null] != 0).any())


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
