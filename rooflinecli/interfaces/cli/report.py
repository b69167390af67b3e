"""`roofline report`: the question, and where its page goes."""

from __future__ import annotations

import shlex
from pathlib import Path

from rooflinecli.importers.source import Options
from rooflinecli.interfaces.cli.from_question import Output, command
from rooflinecli.interfaces.cli.output import print_error, write
from rooflinecli.questions.report.question import Report
from rooflinecli.specs.options import OPTIONS, Text, field


class PageDelivery(Output):
    """Where the page goes."""

    # fmt: off
    out: Text = field("file", "The page to write; - for standard output.", default="report.html", short="-o")
    # fmt: on


def run(question: Report, how: PageDelivery) -> int:
    """Write the page; the exit code is 1 where the layout does not fit."""
    from rooflinecli.render.report.page import page

    answer, derivations = question.explained()
    text = page(answer, derivations, estimate_command(question.options()))
    write(text, None if how.out == "-" else Path(how.out))
    if how.out != "-":
        print(f"wrote {how.out}")
    for violation in answer.estimate.violations:
        print_error(violation.message)
    return 0 if answer.estimate.feasible else 1


def estimate_command(options: Options) -> str:
    """The `roofline estimate` line with the same options."""
    words = ["roofline", "estimate", str(options["model"])]
    for name, written in options.items():
        words += OPTIONS[name].words(written) if name != "model" else []
    return shlex.join(words)


app = command(Report, run, PageDelivery)
