"""One phase of one software: fitted, proved on rows held out, and described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rooflinecli.calibrate.fit import solve
from rooflinecli.calibrate.gp_residual import GaussianProcessResidual, local
from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.posterior import SETTINGS, Posterior
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor
from rooflinecli.calibrate.row_checks import RowContradiction, outliers
from rooflinecli.engine import apply_calibration
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.serving_load import sequences

FEWEST = 2  # rows that a fit needs beside those held out
PHASES = {"train": "train", "decode": "decode", "prefill": "prefill", "ttft": "prefill"}


@dataclass(frozen=True)
class HeldOutScore:
    """Median |predicted / measured - 1| and the share inside the 80 % interval, shipped and calibrated, on some rows."""

    on: str
    rows: int
    before: float
    after: float
    covered_before: float | None
    covered: float

    @property
    def worse(self) -> bool:
        return self.after > self.before + 1e-12


@dataclass
class PhaseFit:
    """A phase's rows under one software, the fit to all of them, and what it is worth."""

    phase: str
    software: str
    questions: list[PredictedRow]
    posterior: Posterior
    x: Any
    local: GaussianProcessResidual
    proofs: list[HeldOutScore] = field(default_factory=list)
    contradictions: list[RowContradiction] = field(default_factory=list)

    @property
    def moved(self) -> bool:
        """Whether rows favour other answers than the shipped ones: by other constants, or near the rows alone."""
        return self.posterior.supported or bool(len(self.local.moves))

    @property
    def refused(self) -> bool:
        """Whether the rows held out got worse."""
        return any(p.worse for p in self.proofs if p.on == "held out")

    @property
    def range(self) -> dict[str, tuple[float, float]]:
        """Least and most of what places the rows."""
        found: dict[str, list[float]] = {}
        for q in self.questions:
            if not isinstance(q, MicrobenchmarkRow):
                for name, value in placed(q).items():
                    found.setdefault(name, []).append(float(value))
        return {name: (min(values), max(values)) for name, values in found.items()}


def placed(q: PredictedRow) -> dict[str, Any]:
    """What places a row among others: sizes of its work and fleet."""
    phase = PHASES[q.phase]
    batch = q.ctx.train_batch if phase == "train" else sequences(q.ctx, q.layout)
    return apply_calibration.asked(q.ctx, q.layout, phase, batch)


def places(questions: Sequence[PredictedRow]) -> Any:
    """Logarithms of the sizes that place rows, in the order of their names [rows, sizes]."""
    found = [placed(q) for q in questions]
    return np.log([[float(np.max(row[name])) for name in sorted(row)] for row in found])


def software(q: PredictedRow) -> str:
    """What ran a row."""
    return apply_calibration.software(q.ctx, q.layout, PHASES[q.phase])


def group(phase: str, name: str, rows: Sequence[PredictedRow], hold_out: float, seed: int) -> PhaseFit:
    """Fit a phase to its rows: first to those not held out, for the proof; then to all."""
    own = [q for q in rows if not isinstance(q, MicrobenchmarkRow)]
    further = [q for q in rows if isinstance(q, MicrobenchmarkRow)]
    proofs = []
    held = round(hold_out * len(own))
    if held and len(own) - held >= FEWEST:
        order = np.random.default_rng(seed).permutation(len(own))
        left, kept = [own[i] for i in sorted(order[:held])], [own[i] for i in sorted(order[held:])]
        proofs.append(proof("held out", left, kept, _fit([*kept, *further])))
    found = _fit([*own, *further])
    x = found.x if found.supported else 0 * found.x
    near = local(places(own) if own else np.zeros((0, 0)), found, range(len(own)))
    result = PhaseFit(phase, name, [*own, *further], found, x, near, proofs)
    if own:
        result.proofs.append(proof("fitted", own, own, found))
    result.contradictions = outliers(result.questions, found)
    return result


def _fit(rows: Sequence[PredictedRow]) -> Posterior:
    pricer = RowPredictor(rows)
    return solve(pricer, np.log([q.measured for q in rows]), SETTINGS[pricer.phase])


def proof(on: str, rows: Sequence[PredictedRow], kept: Sequence[PredictedRow], found: Posterior) -> HeldOutScore:
    """Errors of the shipped and of the fitted constants on rows; `kept` are those that the fit began with."""
    pricer = RowPredictor(rows)
    measured = np.log([q.measured for q in rows])
    x = found.x if found.supported else 0 * found.x
    shift = local(places(kept), found, range(len(kept))).shift(places(rows))
    expected = pricer.log_seconds(np.stack([0 * x, x], axis=1), np.stack([0 * shift, shift], axis=1))
    before, after = (measured - expected[:, i] for i in (0, 1))
    width = np.log1p(found.error)
    return HeldOutScore(
        on, len(rows), relative_gap(before), relative_gap(after), _covered(rows), float((abs(after) <= width).mean())
    )


def relative_gap(residuals: Any) -> float:
    """Median |predicted / measured - 1| of logarithms of measured over predicted."""
    return float(np.median(np.abs(np.expm1(-residuals))))


def _covered(rows: Sequence[PredictedRow]) -> float | None:
    """Share of rows inside the shipped interval, among those that have one."""
    inside = []
    for q in rows:
        if q.quantity in ("train", "itl", "prefill", "ttft"):
            low, high = SHIPPED[PHASES[q.phase]](q.ctx, q.layout).interval_s
            inside.append(low <= q.measured <= high)
    return float(np.mean(inside)) if inside else None
