"""`roofline rl`: the question, and the view of its answer."""

from __future__ import annotations

from rooflinecli.core.errors import Infeasible
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.rl.question import Rl


def run(question: Rl, how: Delivery) -> int:
    """Print the answer. Raises Infeasible after it where the roles do not fit."""
    answer = question.answer()
    show(answer, "rl", how, table="candidates" if question.search else "parts")
    problem = question.infeasible(answer)
    if problem:
        raise Infeasible(problem)
    return 0


app = command(Rl, run)
