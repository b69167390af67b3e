"""Maximum a posteriori factors of a phase: normal prior on their logarithms, Student-t errors, Gauss-Newton with reweighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rooflinecli.calibrate.posterior import SETTINGS, Posterior, PriorSettings, log_density, log_likelihood, weights
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor

Array = Any  # numpy.ndarray of float64
ROUNDS, LONGEST = 5, 0.7  # iterations, and the longest move of a logarithm in one
REWEIGHTED, STILL = 12, 1e-3  # reweightings within one, and the change of a logarithm that ends them
SETTLED = 3e-3  # nats: a gain below it is none


def fit(questions: Sequence[PredictedRow], setting: PriorSettings | None = None) -> Posterior:
    """The posterior of one phase's blocks given rows of one chip and software. Raises ValueError without rows."""
    pricer = RowPredictor(questions)
    return solve(pricer, np.log([q.measured for q in questions]), setting or SETTINGS[pricer.phase])


def solve(pricer: RowPredictor, measured: Array, setting: PriorSettings) -> Posterior:
    """The posterior given every row's logarithm of seconds [rows]."""
    return solve_all(pricer, measured[None], setting, np.ones((1, len(measured)), dtype=bool))[0]


def solve_all(pricer: RowPredictor, measured: Array, setting: PriorSettings, masks: Array) -> list[Posterior]:
    """Posteriors of several draws at once: each from the rows of its mask [draws, rows] with its logarithms of seconds [draws, rows].

    Gauss-Newton on each posterior, damped where a step would make it worse. Every round prices all rows once for all draws.
    """
    many = _Draws(pricer, measured, setting, masks)
    for _ in range(ROUNDS):
        if not many.advance():
            break
    return [many.posterior(draw) for draw in range(len(masks))]


class _Draws:
    """Where several fits stand: x [draws, blocks], residuals [draws, rows] (measured over expected), slopes [draws, rows, blocks]."""

    def __init__(self, pricer: RowPredictor, measured: Array, setting: PriorSettings, masks: Array):
        self.pricer, self.measured, self.setting, self.masks = pricer, measured, setting, masks
        self.precision = np.diag(1 / (setting.width * np.array([b.deviation for b in pricer.blocks])) ** 2)
        shipped, slopes = pricer.linear(np.zeros((len(pricer.blocks), 1)))
        self.x = np.zeros((len(masks), len(pricer.blocks)))
        self.before = measured - shipped[:, 0]
        self.residuals, self.slopes = self.before.copy(), np.repeat(slopes.transpose(1, 0, 2), len(masks), axis=0)
        self.value = self._worth(self.residuals, self.x)
        self.damping, self.open = np.zeros(len(masks)), np.ones(len(masks), dtype=bool)

    def _worth(self, residuals: Array, x: Array, draws: Any = slice(None)) -> Array:
        """The posterior's logarithm of each draw [draws], up to a constant."""
        terms = log_density(residuals, self.setting.sigma) * self.masks[draws]
        return terms.sum(axis=1) - 0.5 * np.einsum("db,bc,dc->d", x, self.precision, x)

    def advance(self) -> bool:
        """One step of every draw that has something to gain; whether any had."""
        steps = {draw: self._step(draw) for draw in np.flatnonzero(self.open).tolist()}
        for draw, (_, hoped) in steps.items():
            self.open[draw] = hoped >= SETTLED
        draws = np.flatnonzero(self.open)
        if not len(draws):
            return False
        tried = self.x[draws] + np.array([steps[int(draw)][0] for draw in draws])
        expected, slopes = self.pricer.linear(tried.T)
        residuals = self.measured[draws] - expected.T
        worth = self._worth(residuals, tried, draws)
        better = worth > self.value[draws]
        kept = draws[better]
        self.x[kept], self.residuals[kept], self.value[kept] = tried[better], residuals[better], worth[better]
        self.slopes[kept] = slopes.transpose(1, 0, 2)[better]
        self.damping[draws] = np.where(better, self.damping[draws] / 10, np.maximum(10 * self.damping[draws], 1.0))
        return True

    def _step(self, draw: int) -> tuple[Array, float]:
        """The move to the posterior's top [blocks] where seconds answer as they do here, no longer than LONGEST; and what it gains there.

        Reweighting takes many steps and pricing is what costs, so weights settle on one linearisation before rows are priced again.
        """
        residuals, slopes = self._of(draw)
        x, sigma, move = self.x[draw], self.setting.sigma, np.zeros(len(self.x[draw]))
        held = self.damping[draw] * self.precision
        for _ in range(REWEIGHTED):
            left = residuals - slopes @ move
            w = weights(left, sigma) / sigma**2
            gradient = slopes.T @ (w * left) - self.precision @ (x + move) - held @ move
            change = np.linalg.solve(_information(left, slopes, self.precision, sigma) + held, gradient)
            move = np.clip(move + change, -LONGEST, LONGEST)
            if np.abs(change).max() < STILL:
                break
        mine = np.array([draw])
        hoped = np.array(self.residuals[draw] - self.slopes[draw] @ move)[None]
        return move, float(self._worth(hoped, (x + move)[None], mine)[0] - self.value[draw])

    def _of(self, draw: int) -> tuple[Array, Array]:
        mask = self.masks[draw]
        return self.residuals[draw][mask], self.slopes[draw][mask]

    def posterior(self, draw: int) -> Posterior:
        residuals, slopes = self._of(draw)
        x, before = self.x[draw], self.before[draw][self.masks[draw]]
        covariance = np.linalg.inv(_information(residuals, slopes, self.precision, self.setting.sigma))
        evidence = _evidence(before, residuals, slopes, x, self.precision, self.setting.scales)
        pricer = self.pricer
        return Posterior(pricer.phase, pricer.blocks, x, covariance, residuals, before, slopes, self.setting, evidence)


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
