"""How a calibration moves a constant of the engine: by a factor, a share of one by as much as keeps it a share."""

from __future__ import annotations

from rooflinecli import num
from rooflinecli.derivation import formula
from rooflinecli.num import Number

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
