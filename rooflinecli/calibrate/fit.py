"""Maximum a posteriori factors of a phase: normal prior on their logarithms, Student-t errors, Gauss-Newton with reweighting."""

from __future__ import annotations

from collections.abc import Sequence
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
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor

ITERATIONS, LONGEST = 5, 0.7  # iterations, and the longest move of a logarithm in one
REWEIGHTINGS, CONVERGED = 12, 1e-3  # reweightings within one, and the change of a logarithm that ends them
LEAST_GAIN = 3e-3  # nats: a gain below it is none


def fit(rows: Sequence[PredictedRow], setting: PriorSettings | None = None) -> Posterior:
    """The posterior of one phase's constant groups given rows of one chip and software. Raises ValueError without rows."""
    predictor = RowPredictor(rows)
    return solve(predictor, np.log([row.measured for row in rows]), setting or SETTINGS[predictor.phase])


def solve(predictor: RowPredictor, measured: Array, setting: PriorSettings) -> Posterior:
    """The posterior given every row's logarithm of seconds [rows]."""
    return solve_all(predictor, measured[None], setting, np.ones((1, len(measured)), dtype=bool))[0]


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
        evidence = _evidence(before, residuals, slopes, x, self.precision, self.setting.scales)
        predictor = self.predictor
        return Posterior(
            predictor.phase, predictor.blocks, x, covariance, residuals, before, slopes, self.setting, evidence
        )


def _evidence(
    before: Array, residuals: Array, slopes: Array, x: Array, precision: Array, scales: Sequence[float]
) -> float:
    """Laplace's evidence for moved constants less that for the shipped ones, each over the scales a row's error may have."""
    shipped = [log_likelihood(before, sigma) for sigma in scales]
    moved = [
        log_likelihood(residuals, sigma)
        - 0.5 * float(x @ precision @ x)
        + 0.5 * np.linalg.slogdet(np.linalg.solve(_information(residuals, slopes, precision, sigma), precision))[1]
        for sigma in scales
    ]
    return float(np.logaddexp.reduce(moved) - np.logaddexp.reduce(shipped))


def _information(residuals: Array, slopes: Array, precision: Array, sigma: float) -> Array:
    w = weights(residuals, sigma) / sigma**2
    return slopes.T @ (w[:, None] * slopes) + precision
