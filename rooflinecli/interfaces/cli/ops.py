"""`roofline ops`: the question, its table and its roofline."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.ops.question import Ops
from rooflinecli.specs.options import OptText, field


class OpsDelivery(Delivery):
    """The operations as a table, and on the roofline."""

    # fmt: off
    plot: OptText = field("file", "The roofline with these operations on it: FILE.png, FILE.svg (extra `plot`), or - for the terminal.", default=None)
    # fmt: on


def run(question: Ops, how: OpsDelivery) -> int:
    """Print the operations; the exit code is 1 where the layout does not fit."""
    from rooflinecli.render.views.ops import draw, ranked, render

    answer = ranked(question.answer(), question.sort, question.top)
    drawn = draw(answer, how.plot) if how.plot else None
    out = None if how.out is None else Path(how.out)
    if how.plot != "-" or out is not None or how.format != "table":
        write(render(answer, how.format, columns(how.wide, out)), out)
    if drawn:
        write(drawn)
    return 0 if answer["feasible"] else 1


app = command(Ops, run, OpsDelivery)
