"""What a run tells while it runs. The command line shows it; a notebook may ignore it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the stages of a run and how far each has come."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """A stage begins; ``total`` in ``unit`` where it is known."""

    def advance(self, amount: int) -> None:
        """The stage has come further by ``amount``."""

    def say(self, message: str) -> None:
        """One line worth reading now."""


class Silent:
    """Shows nothing."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Ignore the stage."""

    def advance(self, amount: int) -> None:
        """Ignore the amount."""

    def say(self, message: str) -> None:
        """Ignore the line."""
