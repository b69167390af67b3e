"""How much of a long run's time makes progress, when devices fail and state is saved now and then: rows of training_goodput.yaml,
and what takes more than one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.formula_table import formula_table
from rooflinecli.core.num import Number

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))


@formula("tau", "s", "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps, eq. 37")
def daly_interval(checkpoint: Number, mtbf: Number) -> Number:
    """Young's interval with Daly's higher-order terms, less the checkpoint itself; M when a checkpoint takes longer than 2 M."""
    ratio = checkpoint / (2 * mtbf)
    interval = num.sqrt(2 * checkpoint * mtbf) * (1 + num.sqrt(ratio) / 3 + ratio / 9) - checkpoint
    return num.where(checkpoint < 2 * mtbf, num.maximum(interval, 0), mtbf)


def spare_shortage(failed: Number, spares: float) -> float:
    """1 - sum over k < spares of e^-f f^k/k!: chance that every spare is under repair, with `failed` hosts there in the mean.

    Source: Palm's theorem, hosts under repair are Poisson.
    """
    mean = float(num.value(failed))
    term, found = num.E**-mean, 0.0
    for k in range(int(spares)):
        found, term = found + term, term * mean / (k + 1)
    return max(1 - found, 0.0)
