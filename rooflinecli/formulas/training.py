"""A training step: duration, utilization, optimizer and communication: rows of training.yaml, and what takes more than one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.formula_table import formula_table
from rooflinecli.core.num import Number

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))


def extrapolation_error(*errors: Number) -> Number:
    """sqrt(sum of r_k^2): kinds of extrapolation taken as independent."""
    total: Number = 0.0
    for error in errors:
        total = total + error**2
    return num.sqrt(total)


@formula(
    "F_L",
    "FLOP",
    "Gupta et al. 2018, Shampoo, and Vyas et al. 2024, SOAP: statistics, preconditioning and changes of basis are products with a square "
    "factor of the side; roots and bases are renewed every few steps, at the rate of a matmul",
)
def preconditioning_flops(
    side: Number, other: Number, widest: Number, products: Number, roots: Number, blocked: Number
) -> Number:
    """2 products s^2 t + roots s^3 for one side s of an s x t matrix: of a side that is short enough, or of each of its blocks."""
    blocks = num.ceil(side / widest) * num.ceil(other / widest)
    short, across = num.minimum(side, widest), num.minimum(other, widest)
    parts = (2 * products * short**2 * across + roots * short**3) * blocks
    whole = num.where(side > widest, 0.0, 2 * products * side**2 * other + roots * side**3)
    return num.where(blocked > 0, parts, whole)
