"""The errors of dedup_pipeline, one tree.

::

    DedupError                     anything this package raises on purpose
    ├── ConfigError                2  a wrong option, key or combination
    │   └── FilterFull                a Bloom filter that holds as many keys as it was made for
    ├── InputError                 3  an input that cannot be used
    │   ├── SourceBroken              truncated, unreadable, not what it claims to be
    │   ├── SchemaMismatch            two sources disagree on a column
    │   ├── TooManyBadRecords         more quarantined records than allowed
    │   └── SafetyStop                the near stage would remove suspiciously much
    ├── StateError                 4  a state folder that cannot be trusted or used
    ├── OutputError                5  the output cannot be written or read
    └── BackendError               6  an engine or service failed

The number is the exit code of the command line. Every message says what is wrong, where
(file, and record where there is one), and what to do about it.
"""

from __future__ import annotations

from typing import Any


class DedupError(Exception):
    """Base of every error raised on purpose; ``exit_code`` is what the command line ends with."""

    exit_code: int = 1


class ConfigError(DedupError):
    """A configuration that cannot be run: all problems found stand in one message."""

    exit_code = 2


class FilterFull(ConfigError):
    """A Bloom filter of fixed size holds as many keys as it was made for; another would break its error rate.

    Attributes:
        kind: kind of the filter.
        capacity: keys it was made for.
        position: the item at which it stopped; those before are marked as seen.
        new: bool array of the items before ``position``, true where one was new; None where nobody counted.
    """

    def __init__(self, kind: str, capacity: int, position: int, new: Any = None) -> None:
        self.kind = kind
        self.capacity = capacity
        self.position = position
        self.new = new
        super().__init__(
            f"the {kind} filter is full: it was made for {capacity:,} keys and item {position:,} of the batch is "
            "another one. Make it with a larger capacity, or take one that grows: ScalableBloomFilter, ConfirmedBloom "
            "or ExactSet."
        )


class InputError(DedupError):
    """An input that is missing, unreadable, or lacks what the configuration asks of it."""

    exit_code = 3


class SourceBroken(InputError):
    """A source that cannot be read to its end.

    Raised by readers after everything that was whole has been handed on.

    Attributes:
        source: name of the source.
        position: position at which the first unusable record would have stood.
        reason: short stable word, for instance ``truncated`` or ``checksum``.
        detail: one sentence with offsets or the library's own words.

    The message ends with ``remedy``, by default what helps with a damaged file.
    """

    def __init__(self, source: str, position: int, reason: str, detail: str, remedy: str = "") -> None:
        self.source = source
        self.position = position
        self.reason = reason
        self.detail = detail
        remedy = remedy or (
            'Repair or remove the file, or set safety.broken_sources = "quarantine" to use what is whole before that '
            "point."
        )
        super().__init__(f"{source}: {reason} at record {position}: {detail}. {remedy}")


class SchemaMismatch(InputError):
    """Two sources give one column different types."""


class TooManyBadRecords(InputError):
    """More records were unusable than ``safety.max_bad_fraction`` allows."""


class SafetyStop(InputError):
    """The near stage would remove more than ``[safety]`` allows; nothing was published."""


class StateError(DedupError):
    """A state folder that is damaged, locked, of another version or of another configuration."""

    exit_code = 4


class OutputError(DedupError):
    """An output folder that cannot be written, replaced or read."""

    exit_code = 5


class BackendError(DedupError):
    """An engine or a service failed."""

    exit_code = 6
