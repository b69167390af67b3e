"""Constant groups, the unknowns of a calibration, and their posterior: factors, covariance, and the interval that follows.

One factor acts on the time of each group, above one being slower: a fraction of a peak is divided by it, seconds are multiplied. Every
format and variant of a class moves together, since a handful of rows cannot separate them. The prior is the error of the shipped value.
The likelihood is that of Lange, Little and Taylor 1989 (Robust statistical modeling using the t distribution) with 4 degrees of
freedom, so that a corrupted row loses weight; the prior stays normal, so that constants that no row informs stay as shipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import lgamma, log, pi
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rooflinecli.core.num import Number
from rooflinecli.price.overrides import EFFICIENCY, ENGINE, factor

NORMAL_80 = 1.2815515655446004  # standard deviations within which a normal variable lies with probability 0.8


@dataclass(frozen=True)
class ConstantGroup:
    """One unknown: its name, the shipped relative error (80%), and the constants that move with it."""

    name: str
    error: float
    paths: tuple[str, ...]

    @property
    def deviation(self) -> float:
        """Prior standard deviation of the logarithm of the factor."""
        return math.log1p(self.error) / NORMAL_80

    def factors(self, x: float | Array) -> dict[str, Number]:
        """Constants -> their factor where the logarithm of the group's is x (a number or an array)."""
        slower = np.exp(x)
        return {path: factor(path, slower) for path in self.paths}


def _paths(written: str) -> tuple[str, ...]:
    """'matmul gather .memory' -> the field of each class; 'engine .per_step' -> that of the engine."""
    kinds, _, names = written.partition(" .")
    return tuple(
        f"{ENGINE}.{name}" if kind == "engine" else f"{EFFICIENCY}.{kind}.{name}"
        for kind in kinds.split()
        for name in names.split()
    )


def _blocks() -> dict[str, tuple[ConstantGroup, ...]]:
    """The groups of each phase, as constant_groups.yaml has them."""
    rows = yaml.safe_load(Path(__file__).with_name("constant_groups.yaml").read_text(encoding="utf-8"))
    groups = {
        kind: tuple(
            ConstantGroup(name, error, tuple(path for text in texts for path in _paths(text)))
            for name, (error, *texts) in group.items()
        )
        for kind, group in rows.items()
    }
    serving = groups["serving"]
    return {"train": groups["training"], "decode": serving, "prefill": serving, "ttft": serving + groups["queue"]}


BLOCKS = _blocks()


def merged(phase: str, x: Array) -> dict[str, Number]:
    """Factors of all groups of a phase at `x`, whose first axis is the groups."""
    found: dict[str, Number] = {}
    for block, value in zip(BLOCKS[phase], x, strict=True):
        for path, moved in block.factors(value).items():
            found[path] = found[path] * moved if path in found else moved
    return found


Array = NDArray[Any]  # of float64
FREEDOM = 4.0
_CONSTANT = lgamma((FREEDOM + 1) / 2) - lgamma(FREEDOM / 2) - 0.5 * log(FREEDOM * pi)


@dataclass(frozen=True)
class PriorSettings:
    """Settings of a phase's prior and likelihood; errors are logarithms.

    width: of the priors, in shipped errors. sigma: scale of a row's own error in the fit. spread: of the rows of one machine about it.
    kappa: widens the interval. least: evidence (nats) from which moved constants are taken. scales: errors of a row over which the
    evidence is taken. amplitude, noise: deviations of the local residual and of rows at one place. caution: squared spreads by which
    rows must predict each other before they are followed.

    The point depends on width / sigma alone, but a small sigma takes an outlier out of it sooner than `spread` would.
    """

    width: float
    sigma: float
    spread: float
    kappa: float
    least: float = 0.0
    scales: tuple[float, ...] = (0.03, 0.06, 0.12)
    amplitude: float = 0.15
    noise: float = 0.06
    caution: float = 2.0


# chosen on published families, scored on constants that were refitted without them (`python -m lab.calibration_study`)
SETTINGS = {
    "train": PriorSettings(1.25, 0.05, 0.1, 1.15, -0.7, caution=0.5),
    "decode": PriorSettings(1.5, 0.08, 0.08, 1.4),
    "prefill": PriorSettings(2.0, 0.15, 0.15, 1.3, caution=4.0),
    "ttft": PriorSettings(1.0, 0.15, 0.15, 1.7, 0.0, (0.06, 0.12, 0.24), amplitude=0.5, noise=0.15, caution=0.5),
}


@dataclass(eq=False)
class Posterior:
    """The fit: logarithms of the factors, their covariance, and residuals and slopes of the rows."""

    phase: str
    blocks: tuple[ConstantGroup, ...]
    x: Array  # [groups]
    covariance: Array  # [groups, groups]
    residuals: Array  # ln(measured / fitted) [rows]
    before: Array  # ln(measured / shipped) [rows]
    slopes: Array  # d ln t / d x at the fit [rows, groups]
    setting: PriorSettings
    evidence: float  # of the fit less that of the shipped constants, nats
    share: float = 1.0  # of the fitted move that is expected to help on rows that it has not seen

    @property
    def prior(self) -> Array:
        return self.setting.width * np.array([block.deviation for block in self.blocks])

    @property
    def contraction(self) -> Array:
        """1 - posterior / prior variance of each group [groups]."""
        return np.asarray(1 - np.diag(self.covariance) / self.prior**2)

    @property
    def supported(self) -> bool:
        """Whether the evidence favors moved constants over the shipped ones."""
        return self.evidence > self.setting.least

    @property
    def taken(self) -> Array:
        """Logarithms of the factors that are taken: a share of the fitted ones where the evidence favors them, else 0 [groups]."""
        return self.share * self.x if self.supported else 0 * self.x

    @property
    def kept(self) -> Array:
        """ln(measured / expected) under the factors that the evidence favors, in full [rows]."""
        return self.residuals if self.supported else self.before

    @property
    def scale(self) -> float:
        """Scale of a further row's error: the assumed one and the rows' residuals, as a t posterior weighs them."""
        k, spread = len(self.residuals), self.setting.spread
        left = self.before + self.share * (self.residuals - self.before)
        weighted = (np.minimum(weights(left, spread), 1) * left**2).sum()
        return float(np.sqrt((FREEDOM * spread**2 + weighted) / (FREEDOM + k)))

    def half_width(self, slopes: Array) -> Array:
        """80% half width of the logarithm of a further row's time, by its slopes [rows, groups]."""
        parameters = np.einsum("rb,bc,rc->r", slopes, self.covariance, slopes)
        spread = np.sqrt(self.scale**2 + parameters)
        return np.asarray(self.setting.kappa * student(FREEDOM + len(self.residuals)) * spread)

    @property
    def error(self) -> float:
        """Relative error (80%) within the range of the rows: the half width at their mean uncertainty."""
        return float(np.expm1(np.median(self.half_width(self.slopes))))


def weights(residuals: Array, sigma: float) -> Array:
    """Weight of each row in the reweighted least squares of a t likelihood."""
    return (FREEDOM + 1) / (FREEDOM + (residuals / sigma) ** 2)


def student(freedom: float) -> float:
    """The 0.9 quantile of Student's t: Hill's expansion about the normal (CACM 396, 1970), within 0.2 % from 4 degrees on."""
    z = NORMAL_80
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3


def log_density(residuals: Array, sigma: float) -> Array:
    """Logarithm of the t density of each residual."""
    return _CONSTANT - log(sigma) - (FREEDOM + 1) / 2 * np.log1p((residuals / sigma) ** 2 / FREEDOM)


def log_likelihood(residuals: Array, sigma: float) -> float:
    """Logarithm of the likelihood of rows together."""
    return float(log_density(residuals, sigma).sum())
