"""`roofline plan`: the question, its progress and its page."""

from __future__ import annotations

import sys

from rooflinecli.interfaces.cli.from_question import Plotted, Spread, command
from rooflinecli.interfaces.cli.output import INTERRUPTED
from rooflinecli.interfaces.cli.progress import Progress
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.plan.question import Plan


class PlanDelivery(Plotted, Spread):
    """Where the answer goes, and its picture."""


def run(question: Plan, how: PlanDelivery) -> int:
    """Plan and print; the exit code is 1 where no chip can."""
    asked = ",".join(question.hw).count(",") + 1
    bar = Progress(asked, "chips")
    found = question.answer(lambda _: bar.add(1), how.over(question))
    bar.close()
    show(found, "plan", how, table="rows")
    if len(found.rows) < asked:
        print(f"interrupted: {len(found.rows)} of {asked} chips were planned", file=sys.stderr)
        return INTERRUPTED
    return 0 if found.feasible else 1


app = command(Plan, run, PlanDelivery)
