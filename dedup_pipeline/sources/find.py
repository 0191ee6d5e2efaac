"""Which files an input argument stands for, and what they are called."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xxhash

from dedup_pipeline.errors import ConfigError, InputError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        name: what it is called in every output: valid UTF-8, ``/`` between folders.
        path: absolute path, as the operating system takes it (undecodable bytes as surrogates).
        size: bytes on disk when it was found.
    """

    name: str
    path: str
    size: int


def find_sources(inputs: Sequence[str]) -> list[Source]:
    """The files that ``inputs`` stand for, sorted by the UTF-8 bytes of their names.

    An input is a file, a folder or a glob; an existing path is never taken for a glob, and each match
    of a glob counts as if it had been typed (``**`` crosses folders). A file is called by its last name,
    a file of a folder by the folder's last name and its path inside, joined by ``/``. Folders are searched to the
    bottom; inside them, symbolic links are not followed, names that begin with ``.`` or ``_`` are passed
    over (checkpoints, markers such as ``_SUCCESS``), and so is what is no regular file. Bytes of a file name that
    are no UTF-8 appear as ``%XX`` in `Source.name`.

    Raises:
        ConfigError: two files of one name, or one file named twice.
        InputError: an input that is missing, unreadable or empty of files.
    """
    found: dict[str, Source] = {}
    for argument in inputs:
        count = 0
        for path in _expand(argument):
            for source in _files_of(path):
                count += 1
                other = found.get(source.name)
                if other is not None:
                    raise ConfigError(
                        f"two sources are called {source.name!r}: {printable(other.path)} and "
                        f"{printable(source.path)}. Name each file once; of two, name the folders."
                    )
                found[source.name] = source
        if not count:
            raise InputError(f"no file found in {printable(argument)}. Name a file, a folder with files, or a glob.")
    if not found:
        raise InputError("no input was named. Name at least one file, folder or glob.")
    return sorted(found.values(), key=lambda source: source.name.encode())


def digest_source(source: Source) -> str:
    """The xxh3_128 hex digest of the bytes of a file.

    Raises:
        InputError: the file cannot be read.
    """
    digest = xxhash.xxh3_128()
    try:
        with open(source.path, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{source.name}: cannot be read ({error.strerror}). Check the file and its rights.") from error
    return digest.hexdigest()


def printable(path: str) -> str:
    r"""``path`` as valid text: bytes that are no UTF-8 appear as ``%XX``, other surrogates as U+FFFD.

    >>> printable("caf\udce9.jsonl")
    'caf%E9.jsonl'
    """
    return "".join(_printable_character(character) for character in path)


def _printable_character(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"%{code - 0xDC00:02X}"
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code <= 0xDFFF else character


def _expand(argument: str) -> list[str]:
    if not argument or "\0" in argument:
        raise InputError(f"{printable(argument)!r} is no path. Name a file, a folder or a glob.")
    try:
        if os.path.lexists(argument):
            return [argument]
        matches = sorted(glob.glob(argument, recursive=True), key=os.fsencode) if glob.has_magic(argument) else []
    except (OSError, ValueError, UnicodeError) as error:
        raise InputError(f"{printable(argument)} cannot be looked up ({error}). Check the path.") from error
    if not matches:
        raise InputError(f"{printable(argument)} does not exist. Check the path.")
    return matches


def _files_of(path: str) -> Iterator[Source]:
    absolute = os.path.abspath(path)
    name = os.path.basename(absolute)
    try:
        status = os.stat(absolute)
    except OSError as error:
        raise InputError(f"{printable(absolute)} cannot be read ({error.strerror}). Check the path.") from error
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(absolute, name)
    elif stat.S_ISREG(status.st_mode):
        yield Source(printable(name), absolute, status.st_size)
    else:
        raise InputError(f"{printable(absolute)} is neither a file nor a folder. Name a file or a folder.")


def _walk(folder: str, prefix: str) -> Iterator[Source]:
    waiting = [(folder, prefix)]
    while waiting:
        folder, prefix = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise InputError(
                f"the folder {printable(folder)} cannot be read ({error.strerror}). Check its rights."
            ) from error
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, name))
                elif entry.is_file(follow_symlinks=False):
                    yield Source(printable(name), entry.path, entry.stat(follow_symlinks=False).st_size)
            except OSError as error:
                raise InputError(
                    f"{printable(entry.path)} cannot be read ({error.strerror}). Check the file."
                ) from error
