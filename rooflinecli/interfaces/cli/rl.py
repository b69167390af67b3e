"""`roofline rl`: the question, and the view of its answer."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import Infeasible
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import write
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.rl.question import Rl
from rooflinecli.specs.options import OptText, field


class RlDelivery(Delivery):
    """An answer, or the launch of its layout."""

    # fmt: off
    emit: OptText = field("free", "Print the launch of this layout instead: verl or nemo-rl.", default=None, metavar="TOOL")
    # fmt: on


def run(question: Rl, how: RlDelivery) -> int:
    """Print the answer. Raises Infeasible after it where the roles do not fit."""
    if how.emit is not None:
        write(question.launch(how.emit), None if how.out is None else Path(how.out))
        return 0
    answer = question.answer()
    show(answer, "rl", how, table="candidates" if question.search else "parts")
    problem = question.infeasible(answer)
    if problem:
        raise Infeasible(problem)
    return 0


app = command(Rl, run, RlDelivery)
