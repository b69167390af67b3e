"""Measured rows against the estimate, one by one: how far off, and which single change would explain the gap, the likeliest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.calibrate.constant_groups import BLOCKS
from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.phase_fit import PHASES, software
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor, seconds
from rooflinecli.calibrate.row_checks import floor_of
from rooflinecli.engine.evaluate import PHASES as CALIBRATED
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.gap_analysis import explain as assumptions

SCHEMA = "roofline/measured/1"
WIDEST, STEPS = 2.0, 81  # logarithms of a block's factor that are tried
MOST = 4  # explanations of a row


@dataclass(frozen=True)
class GapExplanation:
    """A single change that would give the measured time: a block of constants, or an assumption about the run."""

    what: str
    asks: float  # in shipped errors (80 %) for a block; the share of a rate or setting for an assumption


def against(questions: Sequence[PredictedRow]) -> dict[str, Any]:
    """Every row beside its estimate: seconds, floor, interval, gap and what would explain it."""
    rows = [_row(q) for q in questions if not isinstance(q, MicrobenchmarkRow)]
    return {"schema": SCHEMA, "rows": rows}


def _row(q: PredictedRow) -> dict[str, Any]:
    expected, low, high = _expected(q)
    floor = floor_of(q)
    gap = q.measured / expected - 1
    return {
        "row": q.where,
        "quantity": q.quantity,
        "software": software(q),
        "measured_s": q.measured,
        "floor_s": floor,
        "expected_s": expected,
        "interval_s": [low, high] if low is not None else None,
        "gap": gap,
        "verdict": _verdict(q.measured, floor, low, high),
        "explained_by": [{"what": e.what, "asks": e.asks} for e in explanations(q)] if q.measured >= floor else [],
    }


def _expected(q: PredictedRow) -> tuple[float, float | None, float | None]:
    """What the estimate says with the chip file's own calibration, and its interval where the quantity has one."""
    if q.quantity in ("static", "throughput"):
        return float(seconds(q.ctx, q.layout, q.quantity)), None, None
    answer = CALIBRATED[PHASES[q.phase]](q.ctx, q.layout)
    low, high = answer.interval_s
    return float(answer.time_s), float(low), float(high)


def _verdict(measured: float, floor: float, low: float | None, high: float | None) -> str:
    if measured < floor:
        return "impossible: below the floor"
    if low is None or high is None:
        return ""
    return "inside the interval" if low <= measured <= high else "slower" if measured > high else "faster"


def explanations(q: PredictedRow) -> list[GapExplanation]:
    """Single blocks whose factor closes the gap, by how many shipped errors it takes; and for training, single assumptions."""
    found = sorted(_blocks(q), key=lambda e: e.asks)[:MOST]
    if q.phase == "train":
        result = estimate(q.ctx.request)
        found += [
            GapExplanation(e.assumption, e.change)
            for e in assumptions(q.ctx.request, result, q.layout, q.measured)[:MOST]
        ]
    return found


def _blocks(q: PredictedRow) -> list[GapExplanation]:
    pricer, wanted = RowPredictor([q]), float(np.log(q.measured))
    grid = np.linspace(-WIDEST, WIDEST, STEPS)
    count = len(pricer.blocks)
    x = np.zeros((count, count * STEPS))
    for k in range(count):
        x[k, k * STEPS : (k + 1) * STEPS] = grid
    times = pricer.log_seconds(x)[0].reshape(count, STEPS)
    found = []
    for block, line in zip(BLOCKS[q.phase], times, strict=True):
        if line[0] <= wanted <= line[-1] and line[-1] - line[0] > 1e-6:
            move = float(np.interp(wanted, line, grid))
            found.append(
                GapExplanation(f"{block.name} {np.expm1(move):+.0%}", abs(move) / float(np.log1p(block.error)))
            )
    return found
