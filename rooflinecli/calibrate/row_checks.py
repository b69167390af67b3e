"""Implausible rows: faster than the floor, at odds with a repeat, or outliers of the fit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from rooflinecli.calibrate.posterior import Array, Posterior, weights
from rooflinecli.calibrate.predicted_row import MicrobenchmarkRow, PredictedRow, static
from rooflinecli.core.units import duration
from rooflinecli.engine.evaluate import SHIPPED

ROUNDING = 0.995  # of a floor: what rounding in a log may take off
SIGMAS = 4.0  # from which a row is an outlier
REPEATED = 0.15  # of the logarithm: how far two rows of one question may differ


@dataclass(frozen=True)
class RowContradiction:
    """A row, what is wrong with it, and whether it was left out."""

    where: str
    reason: str
    left_out: bool


def impossible(rows: Sequence[PredictedRow]) -> tuple[list[PredictedRow], list[RowContradiction]]:
    """The rows that physics allows, and those below their floor."""
    possible, wrong = [], []
    for row in rows:
        floor = floor_of(row)
        if row.measured >= ROUNDING * floor:
            possible.append(row)
            continue
        reason = (
            f"{duration(row.measured)} is below the floor of {duration(floor)}: faster than the hardware's peak. "
            "Check unit, device count, number format, and whether the rate is per device or counts prompts"
        )
        wrong.append(RowContradiction(row.where, reason, True))
    return possible, wrong


def floor_of(row: PredictedRow) -> float:
    """Seconds at peak rates; 0 for a throughput, whose batch was not measured."""
    if isinstance(row, MicrobenchmarkRow):
        return row.floor
    if row.quantity == "throughput":
        return 0.0
    if row.quantity == "static":
        return float(static(row.ctx, row.layout, at_floor=True))
    phase = {"itl": "decode", "ttft": "prefill"}.get(row.quantity, row.quantity)
    return float(SHIPPED[phase](row.ctx, row.layout).floor_s)


def repeats(rows: Sequence[PredictedRow]) -> list[RowContradiction]:
    """Rows of one question that differ."""
    found, first = list[RowContradiction](), dict[Hashable, PredictedRow]()
    for row in rows:
        other = first.setdefault(row.key, row)
        gap = abs(np.log(row.measured / other.measured))
        if row.key is not None and gap > REPEATED:
            found.append(RowContradiction(row.where, f"repeats {other.where}, {np.expm1(gap):.0%} apart", False))
    return found


def one_per_question(rows: Sequence[PredictedRow]) -> tuple[list[PredictedRow], list[str]]:
    """The rows with one for each question, the median of those that repeat it, and a note on each that was chosen so.

    Repeats share the estimate's error, so a fit that counted each would take it for certain, and one held out would not be new.
    """
    groups: dict[Hashable, list[PredictedRow]] = {}
    for row in rows:
        groups.setdefault((row.phase, row.key if row.key is not None else id(row)), []).append(row)
    middle = [sorted(members, key=lambda row: row.measured)[(len(members) - 1) // 2] for members in groups.values()]
    notes = {
        f"{row.where}: the median of {len(members)} rows of one question, which count as one"
        for row, members in zip(middle, groups.values(), strict=True)
        if len(members) > 1
    }
    return middle, sorted(notes)


def outliers(rows: Sequence[PredictedRow], fit: Posterior) -> list[RowContradiction]:
    """Rows more than SIGMAS standard deviations from the fit to the others."""
    reason = "{:.1f} standard deviations {} the fit to the other rows; kept with low weight"
    return [
        RowContradiction(row.where, reason.format(abs(z), "above" if z > 0 else "below"), False)
        for row, z in zip(rows, outlier_z(fit), strict=True)
        if abs(z) > SIGMAS
    ]


def outlier_z(fit: Posterior) -> Array:
    """Residual of each row over its scale, by leave-one-out of the linearized fit [rows]."""
    sigma = fit.setting.sigma
    w = weights(fit.residuals, sigma) / sigma**2
    variance = np.einsum("rb,bc,rc->r", fit.slopes, fit.covariance, fit.slopes)
    kept = np.maximum(1 - w * variance, 1e-6)
    return np.asarray(fit.residuals / kept / np.sqrt(fit.setting.spread**2 + variance / kept))
