"""Measured rows with their estimates: the answer of `roofline compare --measured`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record

INSIDE = "inside the interval"


class GapExplanation(Record):
    """One change that would close a gap alone, and its size in shipped errors or as a fraction of a setting."""

    what: str
    asks: float


class MeasuredGap(Record):
    """A measured time and its estimate; `gap` is measured / expected - 1."""

    row: str
    quantity: str
    software: str
    measured_s: float
    floor_s: float
    expected_s: float
    interval_s: tuple[float, float] | None
    gap: float
    verdict: str
    explained_by: list[GapExplanation]
    phase: str | None = field(default=None, metadata=OPTIONAL)


class MeasuredAnswer(Record):
    """Every row with its estimate, and the rows that could not be compared."""

    schema: str = "roofline/measured/1"
    rows: list[MeasuredGap]
    aside: list[dict[str, float | str | None]]
    notes: list[str]
