"""Which layouts of a search for training are rows: those with precedent only, each by itself, or the best of every split."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError


@dataclass(frozen=True)
class RowFilter:
    """practised: only layouts like published ones; every: each layout a row of its own."""

    has_precedent: bool = False
    every: bool = False

    def refuse(self) -> None:
        """Raises UsageError where either was asked for."""
        name = "practised" if self.has_precedent else "all" if self.every else ""
        if name:
            raise UsageError(f"--{name} belongs to training; leave it out, or add --phase train", name)


EVERYTHING = RowFilter()
