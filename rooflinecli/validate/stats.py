"""Error statistics of predictions against measurements, and the tables made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflinecli.core.record import Json, ReportTable
from rooflinecli.formulas import roofline
from rooflinecli.specs.snapshots import packaged

Array = NDArray[Any]
AT_FAULT = " (at fault)"  # after the group of rows whose source leaves out what decides them: scored apart
Row = Json  # a row of published_runs/*.yaml, or a line of a table


@dataclass
class Points:
    """Predictions and measurements of one group, in the same unit; `floor` is the bound that no measurement can beat.

    higher: True where more is better (throughput), so that the floor is a ceiling.
    """

    group: str
    measured: Array
    expected: Array
    floor: Array
    low: Array
    high: Array
    higher: bool = False

    @classmethod
    def of(cls, group: str, rows: Iterable[Sequence[float]], higher: bool = False) -> Points:
        """From rows of measured, expected, floor, low and high."""
        measured, expected, floor, low, high = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
        return cls(group, measured, expected, floor, low, high, higher)

    @classmethod
    def timed(cls, group: str, seconds: Array, rows: Array, expected: Array, floor: Array, error: float) -> Points:
        """The `rows` (a mask or indices) of an array of timings, against times of relative uncertainty `error`."""
        high = roofline.interval_high(expected, error)
        columns = (expected, floor, roofline.interval_low(expected, error, floor), high)
        expected, floor, low, high = (np.broadcast_to(x, seconds.shape)[rows] for x in columns)
        return cls(group, seconds[rows], expected, floor, low, high)

    def possible(self) -> Array:
        """Rows that physics allows (within half a percent of rounding); the others are suspect."""
        return self.measured <= self.floor * 1.005 if self.higher else self.measured >= self.floor * 0.995


@dataclass
class Table:
    """A titled list of rows, each column -> number or text; `points` are the predictions and measurements behind them, for pictures."""

    title: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    points: list[Points] = field(default_factory=list)

    def report(self) -> ReportTable:
        """The table without its points, as it is printed."""
        return ReportTable(title=self.title, rows=self.rows, notes=self.notes)


def error_table(
    title: str, groups: list[Points], notes: list[str], totals: Mapping[str, list[Points]] | None = None
) -> Table:
    """A line of error statistics for every group, then one for every total, the groups of which count as one."""
    joint = [joined(name, parts) for name, parts in ({"all": groups} if totals is None else totals).items()]
    return Table(title, [summary(p) for p in (*groups, *joint)], notes, groups)


def score(
    title: str,
    rows: Iterable[tuple[Sequence[str], Sequence[float]]],
    notes: list[str],
    *,
    subtotals: Sequence[str] = (),
    with_all: bool = True,
    ranked: bool = False,
    higher: bool = False,
) -> Table:
    """Every row by the lines it counts in and its measured, expected, floor, low and high: the lines as they come (`ranked`: by name), those of
    `subtotals` after them, then (`with_all`) one over all rows that are not at fault. Pictures show the lines that are not in `subtotals`."""
    by_line: dict[str, list[Sequence[float]]] = defaultdict(list)
    every = []
    for lines, values in rows:
        if not any(line.endswith(AT_FAULT) for line in lines):
            every.append(values)
        for line in lines:
            by_line[line].append(values)
    ordered = sorted(by_line.items(), key=itemgetter(0)) if ranked else by_line.items()
    groups = [Points.of(line, found, higher) for line, found in ordered if line not in subtotals]
    totals = {line: [Points.of(line, by_line[line], higher)] for line in subtotals if line in by_line}
    if with_all:
        totals["all"] = [Points.of("all", every, higher)]
    return error_table(title, groups, notes, totals)


def twin(setup: object, earlier: Container[object]) -> str:
    """The line of a run by whether an earlier one had the same setup: rows without are the test of what has not been seen."""
    return f"with{'' if setup in earlier else 'out'} a twin"


def summary(p: Points) -> Row:
    """Mean, median, p90 of |error|, bias, coverage of the 80% interval, and the error of the bare floor; suspect rows counted apart."""
    keep = p.possible()
    base: Row = {"group": p.group, "rows": int(keep.sum()), "suspect": int((~keep).sum())}
    if not keep.any():
        return base
    measured, expected, floor = p.measured[keep], p.expected[keep], p.floor[keep]
    inside = (p.low[keep] <= measured) & (measured <= p.high[keep])
    return base | {
        **errors(expected / measured),
        "coverage": float(inside.mean()),
        "floor_mean": float(np.abs(floor / measured - 1).mean()),
        "below_floor": int(((expected < floor) if not p.higher else (expected > floor)).sum()),
    }


def errors(ratio: Array) -> dict[str, float]:
    """Mean, median, p90 of |ratio - 1| and bias of predicted over measured."""
    error = np.abs(ratio - 1)
    return {
        "mean": float(error.mean()),
        "median": float(np.median(error)),
        "p90": float(np.quantile(error, 0.9)),
        "bias": float(np.exp(np.log(ratio).mean()) - 1),
    }


def joined(group: str, parts: list[Points]) -> Points:
    """Several groups as one."""
    columns = ("measured", "expected", "floor", "low", "high")
    measured, expected, floor, low, high = (np.concatenate([getattr(p, name) for p in parts]) for name in columns)
    return Points(group, measured, expected, floor, low, high, parts[0].higher)


def fit_half(*columns: Array) -> Array:
    """True for the half of the rows that a fit may see: a 64-bit hash of the shape (splitmix64), so that equal shapes stay together."""
    with np.errstate(over="ignore"):
        state = np.zeros(len(columns[0]), dtype=np.uint64)
        for column in columns:
            state = (state ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    seen: Array = (state & np.uint64(1)) == 0
    return seen


def notes(name: str) -> list[str]:
    """Notes of a table or class, of notes.yaml."""
    found: list[str] = packaged(__file__, "notes")[name]
    return found
