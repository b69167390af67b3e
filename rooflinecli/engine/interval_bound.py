"""The bound of the 80% interval at which a quantity is ranked and a limit is checked. Arrays or scalars.

One meaning for every verb: `pessimistic` is the worse end of the interval, `expected` the middle, and `floor` what the time's
roofline floor would make of it. A quantity that does not depend on a time has one value.
"""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.engine.derived import interval
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.specs.quantities import find, scales_with_time


def time_at_bound(answer: PhaseAnswer, bound: str) -> Number:
    """The time of a phase at a bound of its interval."""
    return {"pessimistic": answer.interval_s[1], "floor": answer.floor_s}.get(bound, answer.time_s)


def interval_bound(value: Number, quantity: str, phase: PhaseAnswer | None, bound: str, less: bool) -> Number:
    """`value` of `quantity` at `bound`; `less`: whether less is better. It scales with the time or the rate of its phase."""
    scales = scales_with_time(quantity)
    if phase is None or not scales or bound == "expected" or isinstance(value, (str, bool)):
        return value
    if bound == "floor":
        return _scaled(value, phase.time_s, phase.floor_s, scales < 0)
    row = find(quantity)
    assert row is not None  # it scales
    ends = interval(value, row, phase)
    return ends[1] if less else ends[0]


def _scaled(value: Number, base: Number, other: Number, inversely: bool) -> Number:
    return value * (base / other) if inversely else value * (other / base)
