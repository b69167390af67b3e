"""`roofline ops`: the question, its table and its roofline."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import write
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.ops.question import Ops
from rooflinecli.specs.options import OptText, field


class OpsDelivery(Delivery):
    """The operations as a table, and on the roofline."""

    # fmt: off
    plot: OptText = field("file", "The roofline with these operations on it: FILE.png, FILE.svg (extra `plot`), or - for the terminal.", default=None)
    # fmt: on


def run(question: Ops, how: OpsDelivery) -> int:
    """Print the operations; the exit code is 1 where the layout does not fit."""
    from rooflinecli.render.views.ops import draw

    answer = question.answer()
    drawn = draw(answer, how.plot) if how.plot else None
    if how.plot != "-" or how.out is not None or how.format != "table":
        show(answer, "ops", how, table="rows")
    if drawn:
        write(drawn)
    return 0 if answer.feasible else 1


app = command(Ops, run, OpsDelivery)
