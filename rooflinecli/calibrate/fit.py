"""Maximum a posteriori factors of a phase: normal prior on their logarithms, Student-t errors, Gauss-Newton with reweighting.

The likelihood is that of Lange, Little and Taylor 1989 (Robust statistical modeling using the t distribution) with 4 degrees of
freedom, so that a corrupted row loses its pull; the prior stays normal, so that constants that no row tells of stay as shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import numpy as np

from rooflinecli.calibrate.blocks import Block
from rooflinecli.calibrate.question import Pricer, Question

Array = Any  # numpy.ndarray of float64
FREEDOM = 4.0
ROUNDS, LONGEST = 6, 0.7  # iterations, and the longest move of a logarithm in one
SETTLED = 3e-3  # nats: a gain below it is none
SCALES = (0.03, 0.06, 0.12)  # what a row's own error may be, when moved constants are weighed against the shipped ones
_CONSTANT = lgamma((FREEDOM + 1) / 2) - lgamma(FREEDOM / 2) - 0.5 * log(FREEDOM * pi)


@dataclass(frozen=True)
class Setting:
    """How wide the priors are, in shipped errors; the scale of a row's own error (a logarithm); what widens the interval; and the
    evidence (nats) from which moved constants are taken."""

    width: float
    sigma: float
    kappa: float
    least: float = 0.0


# chosen in view of the published families that `roofline validate calibrate` scores; only width / sigma matters to the point
SETTINGS = {
    "train": Setting(2.0, 0.15, 0.8, -0.5),
    "decode": Setting(1.5, 0.08, 1.4),
    "prefill": Setting(2.0, 0.15, 1.3),
    "ttft": Setting(4.0, 0.15, 1.7),
}


@dataclass(eq=False)
class Posterior:
    """The fit: logarithms of the blocks' factors, their covariance, and how the rows stand to it."""

    phase: str
    blocks: tuple[Block, ...]
    x: Array  # [blocks]
    covariance: Array  # [blocks, blocks]
    residuals: Array  # ln(measured / fitted) [rows]
    before: Array  # ln(measured / shipped) [rows]
    slopes: Array  # d ln t / d x at the fit [rows, blocks]
    setting: Setting
    evidence: float  # of the fit less that of the shipped constants, nats

    @property
    def prior(self) -> Array:
        return self.setting.width * np.array([block.deviation for block in self.blocks])

    @property
    def contraction(self) -> Array:
        """1 - posterior / prior variance of each block: what the rows determined."""
        return 1 - np.diag(self.covariance) / self.prior**2

    @property
    def supported(self) -> bool:
        """Whether the rows favour moved constants over the shipped ones."""
        return self.evidence > self.setting.least

    @property
    def scale(self) -> float:
        """Scale of a further row's error: the assumed one and the rows' residuals, as a t posterior weighs them."""
        weight = weights(self.residuals, self.setting.sigma)
        k, sigma = len(self.residuals), self.setting.sigma
        spent = (np.minimum(weight, 1) * self.residuals**2).sum()
        return float(np.sqrt((FREEDOM * sigma**2 + spent) / (FREEDOM + k)))

    def half_width(self, slopes: Array) -> Array:
        """80 % half width of the logarithm of a further row's time, by its slopes [rows, blocks]."""
        parameters = np.einsum("rb,bc,rc->r", slopes, self.covariance, slopes)
        spread = np.sqrt(self.scale**2 + parameters)
        return self.setting.kappa * student(FREEDOM + len(self.residuals)) * spread

    @property
    def error(self) -> float:
        """Relative error (80 %) within the range of the rows: the half width at their mean uncertainty."""
        return float(np.expm1(np.median(self.half_width(self.slopes))))


def weights(residuals: Array, sigma: float) -> Array:
    """Weight of each row in the reweighted least squares of a t likelihood."""
    return (FREEDOM + 1) / (FREEDOM + (residuals / sigma) ** 2)


def student(freedom: float) -> float:
    """The 0.9 quantile of Student's t: Hill's expansion about the normal (CACM 396, 1970), within 0.2 % from 4 degrees on."""
    z = 1.2815515655446004
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3


def log_likelihood(residuals: Array, sigma: float) -> float:
    terms = _CONSTANT - log(sigma) - (FREEDOM + 1) / 2 * np.log1p((residuals / sigma) ** 2 / FREEDOM)
    return float(terms.sum())


def fit(questions: Sequence[Question], setting: Setting | None = None) -> Posterior:
    """The posterior of one phase's blocks given rows of one chip and software. Raises ValueError without rows."""
    pricer = Pricer(questions)
    return solve(pricer, np.log([q.measured for q in questions]), setting or SETTINGS[pricer.phase])


def solve(pricer: Pricer, measured: Array, setting: Setting) -> Posterior:
    """Gauss-Newton on the posterior, damped where a step would make it worse."""
    blocks = pricer.blocks
    precision = np.diag(1 / (setting.width * np.array([b.deviation for b in blocks])) ** 2)
    x = np.zeros(len(blocks))
    expected, slopes = pricer.linear(x)
    before = residuals = measured - expected
    value, damping = _objective(residuals, x, precision, setting.sigma), 0.0
    for _ in range(ROUNDS):
        move = np.clip(_step(residuals, slopes, x, precision, setting.sigma, damping), -LONGEST, LONGEST)
        expected, tried = pricer.linear(x + move)
        worth = _objective(measured - expected, x + move, precision, setting.sigma)
        if worth > value:
            x, residuals, slopes, gain = x + move, measured - expected, tried, worth - value
            value, damping = worth, damping / 10
            if gain < SETTLED:
                break
        else:
            damping = max(10 * damping, 1.0)
    covariance = np.linalg.inv(_information(residuals, slopes, precision, setting.sigma))
    evidence = _evidence(before, residuals, slopes, x, precision)
    return Posterior(pricer.phase, blocks, x, covariance, residuals, before, slopes, setting, evidence)


def _evidence(before: Array, residuals: Array, slopes: Array, x: Array, precision: Array) -> float:
    """Laplace's evidence for moved constants less that for the shipped ones, each over the scales a row's error may have."""
    shipped = [log_likelihood(before, sigma) for sigma in SCALES]
    moved = [
        _objective(residuals, x, precision, sigma)
        + 0.5 * np.linalg.slogdet(np.linalg.solve(_information(residuals, slopes, precision, sigma), precision))[1]
        for sigma in SCALES
    ]
    return float(np.logaddexp.reduce(moved) - np.logaddexp.reduce(shipped))


def _objective(residuals: Array, x: Array, precision: Array, sigma: float) -> float:
    return log_likelihood(residuals, sigma) - 0.5 * float(x @ precision @ x)


def _information(residuals: Array, slopes: Array, precision: Array, sigma: float) -> Array:
    w = weights(residuals, sigma) / sigma**2
    return slopes.T @ (w[:, None] * slopes) + precision


def _step(residuals: Array, slopes: Array, x: Array, precision: Array, sigma: float, damping: float) -> Array:
    w = weights(residuals, sigma) / sigma**2
    gradient = slopes.T @ (w * residuals) - precision @ x
    return np.linalg.solve(_information(residuals, slopes, precision, sigma) + damping * precision, gradient)
