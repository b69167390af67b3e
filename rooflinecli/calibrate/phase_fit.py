"""Fit of one phase and one software to all of its rows, with its score on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rooflinecli.calibrate.posterior import (
    SETTINGS,
    Array,
    Posterior,
    PriorSettings,
    log_density,
    log_likelihood,
    weights,
)
from rooflinecli.calibrate.predicted_row import MicrobenchmarkRow, PredictedRow, RowPredictor
from rooflinecli.calibrate.resolve_rows import RowContradiction, outliers
from rooflinecli.core.num import Number
from rooflinecli.engine import apply_calibration
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.serving_load import sequences
from rooflinecli.formulas.calibration import similarity

FARTHEST = 99.0  # of an error: that of a row that cannot be priced
FEWEST = 2  # rows that a fit needs in addition to the held-out ones
PHASES = {"train": "train", "decode": "decode", "prefill": "prefill", "ttft": "prefill"}


@dataclass(frozen=True)
class HeldOutScore:
    """Median |predicted / measured - 1| and the share inside the 80% interval, shipped and calibrated, on some rows."""

    on: str
    rows: int
    error_before: float
    error_after: float
    coverage_before: float | None
    coverage_after: float

    @property
    def worse(self) -> bool:
        return self.error_after > self.error_before + 1e-12


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
    if not own:
        posterior = with_share(fit(every), np.zeros((0, 0)))
        return PhaseFit(phase, name, every, posterior, NOWHERE, scores, outliers(every, posterior))
    at = places(own)
    posterior = with_share(fit(every), at)
    residual = local(at, posterior, range(len(own)))
    if not np.isfinite(RowPredictor(own).log_seconds(posterior.taken[:, None], residual.shift(at)[:, None])).all():
        residual = NOWHERE  # a row's request rate could not be sustained
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
    shipped = []  # whether each row is inside the shipped interval, among those that have one
    for row in rows:
        if row.quantity in ("train", "itl", "prefill", "ttft"):
            low, high = SHIPPED[PHASES[row.phase]](row.ctx, row.layout).interval_s
            shipped.append(low <= row.measured <= high)
    covered = float(np.mean(shipped)) if shipped else None
    return HeldOutScore(on, len(rows), relative_gap(before), relative_gap(after), covered, inside)


def relative_gap(residuals: Array) -> float:
    """Median |predicted / measured - 1| of logarithms of measured over predicted."""
    return float(np.median(np.minimum(np.abs(np.expm1(-residuals)), FARTHEST)))


ITERATIONS, LONGEST = 5, 0.7  # iterations, and the longest move of a logarithm in one
REWEIGHTINGS, CONVERGED = 12, 1e-3  # reweightings within one, and the change of a logarithm that ends them
LEAST_GAIN = 3e-3  # nats: a gain below it is none


def fit(rows: Sequence[PredictedRow], setting: PriorSettings | None = None) -> Posterior:
    """The posterior of one phase's constant groups given rows of one chip and software. Raises ValueError without rows."""
    predictor, measured = RowPredictor(rows), np.log([[row.measured for row in rows]])
    return solve_all(predictor, measured, setting or SETTINGS[predictor.phase], np.ones(measured.shape, dtype=bool))[0]


def solve_all(predictor: RowPredictor, measured: Array, setting: PriorSettings, masks: Array) -> list[Posterior]:
    """Posteriors of several draws: each from the rows of its mask [draws, rows] with its logarithms of seconds [draws, rows].

    Levenberg-Marquardt on each posterior: Gauss-Newton, damped where a step would make it worse. Every iteration prices all rows once
    for all draws.
    """
    draws = _Draws(predictor, measured, setting, masks)
    for _ in range(ITERATIONS):
        if not draws.advance():
            break
    return [draws.posterior(draw) for draw in range(len(masks))]


class _Draws:
    """State of several fits: x [draws, groups], residuals [draws, rows] (measured over expected), slopes [draws, rows, groups]."""

    def __init__(self, predictor: RowPredictor, measured: Array, setting: PriorSettings, masks: Array):
        self.predictor, self.measured, self.setting, self.masks = predictor, measured, setting, masks
        self.precision = np.diag(1 / (setting.width * np.array([b.deviation for b in predictor.blocks])) ** 2)
        shipped, slopes = predictor.linear(np.zeros((len(predictor.blocks), 1)))
        self.x = np.zeros((len(masks), len(predictor.blocks)))
        self.before = measured - shipped[:, 0]
        self.residuals, self.slopes = self.before.copy(), np.repeat(slopes.transpose(1, 0, 2), len(masks), axis=0)
        self.value = self._worth(self.residuals, self.x)
        self.damping, self.open = np.zeros(len(masks)), np.ones(len(masks), dtype=bool)

    def _worth(self, residuals: Array, x: Array, draws: Any = slice(None)) -> Array:
        """The posterior's logarithm of each draw [draws], up to a constant."""
        terms = np.where(self.masks[draws], log_density(residuals, self.setting.sigma), 0.0)
        return np.asarray(terms.sum(axis=1) - 0.5 * np.einsum("db,bc,dc->d", x, self.precision, x))

    def advance(self) -> bool:
        """Take a step in every draw that gains by one; return whether any does."""
        steps = {draw: self._step(draw) for draw in np.flatnonzero(self.open).tolist()}
        for draw, (_, gain) in steps.items():
            self.open[draw] = gain >= LEAST_GAIN
        draws = np.flatnonzero(self.open)
        if not len(draws):
            return False
        tried = self.x[draws] + np.array([steps[int(draw)][0] for draw in draws])
        expected, slopes = self.predictor.linear(tried.T)
        residuals = self.measured[draws] - expected.T
        worth = self._worth(residuals, tried, draws)
        better = worth > self.value[draws]
        kept = draws[better]
        self.x[kept], self.residuals[kept], self.value[kept] = tried[better], residuals[better], worth[better]
        self.slopes[kept] = slopes.transpose(1, 0, 2)[better]
        self.damping[draws] = np.where(better, self.damping[draws] / 10, np.maximum(10 * self.damping[draws], 1.0))
        return True

    def _step(self, draw: int) -> tuple[Array, float]:
        """The move to the maximum of the linearized posterior [groups], no longer than LONGEST, and its gain (nats).

        Reweighting takes many steps and pricing dominates the cost, so weights converge on one linearization before rows are priced again.
        """
        residuals, slopes = self._of(draw)
        x, sigma, move = self.x[draw], self.setting.sigma, np.zeros(len(self.x[draw]))
        damping = self.damping[draw] * self.precision
        for _ in range(REWEIGHTINGS):
            left = residuals - slopes @ move
            w = weights(left, sigma) / sigma**2
            gradient = slopes.T @ (w * left) - self.precision @ (x + move) - damping @ move
            change = np.linalg.solve(_information(left, slopes, self.precision, sigma) + damping, gradient)
            move = np.clip(move + change, -LONGEST, LONGEST)
            if np.abs(change).max() < CONVERGED:
                break
        mine = np.array([draw])
        there = np.array(self.residuals[draw] - self.slopes[draw] @ move)[None]
        return move, float(self._worth(there, (x + move)[None], mine)[0] - self.value[draw])

    def _of(self, draw: int) -> tuple[Array, Array]:
        mask = self.masks[draw]
        return self.residuals[draw][mask], self.slopes[draw][mask]

    def posterior(self, draw: int) -> Posterior:
        residuals, slopes = self._of(draw)
        x, before = self.x[draw], self.before[draw][self.masks[draw]]
        covariance = np.linalg.inv(_information(residuals, slopes, self.precision, self.setting.sigma))
        shipped = [log_likelihood(before, sigma) for sigma in self.setting.scales]
        prior, moved = 0.5 * float(x @ self.precision @ x), []
        for sigma in self.setting.scales:
            width = np.linalg.solve(_information(residuals, slopes, self.precision, sigma), self.precision)
            moved.append(log_likelihood(residuals, sigma) - prior + 0.5 * np.linalg.slogdet(width)[1])
        evidence = float(np.logaddexp.reduce(moved) - np.logaddexp.reduce(shipped))
        predictor = self.predictor
        return Posterior(
            predictor.phase, predictor.blocks, x, covariance, residuals, before, slopes, self.setting, evidence
        )


def _information(residuals: Array, slopes: Array, precision: Array, sigma: float) -> Array:
    w = weights(residuals, sigma) / sigma**2
    return slopes.T @ (w[:, None] * slopes) + precision


ODD = 1.5  # times the noise, from which a row loses weight
MOST = 64  # places that a file keeps


@dataclass(frozen=True, eq=False)
class GaussianProcessResidual:
    """Places [rows, sizes] as logarithms, and the logarithm of the factor on times there [rows]."""

    places: Array
    moves: Array

    def shift(self, places: Array) -> Array:
        """The logarithm of the factor on times at other places [places]."""
        if not len(self.moves):
            return np.zeros(len(places))
        return np.asarray(similarity(squared_distances(places, self.places)) @ self.moves)


NOWHERE = GaussianProcessResidual(np.zeros((0, 0)), np.zeros(0))


def squared_distances(some: Array, others: Array) -> Array:
    """Squared distances between places [some, others]."""
    return np.asarray(((some[:, None, :] - others[None, :, :]) ** 2).sum(axis=-1))


def local(places: Array, fit: Posterior, rows: Sequence[int]) -> GaussianProcessResidual:
    """The residual of rows (indices into the posterior's, with their `places`) under the constants that are taken.

    Empty without rows, and where neither moved constants nor the local residual is favored by the evidence.
    """
    if not len(rows):
        return NOWHERE
    thin = slice(None, None, -(-len(rows) // MOST))
    kept, at = np.asarray(rows)[thin], places[thin]
    residual = fit.kept[kept]
    slope = fit.slopes[kept].sum(axis=1)  # of log time in all constants together
    amplitude, scatter = fit.setting.amplitude, fit.setting.noise
    noise = scatter**2 / weights(residual, ODD * scatter)
    covariance = slope[:, None] * (amplitude**2 * similarity(squared_distances(at, at))) * slope + np.diag(noise)
    if not fit.supported and log_evidence(residual, covariance, noise) <= 0:
        return NOWHERE
    return GaussianProcessResidual(at, fit.share * amplitude**2 * slope * np.linalg.solve(covariance, residual))


def with_share(fit: Posterior, places: Array) -> Posterior:
    """The posterior with the share of its move that rows are expected to gain from which it has not seen; `places`: of its first rows.

    Each row is predicted from the others, under the prior of the constants and of the local residual (Rasmussen and Williams 2006,
    eq. 5.12). The share is the least-squares weight of those predictions (Breiman 1996, Stacked regressions), shrunk by `caution`
    spreads; where the rows do not predict each other it is 0, and what was right stays as shipped. A single row cannot tell.
    """
    own, setting = len(places), fit.setting
    if own < 2:
        return fit
    slope = np.zeros(len(fit.before))
    slope[:own] = fit.slopes[:own].sum(axis=1)
    near = np.zeros((len(slope), len(slope)))
    near[:own, :own] = setting.amplitude**2 * similarity(squared_distances(places, places))
    trust = np.minimum(weights(fit.residuals, setting.spread), 1)  # a corrupted row predicts none
    prior = fit.slopes * fit.prior**2 @ fit.slopes.T + slope[:, None] * near * slope
    inverse = np.linalg.inv(prior + np.diag(setting.spread**2 / trust))
    predicted = fit.before - inverse @ fit.before / np.diag(inverse)
    weight, before, predicted = trust[:own], fit.before[:own], predicted[:own]
    share = (weight * before) @ predicted / ((weight * predicted) @ predicted + setting.caution * setting.spread**2)
    return replace(fit, share=float(np.clip(share, 0.0, 1.0)))


def log_evidence(residual: Array, covariance: Array, noise: Array) -> float:
    """Log marginal likelihood of residuals [rows] with `covariance` [rows, rows], less that with `noise` [rows] alone, nats.

    Rasmussen and Williams 2006, eq. 2.30.
    """
    explained = residual @ (residual / noise - np.linalg.solve(covariance, residual))
    return float(0.5 * (explained - np.linalg.slogdet(covariance)[1] + np.log(noise).sum()))
