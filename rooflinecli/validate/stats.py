"""Errors of predictions against measurements, as one row of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray of float64


@dataclass
class Points:
    """Predictions and measurements of one group, in the same unit; `floor` is what no measurement can beat.

    higher: True where more is better (throughput), so that the floor is a ceiling.
    """

    group: str
    measured: Array
    expected: Array
    floor: Array
    low: Array
    high: Array
    higher: bool = False
    note: str = ""

    @classmethod
    def of(cls, group: str, rows: Iterable[Sequence[float]], higher: bool = False) -> Points:
        """From rows of measured, expected, floor, low and high."""
        measured, expected, floor, low, high = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
        return cls(group, measured, expected, floor, low, high, higher)

    def possible(self) -> Array:
        """Rows that physics allows (within half a percent of rounding); the others are suspect."""
        return self.measured <= self.floor * 1.005 if self.higher else self.measured >= self.floor * 0.995


@dataclass
class Table:
    """A titled list of rows, each a dict of column -> number or text; `points` are what the rows sum up, for pictures."""

    title: str
    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    points: list[Points] = field(default_factory=list)


def summary(p: Points) -> dict[str, Any]:
    """Mean, median, p90 of |error|, bias, coverage of the 80% interval, and the error of the bare floor; suspect rows counted apart."""
    keep = p.possible()
    base: dict[str, Any] = {"group": p.group, "rows": int(keep.sum()), "suspect": int((~keep).sum())}
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

    def cat(name: str) -> Array:
        return np.concatenate([getattr(p, name) for p in parts])

    return Points(group, cat("measured"), cat("expected"), cat("floor"), cat("low"), cat("high"), parts[0].higher)


def half(*columns: Array) -> Array:
    """True for the half of the rows that a fit may see: a 64-bit hash of the shape (splitmix64), so that equal shapes stay together."""
    with np.errstate(over="ignore"):
        state = np.zeros(len(columns[0]), dtype=np.uint64)
        for column in columns:
            state = (state ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return (state & np.uint64(1)) == 0


def half_by_name(name: str) -> bool:
    """Whether a fit may see what goes by this name: the first bit of its SHA-256."""
    return hashlib.sha256(name.encode()).digest()[0] < 128
