"""Roots of monotone formulas, for answers that a formula gives only the other way round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import leaf


def decreasing_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function of a positive number crosses zero, by bisection of its logarithm."""
    a, b = math.log(low), math.log(high)
    for _ in range(200):
        middle = (a + b) / 2
        if middle in (a, b):
            break
        a, b = (middle, b) if function(math.exp(middle)) > 0 else (a, middle)
    return math.exp((a + b) / 2)


def solved_value(value: float, like: Any, symbol: str, unit: str, how: str) -> Any:
    """A number found by search, of the kind of `like`: a traced one says how it was found."""
    return leaf(symbol, value, unit, how) if num.value(like) is not like else value
