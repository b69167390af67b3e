"""A quantity of an estimate with its ends: the floor, the interval and the expected value, each derived from the time's own."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import MISSING, at, entries, leaves
from rooflinecli.engine.evaluate import interval, interval_bound
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.quantities import canonical, find, scales_with_time
from rooflinecli.specs.request import PHASES


@dataclass(frozen=True)
class IntervalBounds:
    """A value and, when it depends on a time, its values at that time's floor and at the ends of its interval."""

    expected: Any
    phase: str = ""
    floor: Any = None
    low: Any = None
    high: Any = None
    note: str = ""  # where the value comes from, if not from a phase

    @property
    def interval(self) -> bool:
        return self.low is not None

    def at(self, hold: str, less: bool) -> Any:
        """The value at a bound: the pessimistic, the expected or the floor's; `less`: whether less is better."""
        if not self.interval or hold == "expected":
            return self.expected
        return self.floor if hold == "floor" else self.high if less else self.low


def ends(result: EstimateAnswer, quantity: str) -> IntervalBounds:
    """Raises UsageError when the quantity does not exist, is a group, or has no value under the options given."""
    quantity = canonical(quantity)
    if quantity.startswith("memory."):
        # `memory.X`: the tightest phase. The least headroom, the most of anything else
        found = {phase: _walk(result, f"{phase}.{quantity}") for phase in result.phases}
        if any(not isinstance(v, (int, float)) for v in found.values()):
            raise _absent(result, quantity, MISSING, "")
        pick = min if quantity.endswith("headroom_fraction") else max
        phase = pick(found, key=lambda p: found[p])
        return IntervalBounds(found[phase], phase)
    value = _walk(result, quantity)
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


def _walk(result: EstimateAnswer, quantity: str) -> Any:
    return at(result.phases if quantity.partition(".")[0] in PHASES else result, quantity)


def known(result: EstimateAnswer) -> list[str]:
    """Every quantity, word and switch of a result that a requirement can name."""
    paths = [path.removeprefix("phases.") for path, _ in leaves(result)]
    shared = {p.partition(".")[2] for p in paths if p.split(".")[1:2] == ["memory"]}
    return [*paths, *sorted(shared)]


def _absent(result: EstimateAnswer, quantity: str, value: Any, phase: str) -> UsageError:
    names = known(result)
    if phase and phase not in result.phases:
        return UsageError(f"{quantity}: the check does not ask for {phase}; add it to `phase` or drop `phase`")
    inside = [n for n in names if n.startswith(f"{quantity}.")]
    if value is not MISSING and inside:
        return UsageError(f"{quantity}: is a group; use one of {', '.join(inside[:8])}")
    return unknown("quantity", quantity, names, "`roofline estimate --format json` shows every quantity")
