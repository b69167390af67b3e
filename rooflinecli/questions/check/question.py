"""`roofline check PLAN...` as a record."""

from __future__ import annotations

from dataclasses import field as key
from typing import TYPE_CHECKING

from rooflinecli.core.record import OPTIONAL, Record, former, former_keys
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptText, OptWhole, Text, Texts, field
from rooflinecli.specs.request import BOUNDS

if TYPE_CHECKING:
    from rooflinecli.questions.check.run import Measured


PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
Value = float | str | bool | None
Sizes = dict[str, float | str]  # devices and parallel sizes of a phase's layout
_WORDS = former_keys(inconclusive="unsure")


class RequirementAnswer(Record):
    """A requirement and the quantity it is about. `value` is the one at the bound that `value_bound` names; `explanation`: the bottleneck, or where the
    value comes from."""

    quantity: str
    file: str
    line: int
    written: str
    comparison: str
    limit: float | str | bool
    unit: str
    value: Value
    value_bound: str = key(metadata=former("held"))
    expected: Value
    floor: float | None
    interval: tuple[float, float] | None
    verdict: str = key(metadata=_WORDS)
    verdict_at_expected: str = key(metadata=_WORDS)
    margin: float | None  # fraction of the limit, negative beyond it
    explanation: str = key(metadata=former("bound", 2))
    reason: str
    implied: bool


class FixedOption(Record):
    """An option before and after."""

    option: str
    from_: object
    to: object


class FixedValue(Record):
    """A quantity that failed before, at the bound that its limit applies to."""

    quantity: str
    value: Value
    unit: str


class FixAnswer(Record):
    """Options with which a check passes, and the quantities that failed before."""

    text: str
    changes: list[FixedOption]
    values: list[FixedValue]


class CaseAnswer(Record):
    """One case of a check. `fixes` is None where none was searched."""

    name: str
    file: str
    line: int
    description: str
    bound: str = key(metadata=former("hold", 2))
    verdict: str = key(metadata=_WORDS)
    verdict_at_expected: str = key(metadata=_WORDS)
    model: str | None
    hardware: str | None
    layout: dict[str, Sizes]  # by phase
    options: dict[str, object] = key(metadata=former_keys(2, bound="hold"))
    binding: str | None
    problem: str
    requirements: list[RequirementAnswer]
    fixes: list[FixAnswer] | None = key(metadata=former("remedies"))


class Change(Record):
    """A verdict, layout or quantity that differs from the baseline; `change` is a fraction of the value before."""

    check: str
    what: str
    before: Value | dict[str, Sizes] = key(metadata=_WORDS)
    now: Value | dict[str, Sizes] = key(metadata=_WORDS)
    unit: str = ""
    change: float | None = None


class CheckSummary(Record):
    """Numbers of cases, of requirements, and of cases by verdict."""

    checks: int
    requirements: int
    pass_: int
    fail: int
    inconclusive: int = key(metadata=former("unsure"))


class CheckAnswer(Record):
    """Verdicts of all cases; `changes` and `tolerance` where there is a baseline."""

    schema: str = "roofline/check/3"
    passed: bool = key(metadata=former("holds"))
    on_inconclusive: str = key(metadata=former("unsure", 2))  # fail or warn
    summary: CheckSummary
    checks: list[CaseAnswer]
    changes: list[Change] | None = key(default=None, metadata=OPTIONAL | former("moved", 2))
    tolerance: float | None = key(default=None, metadata=OPTIONAL)


class Check(Question[CheckAnswer]):
    """Check capacity plans against their requirements: each passes, fails, or is inconclusive within the estimate's interval.

    Exit code 0 when all pass, 1 when one does not, 2 for a wrong command line, 3 for an invalid plan file.
    """

    verb = "check"
    examples = ("roofline check plan.yaml", "roofline check plans/*.yaml --format github --baseline accepted.json")
    # fmt: off
    plan: Texts = field("free", "YAML files of named checks (docs/check.md).", positional=True, several=True, metavar="PLAN...", kw_only=False)
    bound: OptText = field("choice", "Bound of the interval that limits are compared with, instead of the files'", default=None, choices=BOUNDS, former=("hold",))
    on_inconclusive: OptText = field("choice", "Verdict on a limit inside the interval", default=None, choices=("fail", "warn"), former=("unsure",))
    only: OptText = field("free", "Run only the checks whose name matches this pattern, such as 'chat*'.", default=None, metavar="PATTERN")
    fix_budget: OptWhole = field("whole", "Estimates that the search for fixes may take in all (300 less the checks, at least 60).", default=None, least=0, former=("suggest",))
    baseline: OptText = field("file", "A report saved earlier: show what changed since.", default=None)
    tolerance: Number = field("number", "Smallest change of a quantity that is shown, such as 2%.", default=0.02, metavar="SHARE")
    on_change: Text = field("choice", "Result of a change beyond the tolerance", default="warn", choices=("warn", "fail"), former=("moved",))
    # fmt: on

    def answer(self, measured: Measured | None = None) -> CheckAnswer:
        from rooflinecli.questions.check.answer import check

        return check(self, measured)
