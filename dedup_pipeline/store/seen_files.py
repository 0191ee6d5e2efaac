r"""Saved seen-sets: one file each, checked whole when it is opened.

::

    8 bytes   magic "DDSEEN\r\n": a file that went through a text conversion does not pass
    4 bytes   format version, little-endian
    8 bytes   length of the header
    header    JSON: kind, parameters, and name, type, shape, place and checksum of each array
    16 bytes  XXH3-128 of everything before
    arrays    each from a multiple of 64 bytes on

No pickle: nothing in a file is executed. The secret is not in it, only a mark that tells secrets apart.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from dedup_pipeline.errors import ConfigError, StateError
from dedup_pipeline.store.scratch import writing
from dedup_pipeline.urls.keys import checked_secret
from dedup_pipeline.urls.protocol import Saveable, SeenSet, secret_mark
from dedup_pipeline.urls.seen import KINDS, restore

_MAGIC = b"DDSEEN\r\n"
_VERSION = 1
_ALIGNMENT = 64
_CHUNK = 1 << 22
_HEAD = struct.Struct("<8sIQ")
_MOST_HEADER = 1 << 24
_MAPPED = ("exact", "confirmed")
"""Kinds that only read their arrays, so that a set larger than memory can be opened."""


def save_seen(seen: SeenSet, path: str | os.PathLike[str]) -> None:
    """Write a seen-set to one file, which is there whole or not at all.

    Raises:
        ConfigError: this kind lives elsewhere, for instance on a server.
        OutputError: the disk refused.
    """
    if seen.kind not in KINDS or not isinstance(seen, KINDS[seen.kind]):
        raise ConfigError(f"a seen-set of kind {seen.kind!r} cannot be saved: it lives where it is")
    kept: Saveable = seen
    target = Path(path)
    arrays = {name: np.ascontiguousarray(array) for name, array in kept.to_arrays().items()}
    entries: list[dict[str, Any]] = []
    place = 0
    for name, array in arrays.items():
        place += -place % _ALIGNMENT
        digest = xxhash.xxh3_128(array.data if array.size else b"").hexdigest()
        entries.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "place": place,
                "bytes": array.nbytes,
                "xxh3_128": digest,
            }
        )
        place += array.nbytes
    header = json.dumps({"kind": kept.kind, "parameters": kept.parameters(), "arrays": entries}).encode()
    begin = _HEAD.pack(_MAGIC, _VERSION, len(header)) + header
    begin += xxhash.xxh3_128(begin).digest()
    begin += bytes(-len(begin) % _ALIGNMENT)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with writing(target):
        try:
            with open(partial, "wb") as file:
                file.write(begin)
                for entry, array in zip(entries, arrays.values(), strict=True):
                    file.write(bytes(len(begin) + entry["place"] - file.tell()))
                    file.write(array.data if array.size else b"")
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
            _sync_folder(target.parent)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_seen(
    path: str | os.PathLike[str], expect: Mapping[str, Any] | None = None, secret: bytes | None = None
) -> Saveable:
    """Return the seen-set that a file holds.

    Args:
        path: the file.
        expect: ``kind`` and parameters that it must have, for instance ``{"kind": "bloom", "error_rate": 1e-4}``.
        secret: the secret it was made with.

    Raises:
        StateError: no such file, damaged, of another version, or made with other parameters or another secret.
    """
    secret = checked_secret(secret)
    path = Path(path)
    try:
        with open(path, "rb") as file:
            header, begin = _header(file, path)
            _check_expected(path, header, expect or {}, secret)
            size = os.fstat(file.fileno()).st_size
            mapped = header["kind"] in _MAPPED
            arrays = {entry["name"]: _array(file, path, entry, begin, size, mapped) for entry in header["arrays"]}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}. Name a file written by save_seen.") from None
    try:
        return restore(header["kind"], header["parameters"], arrays, secret)
    except (ConfigError, KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"{path}: {error}. It was not written by this version; build it again.") from None


def describe_file(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return kind and parameters of a saved seen-set without reading its content.

    Raises:
        StateError: no such file, damaged, or of another version.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            header, _ = _header(file, path)
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}. Name a file written by save_seen.") from None
    return str(header["kind"]), dict(header["parameters"])


def _header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    """Return the header and where the arrays begin."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise StateError(f"{path}: no saved seen-set: it does not begin with {_MAGIC!r}. Name a file of save_seen.")
    _, version, length = _HEAD.unpack(head)
    if version != _VERSION:
        raise StateError(
            f"{path}: written in format {version}, this version reads {_VERSION}. Build it again, or use the version "
            "that wrote it."
        )
    content = file.read(min(length, _MOST_HEADER))
    digest = file.read(16)
    if len(content) != length or xxhash.xxh3_128(head + content).digest() != digest:
        raise StateError(f"{path}: the header is damaged or cut short. Restore the file from a copy.")
    begin = file.tell()
    header: dict[str, Any] = json.loads(content)
    return header, begin + -begin % _ALIGNMENT


def _check_expected(path: Path, header: dict[str, Any], expect: Mapping[str, Any], secret: bytes | None) -> None:
    saved = {"kind": header["kind"], **header["parameters"]}
    for name, value in expect.items():
        if name not in saved:
            raise StateError(f"{path}: it has no parameter {name!r}; it has {', '.join(saved)}.")
        if saved[name] != value:
            raise StateError(
                f"{path}: {name} is {saved[name]!r} there, but {value!r} was asked for. Ask for what it was made with, "
                "or build it again."
            )
    if "secret" in saved and saved["secret"] != secret_mark(secret):
        made = "without a secret" if saved["secret"] is None else "with another secret" if secret else "with a secret"
        raise StateError(f"{path}: secret differs: it was made {made}. Give the one it was made with.")


def _array(file: BinaryIO, path: Path, entry: dict[str, Any], begin: int, size: int, mapped: bool) -> npt.NDArray[Any]:
    """Return one array, checked against its digest."""
    start, shape = begin + entry["place"], tuple(entry["shape"])
    if start + entry["bytes"] > size:
        raise StateError(
            f"{path}: cut short: {entry['name']} ends at byte {start + entry['bytes']:,}, the file at {size:,}. "
            "Restore the file from a copy."
        )
    digest = xxhash.xxh3_128()
    if entry["bytes"] == 0:
        array: npt.NDArray[Any] = np.zeros(shape, dtype=entry["dtype"])
    elif mapped:
        array = np.memmap(path, dtype=entry["dtype"], mode="r", offset=start, shape=shape).view(np.ndarray)
    else:
        array = np.empty(shape, dtype=entry["dtype"])
        file.seek(start)
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(file.read(entry["bytes"]), dtype=np.uint8)
    flat = array.reshape(-1).view(np.uint8)
    for at in range(0, len(flat), _CHUNK):
        digest.update(flat[at : at + _CHUNK].data)
    if digest.hexdigest() != entry["xxh3_128"]:
        raise StateError(
            f"{path}: the checksum of {entry['name']} (bytes {start:,} to {start + entry['bytes']:,}) differs: the "
            "file is damaged. Restore it from a copy."
        )
    return array
