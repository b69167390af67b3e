"""Limits of quantities as people write them, in a command (`decode.time_s <= 40 ms`) or on a line of a plan (`decode.time_s: "<= 40 ms"`).

The unit of the limit follows from the quantity's name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

from rooflinecli.core import units
from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.record import MISSING, at, entries, leaves
from rooflinecli.core.units import si
from rooflinecli.engine.evaluate import interval, interval_bound
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs import quantities
from rooflinecli.specs.quantities import canonical, find, scales_with_time, unit_of
from rooflinecli.specs.request import PHASES

OPERATORS: dict[str, Callable[[Number, Number], Number]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_SIGN = "<=|>=|==|!=|<|>|=|≤|≥"
_CONDITION = re.compile(rf"^\s*([A-Za-z_][\w.\-]*)\s*({_SIGN})\s*(.+?)\s*$")
_REQUIREMENT = re.compile(rf"^\s*({_SIGN})?\s*(.*?)\s*$", re.DOTALL)
_SPELLING = {"≤": "<=", "≥": ">=", "=": "=="}
_EXAMPLES = units.EXAMPLES | {"B": "70 GB", "W": "500 W", "fraction": "40 %", "count": "8"}


@dataclass(frozen=True)
class Condition:
    """`quantity` compared with `limit`: SI, a word, or true/false; `written` is what a reader recognizes."""

    quantity: str
    comparison: str
    limit: float | str | bool
    written: str

    @property
    def upper(self) -> bool:
        """Whether the limit is one from above, so that a larger value is the worse one."""
        return self.comparison in ("<=", "<")

    def holds(self, value: Number) -> Number:
        """Where it holds; nothing holds for not-a-number."""
        return OPERATORS[self.comparison](value, self.limit)

    def at_bound(self, value: Number, phase: PhaseAnswer | None, bound: str) -> Number:
        """The value that the limit is compared with: the worse end of an inequality's quantity; an equality has the expected one."""
        if self.comparison in ("==", "!="):
            return value
        return interval_bound(value, self.quantity, phase, bound, self.upper)

    def missed(self, value: float) -> str:
        """The limit and what stands instead, for people."""
        unit = unit_of(self.quantity)
        shown = [f"{n:.4g}" if unit in ("count", "fraction") else si(float(n), unit, 4) for n in (value, self.limit)]
        return f"{quantities.describe_path(self.quantity)} is {shown[0]}, required {self.comparison} {shown[1]}"

    def shortfall(self, value: Number) -> Number:
        """How far off, relative to the limit: 0 on it, above 0 beyond it."""
        assert isinstance(self.limit, float)
        gap = (value - self.limit) if self.comparison in ("<=", "<", "==") else (self.limit - value)
        return gap / abs(self.limit) if self.limit else gap


@dataclass(frozen=True)
class Requirement(Condition):
    """A condition with its line in a plan, FILE:LINE; `implied` is one that no line states."""

    where: str
    implied: bool = False

    def margin(self, value: float) -> float | None:
        """Distance to the limit as a fraction of it, negative beyond it; None where the limit is no bound, or 0."""
        if isinstance(self.limit, (bool, str)) or self.comparison == "==" or not self.limit:
            return None
        return float((self.limit - value if self.upper else value - self.limit) / abs(self.limit))

    @property
    def file(self) -> str:
        return self.where.rpartition(":")[0]

    @property
    def line(self) -> int:
        return int(self.where.rpartition(":")[2])


def condition(text: str) -> Condition:
    """Parse one condition of a command; a bare number is SI. Raises UsageError that shows the form."""
    match = _CONDITION.match(text)
    if not match:
        raise UsageError(f"--where {text!r}: write QUANTITY <= VALUE, for example 'decode.time_s <= 40 ms'")
    name, comparison, written = match.groups()
    name, comparison = quantities.canonical(name), _SPELLING.get(comparison, comparison)
    if name.endswith(".bottleneck"):
        return Condition(name, comparison, written, text)
    try:
        return Condition(name, comparison, limit(name, written, bare=True), text)
    except ValueError as error:
        raise UsageError(f"--where {text!r}: {error}", "where") from None


def requirement(quantity: str, written: float | str | bool, where: str) -> Requirement:
    """Parse one requirement of a plan. Raises DataError when the comparison, the number or the unit is missing or wrong."""
    if isinstance(written, bool):
        return Requirement(quantity, "==", written, str(written).lower(), where)
    example = _EXAMPLES[unit_of(quantity)]
    try:
        if isinstance(written, (int, float)):
            raise ValueError(
                f'{written!r} has no comparison operator; write it as a string, for example "<= {example}"'
            )
        sign, rest = _REQUIREMENT.match(written).groups()  # type: ignore[union-attr]
        if not rest or sign == "!=":
            raise ValueError(f'{written!r} has no limit; write for example "<= {example}"')
        comparison = _SPELLING.get(sign, sign) if sign else None
        if rest[0].isalpha() and comparison in (None, "==") and unit_of(quantity) == "count":
            return Requirement(quantity, "==", rest, rest, where)
        if comparison is None:
            raise ValueError(f"{written!r} has no comparison operator; begin with <=, >=, <, > or ==")
        return Requirement(quantity, comparison, limit(quantity, rest), f"{comparison} {rest}", where)
    except ValueError as error:
        raise DataError(f"{where}: {quantity}: {error}") from None


def limit(quantity: str, text: str, *, bare: bool = False) -> float:
    """The SI value of a limit; with `bare`, a number of any quantity may leave out its unit.

    Raises ValueError for a wrong unit, what is not finite, and more than all of something.
    """
    unit = unit_of(quantity)
    number = _number(text, unit, bare)
    try:
        value = (
            units.parse(number, {"count": "tokens", "fraction": "1"}.get(unit, unit))
            if isinstance(number, str)
            else number
        )
    except (ValueError, OverflowError) as error:
        head = quantity.partition(".")[0]
        if find(quantity) is None and head in (*PHASES, "cost", "serve") and ".layout." not in quantity:
            raise ValueError(
                unknown("quantity", quantity, (f"{head}.{name}" for name in quantities.QUANTITIES))
            ) from None
        plain = {"count": "a count", "fraction": "a fraction"}.get(unit)
        wrong = f"{text!r}: wrong unit; {quantity} is {plain}, for example '{_EXAMPLES[unit]}'"
        raise ValueError(wrong if plain else error) from None
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number; write a limit that can be met")
    row = find(quantity)
    if value < 0 and unit in ("s", "B", "B/s", "FLOP/s", "tokens/s"):
        raise ValueError(f"{text!r} is negative, which {quantity} never is; write a limit that can be met")
    if unit == "fraction" and abs(value) > 1 and not (row is not None and row.distance):
        raise ValueError(f"{text!r} exceeds 100%; write a fraction such as '40%' or '0.4'")
    return value


def _number(text: str, unit: str, bare: bool) -> float | str:
    """Dollars may lead with $ and name what they buy; a bare number is enough where the name leaves no doubt."""
    if unit == "USD":
        text = re.sub(r"\s*(/\s*M\s?tok(ens)?|per million( \w+)? tokens)$", "", text)
    if unit in ("USD", "USD/h") and text.startswith("$"):
        text = f"{text[1:]} USD" + ("/h" if unit == "USD/h" and not text.endswith("/h") else "")
    if bare or unit in ("USD", "USD/h", "count", "fraction"):
        try:
            return float(text)
        except ValueError:
            return re.sub(r"(?<=\d)\s+(?=[MkBT] USD)", "", text)
    return text


def quantity_of(result: EstimateAnswer, name: str) -> Number:
    """A quantity of one estimate by its path, `phases.` left out; MISSING when it has none."""
    return at(result.phases if name.partition(".")[0] in PHASES else result, name)


@dataclass(frozen=True)
class IntervalBounds:
    """A value and, when it depends on a time, its values at that time's floor and at the ends of its interval."""

    expected: Number
    phase: str = ""
    floor: Number = None
    low: Number = None
    high: Number = None
    note: str = ""  # where the value comes from, if not from a phase

    @property
    def interval(self) -> bool:
        return self.low is not None

    def at(self, bound: str, less: bool) -> Number:
        """The value at a bound: the pessimistic, the expected or the floor's; `less`: whether less is better."""
        if not self.interval or bound == "expected":
            return self.expected
        return self.floor if bound == "floor" else self.high if less else self.low


def ends(result: EstimateAnswer, quantity: str) -> IntervalBounds:
    """Raises UsageError when the quantity does not exist, is a group, or has no value under the options given."""
    quantity = canonical(quantity)
    if quantity.startswith("memory."):
        # `memory.X`: the tightest phase. The least headroom, the most of anything else
        found = {phase: quantity_of(result, f"{phase}.{quantity}") for phase in result.phases}
        if any(not isinstance(v, (int, float)) for v in found.values()):
            raise _absent(result, quantity, MISSING, "")
        pick = min if quantity.endswith("headroom_fraction") else max
        phase = pick(found, key=lambda p: found[p])
        return IntervalBounds(found[phase], phase)
    value = quantity_of(result, quantity)
    name, phase = quantity.partition(".")[2], phase_of(quantity)
    if phase == "prefill" and quantity.startswith("cost.") and result.under_load and "decode" in result.phases:
        phase = "decode"  # one server does both phases: what its requests cost follows the rate at which they end
    if value is MISSING or entries(value) is not None:
        raise _absent(result, quantity, value, phase)
    if value is None:
        why = "use a quantity that this plan reports"
        if name in ("run_s", "steps") or (name == "training_usd" and result.cost.usd_per_device_hour is not None):
            why = "add `tokens`, the tokens of the whole run"
        elif "usd" in name:
            also = " and `tokens`" if name == "training_usd" else ""
            why = f"no price is known for {result.hardware.name}, so add `price` in USD/h{also}"
        raise UsageError(f"{quantity}: not available; {why}")
    time, follows = result.phases.get(phase), scales_with_time(quantity)
    if time is None or time.time_s <= 0 or not follows or isinstance(value, str):
        return IntervalBounds(value, phase)
    floor = interval_bound(value, quantity, time, "floor", less=True) if time.floor_s > 0 else value
    row = find(quantity)
    assert row is not None  # it follows a time
    low, high = interval(value, row, time) if value else (value, value)
    return IntervalBounds(value, phase, floor, low, high)


def phase_of(quantity: str) -> str:
    """The phase a quantity belongs to, or ''."""
    group, _, name = quantity.partition(".")
    row = find(name) if group == "cost" else None
    return group if group in PHASES else row.phase if row is not None else ""


def known(result: EstimateAnswer) -> list[str]:
    """Every quantity, word and switch of a result that a requirement can name."""
    paths = [path.removeprefix("phases.") for path, _ in leaves(result)]
    shared = {p.partition(".")[2] for p in paths if p.split(".")[1:2] == ["memory"]}
    return [*paths, *sorted(shared)]


def _absent(result: EstimateAnswer, quantity: str, value: object, phase: str) -> UsageError:
    names = known(result)
    if phase and phase not in result.phases:
        return UsageError(f"{quantity}: the check does not ask for {phase}; add it to `phase` or drop `phase`")
    inside = [n for n in names if n.startswith(f"{quantity}.")]
    if value is not MISSING and inside:
        return UsageError(f"{quantity}: is a group; use one of {', '.join(inside[:8])}")
    return unknown("quantity", quantity, names, "`roofline estimate --format json` shows every quantity")
