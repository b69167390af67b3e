"""Conditions as people write them: `decode.time_s <= 40 ms`, with the unit that the quantity's name ends in."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.record import MISSING, at
from rooflinecli.core.units import si
from rooflinecli.engine.interval_bound import interval_bound
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs import quantities
from rooflinecli.specs.quantities import unit_of

OPERATORS: dict[str, Callable[[Number, Number], Number]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_TEXT = re.compile(r"^\s*([A-Za-z_][\w.\-]*)\s*(<=|>=|==|!=|<|>|=|≤|≥)\s*(.+?)\s*$")
_SPELLING = {"=": "==", "≤": "<=", "≥": ">="}


@dataclass(frozen=True)
class Condition:
    """`quantity` compared with `value` (SI, or a word such as a bound)."""

    text: str
    quantity: str
    comparison: str
    value: float | str

    def holds(self, found: Number) -> Number:
        """Where it holds; nothing holds for not-a-number."""
        return OPERATORS[self.comparison](found, self.value)

    def at_bound(self, value: Number, phase: PhaseAnswer | None, bound: str) -> Number:
        """The value that the limit is compared with: the worse end of an inequality's quantity; an equality has the expected one."""
        if self.comparison in ("==", "!="):
            return value
        return interval_bound(value, self.quantity, phase, bound, self.comparison in ("<=", "<"))

    def missed(self, found: float) -> str:
        """The limit and what stands instead, for people."""
        unit = quantities.unit_of(self.quantity)
        shown = [f"{n:.4g}" if unit in ("count", "fraction") else si(float(n), unit, 4) for n in (found, self.value)]
        return f"{quantities.describe_path(self.quantity)} is {shown[0]}, wanted {self.comparison} {shown[1]}"

    def shortfall(self, found: Number) -> Number:
        """How far off, relative to the limit: 0 on it, above 0 beyond it."""
        assert isinstance(self.value, float)
        gap = (found - self.value) if self.comparison in ("<=", "<", "==") else (self.value - found)
        return gap / abs(self.value) if self.value else gap


def condition(text: str) -> Condition:
    """Parse one condition. Raises UsageError that shows the form."""
    match = _TEXT.match(text)
    if not match:
        raise UsageError(f"--where {text!r}: write QUANTITY <= VALUE, for example 'decode.time_s <= 40 ms'")
    name, comparison, written = match.groups()
    name, comparison = quantities.canonical(name), _SPELLING.get(comparison, comparison)
    if name.endswith(".bottleneck"):
        return Condition(text, name, comparison, written)
    return Condition(text, name, comparison, _value(text, name, written))


def _value(text: str, name: str, written: str) -> float:
    unit = unit_of(name)
    try:
        found = float(written)
    except ValueError:
        try:
            found = units.parse(written, "1" if unit in ("count", "fraction") else unit)
        except ValueError as error:
            raise UsageError(f"--where {text!r}: {error}", "where") from None
    if not math.isfinite(found):
        raise UsageError(f"--where {text!r}: {written} is not a finite number; write a limit that can be met", "where")
    return found


def quantity_of(result: EstimateAnswer, name: str) -> Number:
    """A quantity of one estimate by its path; None when it has none."""
    head = name.partition(".")[0]
    value = at(result.phases if head in result.phases else result, name)
    return None if value is MISSING else value
