"""`roofline fleet`: the question and its page."""

from __future__ import annotations

from rooflinecli.core.parallel_map import spread_over
from rooflinecli.interfaces.cli.from_question import Study, command
from rooflinecli.interfaces.cli.progress import counting
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.fleet.question import FleetPlan


def run(question: FleetPlan, how: Study) -> int:
    """Place the models and print; the exit code is 1 where they do not fit."""
    found = question.answer(counting(how.over(question) or spread_over(), "models on groups"))
    show(found, "plan.fleet", how, table="rows")
    return 0 if found.feasible else 1


app = command(FleetPlan, run, Study)
