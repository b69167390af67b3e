"""Answers about sensitivity: elasticities of time, and the tornado of a ranking."""

from __future__ import annotations

import math
from dataclasses import field

from rooflinecli.core.record import Record, former

Value = float | list[float]  # a list where formats or network levels differ


class Elasticity(Record):
    """Percent change of the expected time per 1% change of a spec value or constant."""

    figure: str
    value: Value
    elasticity: float


class SensitivityAnswer(Record):
    """Elasticities of the time of each phase, strongest first."""

    schema: str
    model: str
    hardware: str
    phases: dict[str, list[Elasticity]]

    @property
    def rows(self) -> list[dict[str, object]]:
        """The elasticities of all phases in one list, as CSV has them."""
        names = ("figure", "elasticity", "value")
        return [{"phase": phase} | {n: e[n] for n in names} for phase, found in self.phases.items() for e in found]


class TornadoRow(Record):
    """A spec value or constant of one chip: the lead with it 10% lower and higher, and the nearest value at which the ranking flips.

    factor: that value over the present one; error: relative error of the constant (80%); within_error: whether the flip is within it.
    """

    chip: str
    figure: str
    value: Value
    unit: str
    lead_at_least: float
    lead_at_most: float
    factor: float | None
    flip_value: Value | None = field(metadata=former("flips_at"))
    winner_after_flip: str | None = field(metadata=former("then"))
    error: float | None
    within_error: bool = field(metadata=former("inside_error", 2))

    @property
    def distance(self) -> float:
        """How near the flip is, as a logarithm of the factor; infinite where there is none."""
        return abs(math.log(self.factor)) if self.factor else math.inf


class BreakEven(Record):
    """The price of a chip at which it costs as much as another."""

    chip: str
    against: str
    usd_per_device_hour: float
    current_value: float | None = field(metadata=former("now"))


class Tornado(Record):
    """The lead of the best candidate over the next, and which values would change it, the nearest flip first; the command that measures the constant
    that would resolve it."""

    compared: str
    first: str
    lead: float
    rows: list[TornadoRow]
    resolving_measurement: dict[str, str] | None = field(metadata=former("settles"))
    break_even: BreakEven | None
