"""Rows that contradict physics, each other or themselves: named, and left out where they cannot be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.posterior import Posterior, weights
from rooflinecli.calibrate.predicted_row import PredictedRow, static_floor
from rooflinecli.core.units import duration
from rooflinecli.engine.evaluate import SHIPPED

ROUNDING = 0.995  # of a floor: what rounding in a log may take off
SIGMAS = 4.0
REPEATED = 0.15  # how far two answers to one question may lie apart without a word


@dataclass(frozen=True)
class RowContradiction:
    """A row, what is wrong with it, and whether it was left out."""

    where: str
    reason: str
    left_out: bool


def impossible(questions: Sequence[PredictedRow]) -> tuple[list[PredictedRow], list[RowContradiction]]:
    """The rows that physics allows, and those below their floor."""
    fine, wrong = [], []
    for q in questions:
        floor = floor_of(q)
        if q.measured < ROUNDING * floor:
            reason = (
                f"{duration(q.measured)} is below the floor of {duration(floor)}: faster than the hardware's peak. "
                "Check unit, device count, number format, and whether the rate is per device or counts prompts"
            )
            wrong.append(RowContradiction(q.where, reason, True))
        else:
            fine.append(q)
    return fine, wrong


def floor_of(q: PredictedRow) -> float:
    """Seconds that physics allows for a row; of a rate at the batch that memory holds, that of its steps."""
    if isinstance(q, MicrobenchmarkRow):
        return q.floor
    if q.quantity == "static":
        return static_floor(q.ctx, q.layout)
    answer: Any = SHIPPED[{"train": "train", "prefill": "prefill", "ttft": "prefill"}.get(q.quantity, "decode")](
        q.ctx, q.layout
    )
    if q.quantity == "throughput":
        return 0.0  # the batch behind a rate is not measured, so neither is its floor
    return float(answer.floor_s)


def repeats(questions: Sequence[PredictedRow]) -> list[RowContradiction]:
    """Pairs of rows that ask the same and answer differently."""
    found, known = [], dict[Any, PredictedRow]()
    for q in questions:
        key = q.key
        other = known.setdefault(key, q)
        apart = abs(np.log(q.measured / other.measured))
        if key is not None and apart > REPEATED:
            found.append(
                RowContradiction(
                    q.where, f"asks the same as {other.where} and answers {np.expm1(apart):.0%} apart", False
                )
            )
    return found


def outliers(questions: Sequence[PredictedRow], found: Posterior) -> list[RowContradiction]:
    """Rows further from what the others say than SIGMAS standard deviations, by leave-one-out of the linearised fit."""
    z = outlier_z(found)
    return [
        RowContradiction(
            q.where,
            f"{abs(score):.1f} standard deviations {'above' if score > 0 else 'below'} what the other rows say; kept, with little weight",
            False,
        )
        for q, score in zip(questions, z, strict=True)
        if abs(score) > SIGMAS
    ]


def outlier_z(found: Posterior) -> Any:
    """Residual of each row over its scale, the row itself taken out of the fit [rows]."""
    sigma = found.setting.sigma
    w = weights(found.residuals, sigma) / sigma**2
    variance = np.einsum("rb,bc,rc->r", found.slopes, found.covariance, found.slopes)
    kept = np.maximum(1 - w * variance, 1e-6)
    return found.residuals / kept / np.sqrt(found.setting.spread**2 + variance / kept)
