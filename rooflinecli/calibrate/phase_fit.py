"""Fit of one phase and one software to all of its rows, with its score on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rooflinecli.calibrate.fit import fit
from rooflinecli.calibrate.gp_residual import NOWHERE, GaussianProcessResidual, local, with_share
from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.posterior import Array, Posterior
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor
from rooflinecli.calibrate.row_checks import RowContradiction, outliers
from rooflinecli.core.num import Number
from rooflinecli.engine import apply_calibration
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.serving_load import sequences

FARTHEST = 99.0  # of an error: that of a row that cannot be priced
FEWEST = 2  # rows that a fit needs in addition to the held-out ones
PHASES = {"train": "train", "decode": "decode", "prefill": "prefill", "ttft": "prefill"}


@dataclass(frozen=True)
class HeldOutScore:
    """Median |predicted / measured - 1| and the share inside the 80% interval, shipped and calibrated, on some rows."""

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
    """A phase's rows under one software, the fit to all of them, and its scores."""

    phase: str
    software: str
    rows: list[PredictedRow]
    posterior: Posterior
    local: GaussianProcessResidual
    scores: list[HeldOutScore] = field(default_factory=list)
    contradictions: list[RowContradiction] = field(default_factory=list)

    @property
    def x(self) -> Array:
        """Logarithms of the factors that are taken [constant groups]."""
        return self.posterior.taken

    @property
    def moved(self) -> bool:
        """Whether rows favor other answers than the shipped ones: by other constants, or near the rows alone."""
        return bool(self.posterior.share) and (self.posterior.supported or bool(len(self.local.moves)))

    @property
    def refused(self) -> bool:
        """Whether the error on the held-out rows increased."""
        return any(score.worse for score in self.scores if score.on == "held out")

    @property
    def range(self) -> dict[str, tuple[float, float]]:
        """Least and largest of each size of the rows."""
        sizes: dict[str, list[float]] = {}
        for row in own_rows(self.rows):
            for name, value in placed(row).items():
                sizes.setdefault(name, []).append(float(value))
        return {name: (min(values), max(values)) for name, values in sizes.items()}


def own_rows(rows: Sequence[PredictedRow]) -> list[PredictedRow]:
    """The rows that are no micro-benchmarks."""
    return [row for row in rows if not isinstance(row, MicrobenchmarkRow)]


def placed(row: PredictedRow) -> dict[str, Number]:
    """Sizes of a row's work and fleet, by name."""
    phase = PHASES[row.phase]
    batch = row.ctx.train_batch if phase == "train" else sequences(row.ctx, row.layout)
    return apply_calibration.question_sizes(row.ctx, row.layout, phase, batch)


def places(rows: Sequence[PredictedRow]) -> Array:
    """Logarithms of the sizes of rows, in the order of their names [rows, sizes]."""
    sizes = [placed(row) for row in rows]
    return np.log([[float(np.max(row[name])) for name in sorted(row)] for row in sizes])


def software(row: PredictedRow) -> str:
    """Engine or framework that ran a row."""
    return apply_calibration.software(row.ctx, row.layout, PHASES[row.phase])


def fit_phase(phase: str, name: str, rows: Sequence[PredictedRow], hold_out: float, seed: int) -> PhaseFit:
    """Fit a phase to its rows: first without the held-out rows, for the score; then to all."""
    own = own_rows(rows)
    microbenchmarks = [row for row in rows if isinstance(row, MicrobenchmarkRow)]
    scores = []
    sources = list(dict.fromkeys(row.where for row in own))  # rows of one line are held out together
    held_out = round(hold_out * len(sources))
    if held_out and len(sources) - held_out >= FEWEST:
        order = np.random.default_rng(seed).permutation(len(sources))
        apart = {sources[i] for i in order[:held_out]}
        test, train = [row for row in own if row.where in apart], [row for row in own if row.where not in apart]
        scores.append(score("held out", test, train, with_share(fit([*train, *microbenchmarks]), places(train))))
    every = [*own, *microbenchmarks]
    posterior = with_share(fit(every), places(own) if own else np.zeros((0, 0)))
    residual = local(places(own) if own else np.zeros((0, 0)), posterior, range(len(own)))
    shift = residual.shift(places(own)) if own else np.zeros(0)
    if own and not np.isfinite(RowPredictor(own).log_seconds(posterior.taken[:, None], shift[:, None])).all():
        residual = NOWHERE  # a row's request rate could not be sustained
    if own:
        scores.append(score("fitted", own, own, posterior))
    return PhaseFit(phase, name, every, posterior, residual, scores, outliers(every, posterior))


def score(
    on: str, rows: Sequence[PredictedRow], fitted_to: Sequence[PredictedRow], posterior: Posterior
) -> HeldOutScore:
    """Errors of the shipped and of the fitted constants on rows; `fitted_to` are the posterior's first rows."""
    measured, x = np.log([row.measured for row in rows]), posterior.taken
    shift = local(places(fitted_to), posterior, range(len(fitted_to))).shift(places(rows))
    expected = RowPredictor(rows).log_seconds(np.stack([0 * x, x], axis=1), np.stack([0 * shift, shift], axis=1))
    before, after = (measured - expected[:, i] for i in (0, 1))
    inside = float((abs(after) <= np.log1p(posterior.error)).mean())
    return HeldOutScore(on, len(rows), relative_gap(before), relative_gap(after), _shipped_coverage(rows), inside)


def relative_gap(residuals: Array) -> float:
    """Median |predicted / measured - 1| of logarithms of measured over predicted."""
    return float(np.median(np.minimum(np.abs(np.expm1(-residuals)), FARTHEST)))


def _shipped_coverage(rows: Sequence[PredictedRow]) -> float | None:
    """Share of rows inside the shipped interval, among those that have one."""
    inside = []
    for row in rows:
        if row.quantity in ("train", "itl", "prefill", "ttft"):
            low, high = SHIPPED[PHASES[row.phase]](row.ctx, row.layout).interval_s
            inside.append(low <= row.measured <= high)
    return float(np.mean(inside)) if inside else None
