"""What is resident: weights, gradients, optimizer state, activations, KV cache: rows of memory.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.formula_table import formula_table
from rooflinecli.core.num import Number

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))

_SIDES = "Shi et al. 2023, Distributed Shampoo: blocks of a maximum number of rows; Vyas et al. 2024, SOAP: a longer side has none"


@formula("M_L", "B", _SIDES + "; each factor in fp32")
def factor_bytes(side: Number, other: Number, widest: Number, factors: Number, blocked: Number) -> Number:
    """Bytes of the square factors on one side of a matrix: 4 factors s^2 of a side that is short enough, or of each of its blocks."""
    blocks = num.ceil(side / widest) * num.ceil(other / widest)
    short = num.minimum(side, widest)
    whole = num.where(side > widest, 0.0, 4 * factors * side**2)
    return num.where(blocked > 0, 4 * factors * short**2 * blocks, whole)
