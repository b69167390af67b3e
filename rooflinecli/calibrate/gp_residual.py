"""What the blocks leave over at some rows holds for questions like them: a Gaussian process on one factor for all constants.

Its prior is a normal at every place, of the deviation in the phase's setting, correlated between places by nearness in the logarithms of
their sizes (Rasmussen and Williams 2006, algorithm 2.1), so that far from all rows nothing but the blocks' factors is left. Rows may
favour it where they favour no move of the blocks: what deviates with size is no constant's doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.calibrate.posterior import Posterior, weights
from rooflinecli.formulas.calibration import similarity

Array = Any  # numpy.ndarray of float64
ODD = 1.5  # times the noise, from which a row loses its pull
MOST = 64  # places that a file keeps


@dataclass(frozen=True, eq=False)
class GaussianProcessResidual:
    """Places [rows, sizes] as logarithms, and the move of each: what times there are multiplied by, as a logarithm [rows]."""

    places: Array
    moves: Array

    def shift(self, places: Array) -> Array:
        """The logarithm by which times at other places move [places]."""
        if not len(self.moves):
            return np.zeros(len(places))
        return similarity(apart(places, self.places)) @ self.moves


def nothing(sizes: int) -> GaussianProcessResidual:
    """No row with anything to say."""
    return GaussianProcessResidual(np.zeros((0, sizes)), np.zeros(0))


def apart(some: Array, others: Array) -> Array:
    """Squared distances between places [some, others]."""
    return np.asarray(((some[:, None, :] - others[None, :, :]) ** 2).sum(axis=-1))


def local(places: Array, found: Posterior, rows: Sequence[int]) -> GaussianProcessResidual:
    """What the rows (of the posterior, with `places` of their own) show beside its blocks, or beside the shipped constants where those stay;
    nothing in that case unless the rows favour it."""
    if not len(rows):
        return nothing(places.shape[1])
    thin = slice(None, None, -(-len(rows) // MOST))
    kept, at = np.asarray(rows)[thin], places[thin]
    left = found.kept[kept]
    felt = found.slopes[kept].sum(axis=1)  # how times answer to all blocks at once
    amplitude, scatter = found.setting.amplitude, found.setting.noise
    noise = scatter**2 / weights(left, ODD * scatter)
    prior = amplitude**2 * similarity(apart(at, at))
    whole = felt[:, None] * prior * felt + np.diag(noise)
    if not found.supported and favour(left, whole, noise) <= 0:
        return nothing(places.shape[1])
    return GaussianProcessResidual(at, amplitude**2 * felt * np.linalg.solve(whole, left))


def favour(left: Array, whole: Array, noise: Array) -> float:
    """Logarithm of the marginal likelihood of what is left over [rows] with covariance `whole` [rows, rows], less that with `noise` [rows] alone
    (Rasmussen and Williams 2006, eq. 2.30), nats."""
    explained = left @ (left / noise - np.linalg.solve(whole, left))
    return float(0.5 * (explained - np.linalg.slogdet(whole)[1] + np.log(noise).sum()))
