"""The one fit of every study: named positive constants, a robust least-squares loss, and families left out in turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray of float64
Values = dict[str, float]
ABSOLUTE = 0.02  # a scale so far below the errors that the loss is that of absolute values


@dataclass(frozen=True)
class Constant:
    """A constant to fit between two bounds; `pull` weighs the squared logarithm of its distance from `prior`."""

    low: float
    high: float
    prior: float = 1.0
    pull: float = 0.0


def fit(
    constants: Mapping[str, Constant],
    residuals: Callable[[Values], Array],
    weights: Array | float = 1.0,
    scale: float = 0.1,
    starts: Iterable[Values] = (),
) -> Values:
    """Values that minimize the weighted loss of the residuals [rows], the best of several starts (default: the middle of all ranges).

    The loss of a residual r is sqrt(1 + (r / scale)^2) - 1, quadratic up to `scale` and linear beyond (soft-L1). The search is
    scipy's trust-region reflective method on the logarithms of the constants.
    """
    from scipy.optimize import least_squares  # half a second that reading a fit's runs does not need

    names = list(constants)
    low, high, prior = (np.log([getattr(c, key) for c in constants.values()]) for key in ("low", "high", "prior"))
    pull = np.array([c.pull for c in constants.values()])

    def root_loss(point: Array) -> Array:  # half the sum of its squares is the loss
        r = np.asarray(residuals(dict(zip(names, np.exp(point), strict=True)))) / scale
        soft = 2 * weights * (r * r / (np.sqrt(1 + r * r) + 1))
        return np.append(np.copysign(np.sqrt(soft), r), np.sqrt(2 * pull) * (point - prior))

    inside = 1e-6 * (high - low)
    points = [np.log([start[name] for name in names]) for start in starts] or [(low + high) / 2]
    found = [
        least_squares(root_loss, np.clip(point, low + inside, high - inside), bounds=(low, high), x_scale=high - low)
        for point in points
    ]
    best = min(found, key=lambda one: one.cost)
    return dict(zip(names, np.exp(best.x).tolist(), strict=True))


def leave_one_out(
    families: Array, solve: Callable[[Array], Any], seen: Array | bool = True
) -> Iterator[tuple[str, Array, Any]]:
    """Every family with the mask of its rows and what `solve` makes of the mask of all `seen` rows of the others."""
    for family in np.unique(families):
        own = families == family
        yield str(family), own, solve(~own & seen)


def half_by_name(name: str) -> bool:
    """Whether a fit may see the rows of this name: the first bit of its SHA-256."""
    return hashlib.sha256(name.encode()).digest()[0] < 128
