"""`roofline plan`: the question, its progress and its page."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Spread, command
from rooflinecli.interfaces.cli.progress import Progress
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.plan.question import Plan


def run(question: Plan, how: Spread) -> int:
    """Plan and print; the exit code is 1 where no chip can."""
    bar = Progress(",".join(question.hw).count(",") + 1, "chips")
    found = question.answer(lambda _: bar.add(1), how.over())
    bar.close()
    show(found, "plan", how, table="rows")
    return 0 if found.feasible else 1


app = command(Plan, run, Spread)
