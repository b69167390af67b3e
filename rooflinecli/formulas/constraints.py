"""Constraints on a layout, as formulas that return truth values: a scalar raises or reports, a sweep masks."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DEFINITION = "definition"


@formula("ok", "bool", _DEFINITION)
def divides(divisor: Number, number: Number) -> Number:
    """`number` splits evenly into `divisor` parts."""
    return num.floor(number / divisor) * divisor == number


@formula("ok", "bool", _DEFINITION)
def within(needed: Number, available: Number) -> Number:
    """A size is within its limit."""
    return needed <= available
