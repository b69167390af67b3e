"""`roofline check PLAN...` as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.questions.check.answer_types import CheckAnswer
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptText, OptWhole, Text, Texts, field
from rooflinecli.specs.request import HOLDS

if TYPE_CHECKING:
    from rooflinecli.questions.check.measured_quantities import Measured


class Check(Question[CheckAnswer]):
    """Check capacity plans against their requirements: each passes, fails, or is inconclusive within the estimate's interval.

    Exit code 0 when all pass, 1 when one does not, 2 for a wrong command line, 3 for a plan that cannot be read as one.
    """

    verb = "check"
    examples = ("roofline check plan.yaml", "roofline check plans/*.yaml --format github --baseline accepted.json")
    # fmt: off
    plan: Texts = field("free", "YAML files of named checks (docs/check.md).", positional=True, several=True, metavar="PLAN...", kw_only=False)
    bound: OptText = field("choice", "Bound of the interval that limits are held to, instead of the files'", default=None, choices=HOLDS, former=("hold",))
    on_inconclusive: OptText = field("choice", "What a limit inside the interval amounts to, fail by default", default=None, choices=("fail", "warn"), former=("unsure",))
    only: OptText = field("free", "Run only the checks whose name matches this pattern, such as 'chat*'.", default=None, metavar="PATTERN")
    fix_budget: OptWhole = field("whole", "Estimates that the search for fixes may take in all (300 less the checks, at least 60).", default=None, least=0, former=("suggest",))
    baseline: OptText = field("file", "A report saved earlier: show what changed since.", default=None)
    tolerance: Number = field("number", "How far a quantity may move before it is shown, such as 2%.", default=0.02, metavar="SHARE")
    on_change: Text = field("choice", "What a move beyond the tolerance amounts to", default="warn", choices=("warn", "fail"), former=("moved",))
    # fmt: on

    def answer(self, measured: Measured | None = None) -> CheckAnswer:
        from rooflinecli.questions.check.answer import check

        return check(self, measured)
