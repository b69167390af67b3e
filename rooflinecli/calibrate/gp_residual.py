"""Local residual: what the constants leave over at the rows, as a Gaussian process over the sizes of questions.

It moves all constants together. Its prior is normal with the deviation of the phase's setting, correlated by nearness in the logarithms
of sizes (Rasmussen and Williams 2006, algorithm 2.1), so far from all rows only the factors of the constant groups remain. The evidence
may favor it where it favors no move of a group: a deviation that depends on size is not due to a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rooflinecli.calibrate.posterior import Array, Posterior, weights
from rooflinecli.formulas.calibration import similarity

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
