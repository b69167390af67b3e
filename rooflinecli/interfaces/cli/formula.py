"""`roofline formula`: the question, and the view or derivation of its answer."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import write
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.formula.question import FormulaQuestion
from rooflinecli.specs.options import Option, Switch, field


class Derived(Delivery):
    """A delivery that may be the derivation of the value instead."""

    # fmt: off
    explain: Switch = field("switch", "Show how the value follows from the arguments.", default=False)
    depth: Option = field("count", "Levels of an explanation.", default=3, least=0)
    # fmt: on


def _run(question: FormulaQuestion, how: Derived) -> None:
    found = question.answer(evaluated=how.explain)
    if how.explain and question.name is not None:
        from rooflinecli.core.derivation_text import explain

        write(explain(found["value"], int(how.depth)), None if how.out is None else Path(how.out))
    else:
        show(found, "calculators.formula", how, table="" if question.name else "formulas")


app = command(FormulaQuestion, _run, Derived)
