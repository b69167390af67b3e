"""A quantity at the end of its phase's interval that ranks: the worse one, the expected one, or the speed of light. Arrays or scalars.

One meaning for search, compare, the chooser and check: `pessimistic` is the end of the interval that is worse for who asks,
`expected` the middle, `floor` what the time's floor would make of it. What does not follow a time has one end.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.specs.quantities import scales_with_rate, scales_with_time


def interval_bound(value: Number, quantity: str, phase: PhaseAnswer | None, hold: str, less: bool) -> Number:
    """`value` of `quantity` at the end that `hold` names; `less`: whether less is better."""
    follows = scales_with_time(quantity)
    if phase is None or not follows or hold == "expected" or isinstance(value, (str, bool)):
        return value
    if hold == "floor":
        return _scaled(value, phase.time_s, phase.floor_s, follows < 0)
    if scales_with_rate(quantity):
        ends = [_scaled(value, phase.tokens_per_s, rate, follows > 0) for rate in phase.tokens_per_s_interval]
    else:
        ends = [_scaled(value, phase.time_s, time, follows < 0) for time in phase.interval_s]
    return num.maximum(*ends) if less else num.minimum(*ends)


def _scaled(value: Number, base: Any, other: Any, against: bool) -> Number:
    """In proportion to what it follows, or against it."""
    return value * (base / other) if against else value * (other / base)
