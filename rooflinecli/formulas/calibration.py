"""Calibrated constants of the engine: times a factor, and fractions within 1."""

from __future__ import annotations

import math

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_OWN = "definition"


@formula("c'", "1", _OWN + ": a constant times what the user's own measurements say of it")
def calibrated(constant: Number, factor: Number) -> Number:
    """A constant without an upper bound: seconds, or a number of steps."""
    return constant * factor


@formula("e'", "1", _OWN + ": no kernel exceeds the datasheet")
def calibrated_fraction(fraction: Number, factor: Number) -> Number:
    """A fraction of a peak; at most 1, so that no calibration leads below the floor."""
    return num.minimum(fraction * factor, 1)


@formula("omega'", "1", _OWN + ": what is left uncovered shrinks where more is hidden, so 0 and 1 are no traps")
def calibrated_overlap(overlap: Number, factor: Number) -> Number:
    """The share of communication that is hidden: o f for f below one, 1 - (1 - o) / f above, which leaves 0 too."""
    above = num.maximum(factor, 1)
    return num.where(factor < 1, overlap * factor, 1 - (1 - overlap) / above)


@formula("k", "1", "Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, eq. 2.31: the squared exponential")  # fmt: skip
def similarity(distance_squared: Number) -> Number:
    """How far what holds at one place holds at another: 1 at the same, 0.61 at sizes e times larger, nothing far away."""
    return math.e ** (-distance_squared / 2)


@formula("f", "1", _OWN + ": a factor from its logarithm")
def slower(shift: Number) -> Number:
    """What times are multiplied by where their logarithm is moved."""
    return math.e**shift
