"""`--explain QUANTITY`: the estimate again with traced inputs, and the one number asked for."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.derivation import Traced, leaf
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.core.num import Number
from rooflinecli.core.record import leaves
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.quantities import canonical
from rooflinecli.specs.request import Request


def quantities(result: Any) -> dict[str, Number]:
    """Dotted path -> number, for every number of a result; `phases.` may be left out."""
    return {
        path.removeprefix("phases."): value
        for path, value in leaves(result)
        if isinstance(value, (int, float, Traced)) and not isinstance(value, bool)
    }


def derivation(request: Request, quantity: str) -> Traced:
    """The traced number behind a quantity of the JSON. Raises UsageError naming what exists."""
    result = estimate(request, TracedInputs())
    found = quantities(result)
    name = canonical(quantity)
    if name not in found:
        shape = "the JSON of the same command shows every quantity"
        if any(path.startswith(name + ".") for path in found):
            inside = ", ".join(p for p in found if p.startswith(name + "."))
            raise UsageError(f"--explain {quantity} is a group; name one of {inside}")
        raise unknown("quantity", name, found, shape)
    value = found[name]
    return (
        value
        if isinstance(value, Traced)
        else leaf(name, value, "", "counted exactly, without arithmetic on hardware or workload")
    )
