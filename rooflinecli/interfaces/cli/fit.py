"""`roofline fit`: the question and its page."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.show import show_text
from rooflinecli.questions.fit.question import Fit


def run(question: Fit, how: Delivery) -> int:
    """Print what fits; the exit code is 1 where nothing does."""
    from rooflinecli.render.views.fit import render

    found = question.answer()
    show_text(found, render, how)
    return 0 if found["largest"] is not None else 1


app = command(Fit, run)
