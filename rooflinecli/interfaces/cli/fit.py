"""`roofline fit`: the question and its page."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.fit.question import Fit


def run(question: Fit, how: Delivery) -> int:
    """Print what fits; the exit code is 1 where nothing does."""
    found = question.answer()
    show(found, "calculators.fit", how, table="files")
    return 0 if found.largest is not None else 1


app = command(Fit, run)
