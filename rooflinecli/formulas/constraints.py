"""What a plan must satisfy, as formulas that return truth values: a scalar raises or reports, a sweep masks."""

from __future__ import annotations

from rooflinecli import num
from rooflinecli.derivation import formula
from rooflinecli.num import Number

_DEFINITION = "definition"


@formula("ok", "bool", _DEFINITION)
def divides(divisor: Number, number: Number) -> Number:
    """`number` splits evenly into `divisor` parts."""
    return num.floor(number / divisor) * divisor == number


@formula(
    "ok",
    "bool",
    "equal pieces of the layers, or of the layers with embedding and loss counted as one each (Megatron-LM, "
    "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split)",
)
def splits_evenly(pieces: Number, layers: Number) -> Number:
    """The layers of a model come in so many pieces of a pipeline."""
    return divides(pieces, layers) | divides(pieces, layers + 2)


@formula("ok", "bool", _DEFINITION)
def within(needed: Number, available: Number) -> Number:
    """A need is met."""
    return needed <= available
