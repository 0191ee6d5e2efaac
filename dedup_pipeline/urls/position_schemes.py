"""Filters that others wrote: opened by the rule that says where a key's bits stand.

Each scheme also states its bit order, that is which bit of a byte position 0 is: ``lsb`` the least
significant one, ``msb`` the most significant one, as Redis numbers bits.

- ``polynomial``: positions (h1 + i h2) mod m, where h1 = h1 * 31 + c mod 1,000,000,007 and
  h2 = h2 * 37 + c mod 1,000,000,009 over the character codes c, both from 0. ``lsb``.
- ``blake2b_double``: the 16-byte BLAKE2b of the UTF-8 bytes as two big-endian 64-bit numbers, the second made
  odd; positions (h1 + i h2) mod m. ``msb``.
- ``murmur3_seeds``: the signed 32-bit MurmurHash3 of the UTF-8 bytes with seed i, mod m. ``lsb``.

They go item by item: for opening what exists, not for building anew.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dedup_pipeline.compiled import Bool, Bytes
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.keys import Items, as_strings
from dedup_pipeline.urls.protocol import Arrays, SeenReport, check_union

_MASK32 = 0xFFFFFFFF


def polynomial(item: bytes, m: int, k: int) -> list[int]:
    """Return the positions of the scheme ``polynomial``.

    >>> polynomial(b"cats.io", 16, 3)
    [1, 2, 3]
    """
    first = second = 0
    for code in map(ord, item.decode("utf-8", "surrogatepass") if _is_text(item) else item.decode("latin-1")):
        first = (first * 31 + code) % 1_000_000_007
        second = (second * 37 + code) % 1_000_000_009
    return [(first + index * second) % m for index in range(k)]


def _is_text(item: bytes) -> bool:
    try:
        item.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def blake2b_double(item: bytes, m: int, k: int) -> list[int]:
    """Return the positions of the scheme ``blake2b_double``."""
    digest = hashlib.blake2b(item, digest_size=16).digest()
    first, second = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    return [(first + index * second) % m for index in range(k)]


def murmur3_seeds(item: bytes, m: int, k: int) -> list[int]:
    """Return the positions of the scheme ``murmur3_seeds``; a negative hash counts from the end, as in Python."""
    return [murmur3_32(item, seed) % m for seed in range(k)]


def murmur3_32(item: bytes, seed: int) -> int:
    """Return MurmurHash3_x86_32 (Appleby, ``MurmurHash3.cpp``) as a signed number.

    >>> murmur3_32(b"", 0), murmur3_32(b"hello", 0)
    (0, 613153351)
    """
    state = seed & _MASK32
    whole = len(item) & ~3
    for at in range(0, whole, 4):
        state ^= _murmur_word(int.from_bytes(item[at : at + 4], "little"))
        state = (state << 13 | state >> 19) & _MASK32
        state = (state * 5 + 0xE6546B64) & _MASK32
    if whole < len(item):
        state ^= _murmur_word(int.from_bytes(item[whole:], "little"))
    state ^= len(item)
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK32
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK32
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _murmur_word(word: int) -> int:
    word = (word * 0xCC9E2D51) & _MASK32
    word = (word << 15 | word >> 17) & _MASK32
    return (word * 0x1B873593) & _MASK32


Positions = Callable[[bytes, int, int], list[int]]

SCHEMES: dict[str, tuple[Positions, str]] = {
    "polynomial": (polynomial, "lsb"),
    "blake2b_double": (blake2b_double, "msb"),
    "murmur3_seeds": (murmur3_seeds, "lsb"),
}
"""By name: where a key's bits stand, and the bit order of the bytes."""


class SeenFilter:
    """A plain Bloom filter of ``m`` bits and ``k`` positions by a named scheme.

    Args:
        m: bits.
        k: positions of a key.
        scheme: ``polynomial``, ``blake2b_double`` or ``murmur3_seeds``.

    Raises:
        ConfigError: no such scheme, or a number below 1.

    >>> seen = SeenFilter(16, 3)
    >>> seen.add(["cats.io", "dogs.io", "owls.io"]).tolist(), seen.bits_set
    ([True, True, True], 9)
    >>> seen.might_contain("bats.io"), seen.might_contain("yaks.io")
    (True, False)
    """

    def __init__(self, m: int, k: int, scheme: str = "polynomial") -> None:
        if scheme not in SCHEMES:
            raise ConfigError(f"scheme = {scheme!r}: give one of {', '.join(SCHEMES)}")
        if m < 1 or k < 1:
            raise ConfigError(f"m = {m}, k = {k}: a filter has at least 1 bit and 1 position")
        self.m, self.k, self.scheme = m, k, scheme
        self._positions, self._order = SCHEMES[scheme]
        self._bytes: Bytes = np.zeros(-(-m // 8), dtype=np.uint8)
        self._inserted = 0
        self._estimated = False

    @property
    def kind(self) -> str:
        """``scheme``."""
        return "scheme"

    @classmethod
    def from_bytes(
        cls, content: bytes, m: int, k: int, scheme: str = "polynomial", *, bit_order: str | None = None
    ) -> Self:
        """Return the filter whose bits ``content`` holds.

        Args:
            content: the bits; a Redis bitmap may lack zero bytes at its end.
            m: bits.
            k: positions of a key.
            scheme: as for the class.
            bit_order: ``lsb`` or ``msb``; None for the order that the scheme states.

        Raises:
            ConfigError: more bytes than ``m`` bits need, a bit beyond ``m``, or an unknown scheme or order.
        """
        made = cls(m, k, scheme)
        made._order = made._order if bit_order is None else bit_order
        if made._order not in ("lsb", "msb"):
            raise ConfigError(f"bit_order = {bit_order!r}: give lsb or msb")
        given = np.frombuffer(content, dtype=np.uint8)
        if len(given) > len(made._bytes):
            raise ConfigError(f"m = {m} bits fill {len(made._bytes):,} bytes, but {len(given):,} were given")
        made._bytes[: len(given)] = given
        bits = np.unpackbits(made._bytes, bitorder="little" if made._order == "lsb" else "big")
        if bits[m:].any():
            raise ConfigError(f"a bit beyond m = {m} is set: m or bit_order = {made._order!r} is not that filter's")
        estimate = made._estimate()
        made._inserted = round(min(estimate, m))
        made._estimated = True
        return made

    def to_bytes(self) -> bytes:
        """Return the bits, in this filter's bit order."""
        return self._bytes.tobytes()

    def _places(self, item: bytes) -> list[tuple[int, int]]:
        places = self._positions(item, self.m, self.k)
        if self._order == "lsb":
            return [(place >> 3, 1 << (place & 7)) for place in places]
        return [(place >> 3, 128 >> (place & 7)) for place in places]

    def add(self, items: Items) -> Bool:
        """Mark ``items`` as seen; return a bool array, true where an item was new."""
        new: list[bool] = []
        for item in _each(items):
            places = [] if item is None else self._places(item)
            new.append(any(not self._bytes[at] & bit for at, bit in places))
            for at, bit in places:
                self._bytes[at] |= bit
        self._inserted += sum(new)
        return np.array(new, dtype=np.bool_)

    def contains(self, items: Items) -> Bool:
        """Return a bool array, true where an item may have been seen."""
        found = [
            item is not None and all(self._bytes[at] & bit for at, bit in self._places(item)) for item in _each(items)
        ]
        return np.array(found, dtype=np.bool_)

    def might_contain(self, item: str | bytes) -> bool:
        """Return whether one item may have been seen; False is certain."""
        return bool(self.contains(item)[0])

    def __contains__(self, item: str | bytes) -> bool:
        return self.might_contain(item)

    @property
    def bits_set(self) -> int:
        """How many bits are set."""
        return int(np.bitwise_count(self._bytes).sum())

    def __len__(self) -> int:
        return self._inserted

    def _estimate(self) -> float:
        fill = self.bits_set / self.m
        return math.inf if fill >= 1.0 else math.log1p(-fill) / (self.k * math.log1p(-1.0 / max(self.m, 2)))

    def describe(self) -> SeenReport:
        """Return fill and errors; the error rate is fill^k, the share of absent keys whose bits are all set."""
        fill = self.bits_set / self.m
        return SeenReport(
            kind=self.kind,
            capacity=None,
            inserted=self._inserted,
            fill=fill,
            error_rate=fill**self.k,
            final_error_rate=1.0,
            expected_lost=self._inserted * fill**self.k / (self.k + 1),
            bytes=self._bytes.nbytes,
            estimated=self._estimated,
        )

    def union(self, other: Self) -> Self:
        """Return a filter with the bits of both.

        Raises:
            ConfigError: naming the parameter that differs.
        """
        check_union(self, other)
        return type(self).from_bytes(
            (self._bytes | other._bytes).tobytes(), self.m, self.k, self.scheme, bit_order=self._order
        )

    def parameters(self) -> dict[str, Any]:
        """Return m, k, scheme and bit order."""
        return {"m": self.m, "k": self.k, "scheme": self.scheme, "bit_order": self._order}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the bytes and the counts."""
        return {"bytes": self._bytes, "counts": np.array([self._inserted, self._estimated], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, parameters: dict[str, Any], arrays: Arrays, secret: bytes | None = None) -> Self:
        """Return the filter that `parameters` and `to_arrays` describe.

        Raises:
            ConfigError: they do not belong together, or a secret is given, which these schemes do not have.
        """
        if secret is not None:
            raise ConfigError("secret: the position schemes have none")
        made = cls.from_bytes(
            arrays["bytes"].tobytes(),
            parameters["m"],
            parameters["k"],
            parameters["scheme"],
            bit_order=parameters["bit_order"],
        )
        made._inserted, made._estimated = int(arrays["counts"][0]), bool(arrays["counts"][1])
        return made


def _each(items: Items) -> Sequence[bytes | None]:
    encoded: list[bytes | None] = []
    for strings in as_strings(items):
        encoded.extend(
            item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item for item in strings.to_pylist()
        )
    return encoded
