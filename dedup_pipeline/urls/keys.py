"""The 128-bit keys that every seen-set works on.

A key is XXH3-128 of the UTF-8 bytes, so a ``str`` and its bytes are one key, in every process and under
every hash seed; with a secret it is SipHash-2-4, against URLs crafted to collide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_pipeline.arrow import string_buffers
from dedup_pipeline.compiled import Bool, UInt64
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.hashing import xxh3_128
from dedup_pipeline.urls.siphash import SECRET_BYTES, siphash_128

Items: TypeAlias = str | bytes | Sequence[str | bytes | None] | pa.Array | pa.ChunkedArray | npt.NDArray[np.uint64]
"""What a seen-set takes: one URL, a list, an Arrow array of strings or bytes, or ready-made keys of shape (n, 2)."""

KEYS_AT_ONCE = 1 << 15
"""Half a megabyte of keys: what one kernel writes the next still finds in the cache."""


def checked_secret(secret: bytes | None) -> bytes | None:
    """Return ``secret`` if it is None or can key SipHash.

    Raises:
        ConfigError: it is no 16 bytes.
    """
    if secret is not None and (not isinstance(secret, bytes) or len(secret) != SECRET_BYTES):
        raise ConfigError(f"secret: give {SECRET_BYTES} random bytes, for instance secrets.token_bytes({SECRET_BYTES})")
    return secret


def keys_of(items: Items, secret: bytes | None = None) -> tuple[UInt64, Bool]:
    """Return the keys of ``items``, and which of them are there at all.

    Lone surrogates in a ``str`` count as the three bytes that UTF-8 would have for them.

    Returns:
        uint64 of shape (n, 2), upper and lower half; bool of n, false where an item is null.

    Raises:
        ConfigError: an item is neither text nor bytes, or the secret has not 16 bytes.

    >>> keys, valid = keys_of(["http://example.com/", b"http://example.com/", None])
    >>> bool((keys[0] == keys[1]).all()), valid.tolist()
    (True, [True, True, False])
    """
    parts = list(key_batches(items, secret))
    if len(parts) == 1:
        return parts[0]
    keys = [part for part, _ in parts] or [np.zeros((0, 2), dtype=np.uint64)]
    valid = [part for _, part in parts] or [np.zeros(0, dtype=np.bool_)]
    return np.concatenate(keys), np.concatenate(valid)


def key_batches(items: Items, secret: bytes | None = None) -> Iterator[tuple[UInt64, Bool]]:
    """Yield the keys of ``items`` as `keys_of` returns them, at most `KEYS_AT_ONCE` at a time."""
    secret = checked_secret(secret)
    if isinstance(items, np.ndarray):
        ready = _ready_made(items)
        for start in range(0, len(ready), KEYS_AT_ONCE):
            piece = ready[start : start + KEYS_AT_ONCE]
            yield piece, np.ones(len(piece), dtype=np.bool_)
        return
    for strings in as_strings(items):
        for start in range(0, len(strings), KEYS_AT_ONCE):
            yield _hashed(strings[start : start + KEYS_AT_ONCE], secret)


def as_strings(items: Items) -> list[pa.Array]:
    """Return ``items`` as Arrow arrays of strings or bytes.

    Raises:
        ConfigError: an item is neither text nor bytes.
    """
    if isinstance(items, pa.ChunkedArray):
        return [_of_text(chunk) for chunk in items.chunks]
    if isinstance(items, pa.Array):
        return [_of_text(items)]
    if isinstance(items, str | bytes):
        items = [items]
    if isinstance(items, np.ndarray):
        raise ConfigError("ready-made keys have no host: give URLs as text")
    return [_from_list(items)]


def _of_text(strings: pa.Array) -> pa.Array:
    kind = strings.type.value_type if pa.types.is_dictionary(strings.type) else strings.type
    if pa.types.is_null(kind):
        return strings.cast(pa.string())
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        raise ConfigError(f"a seen-set takes an Arrow array of text or bytes, not of {strings.type}: cast it first")
    return strings


def _from_list(items: Sequence[str | bytes | None]) -> pa.Array:
    try:
        return pa.array(items, pa.string())
    except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError):
        pass  # bytes that are no UTF-8, lone surrogates, or no text at all
    encoded: list[bytes | None] = []
    for item in items:
        if isinstance(item, str):
            encoded.append(item.encode("utf-8", "surrogatepass"))
        elif item is None or isinstance(item, bytes):
            encoded.append(item)
        else:
            raise ConfigError(f"a seen-set takes URLs as str or bytes, not {type(item).__name__} ({item!r})")
    return pa.array(encoded, pa.large_binary())


def _hashed(strings: pa.Array, secret: bytes | None) -> tuple[UInt64, Bool]:
    data, offsets = string_buffers(strings)
    if secret is None:
        keys = xxh3_128(data, offsets)
    else:
        key_low, key_high = np.frombuffer(secret, dtype="<u8")
        keys = siphash_128(data, offsets, key_low, key_high)
    if strings.null_count:
        return keys, strings.is_valid().to_numpy(zero_copy_only=False)
    return keys, np.ones(len(strings), dtype=np.bool_)


def _ready_made(keys: npt.NDArray[np.uint64]) -> UInt64:
    if keys.dtype != np.uint64 or keys.ndim != 2 or keys.shape[1] != 2:
        raise ConfigError(f"ready-made keys are uint64 of shape (n, 2), not {keys.dtype} of shape {keys.shape}")
    return np.ascontiguousarray(keys)
