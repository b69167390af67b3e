"""The answer of `roofline check`, schema roofline/check/2: SI throughout, the unit beside each value."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record, former, former_keys

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
Value = float | str | bool | None
Sizes = dict[str, float | str]  # devices and parallel sizes of a phase's layout
_WORDS = former_keys(inconclusive="unsure")


class RequirementAnswer(Record):
    """A requirement and the quantity it is about. `value` is the one at the bound that `value_bound` names."""

    quantity: str
    file: str
    line: int
    written: str
    comparison: str
    limit: float | str | bool
    unit: str
    value: Value
    value_bound: str = field(metadata=former("held"))
    expected: Value
    floor: float | None
    interval: tuple[float, float] | None
    verdict: str = field(metadata=_WORDS)
    verdict_at_expected: str = field(metadata=_WORDS)
    margin: float | None  # fraction of the limit, negative beyond it
    bound: str
    reason: str
    implied: bool


class OptionChange(Record):
    """An option before and after a fix."""

    option: str
    from_: Value
    to: Value


class QuantityValue(Record):
    """A quantity at the bound that its limit applies to."""

    quantity: str
    value: Value
    unit: str


class FixAnswer(Record):
    """Changes with which a check passes, and the quantities that failed before."""

    text: str
    changes: list[OptionChange]
    values: list[QuantityValue]


class CaseAnswer(Record):
    """One case of a check. `fixes` is None where none was searched."""

    name: str
    file: str
    line: int
    description: str
    hold: str
    verdict: str = field(metadata=_WORDS)
    verdict_at_expected: str = field(metadata=_WORDS)
    model: str | None
    hardware: str | None
    layout: dict[str, Sizes]  # by phase
    options: dict[str, object]
    binding: str | None
    problem: str
    requirements: list[RequirementAnswer]
    fixes: list[FixAnswer] | None = field(metadata=former("remedies"))


class Change(Record):
    """A verdict, layout or quantity that differs from the baseline; `change` is a fraction of the value before."""

    check: str
    what: str
    before: Value | dict[str, Sizes] = field(metadata=_WORDS)
    now: Value | dict[str, Sizes] = field(metadata=_WORDS)
    unit: str = ""
    change: float | None = None


class CheckSummary(Record):
    """Numbers of cases, of requirements, and of cases by verdict."""

    checks: int
    requirements: int
    pass_: int
    fail: int
    inconclusive: int = field(metadata=former("unsure"))


class CheckAnswer(Record):
    """Verdicts of all cases; `moved` and `tolerance` where there is a baseline."""

    schema: str = "roofline/check/2"
    passed: bool = field(metadata=former("holds"))
    unsure: str  # fail or warn: what an inconclusive requirement amounts to
    summary: CheckSummary
    checks: list[CaseAnswer]
    moved: list[Change] | None = field(default=None, metadata=OPTIONAL)
    tolerance: float | None = field(default=None, metadata=OPTIONAL)
