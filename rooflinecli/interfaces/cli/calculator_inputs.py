"""Quantities with units of `roofline profile`, and the chip they override."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.completion import chips, on_tab

HW = typer.Option(
    None,
    "--hw",
    metavar="NAME",
    help="Chip: a name, alias or YAML path. Gives the peak and the price.",
    autocompletion=on_tab(chips),
)
_BARE = {"FLOP", "B", "USD", "USD/h", "s", "tokens/s"}  # SI already; a rate of a machine says its unit


class Reader:
    """Turns option text into SI numbers; for --explain into traced leaves that name their option."""

    def __init__(self, explain: str | None = None):
        from rooflinecli.core.lift import PLAIN, TracedLift

        self.lift = PLAIN if explain is None else TracedLift()

    def __call__(
        self, flag: str, text: Any, unit: str, symbol: str, *, at_most: float | None = None, zero: bool = False
    ) -> Any:
        if text is None:
            return None
        value = quantity(flag, text, unit)
        if value < 0 or (value == 0 and not zero):
            raise UsageError(f"{flag} {text}: must be above zero; give a positive number")
        if at_most is not None and value > at_most:
            from rooflinecli.core.errors import ImpossibleValue

            raise ImpossibleValue(f"{flag} {text}: impossible, it cannot exceed {at_most:g}; give a share of 0 to 1")
        return self.leaf(symbol, value, unit, flag)

    def leaf(self, symbol: str, value: float, unit: str, source: str) -> Any:
        return self.lift(symbol, value, unit, source)


def chip(read: Reader, name: str, override: dict[str, Any] | None = None) -> Any:
    """The chip's numbers, traced when the answer is to be explained; `override` replaces figures by dotted path."""
    from rooflinecli.price.chip import Chip
    from rooflinecli.specs.hardware import load_hardware

    return Chip(load_hardware(name), read.lift, override=override)


def quantity(flag: str, text: str | float, unit: str) -> float:
    """The SI value of an option; a bare number is taken as SI already ("1e22", "0.4")."""
    try:
        value = _parse(text, unit)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if value and not 1e-40 < abs(value) < 1e40:
        raise UsageError(f"{flag} {text}: beyond what can be calculated; give a number between 1e-40 and 1e40")
    return value


def _parse(text: str | float, unit: str) -> float:
    from rooflinecli.core import units

    try:
        return units.parse(text, unit)
    except ValueError:
        if unit not in _BARE:
            raise
        try:
            return float(text)
        except ValueError:
            pass
        raise
