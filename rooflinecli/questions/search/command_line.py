"""The whole command line that reproduces a row of a search."""

from __future__ import annotations

import shlex

from rooflinecli.engine import build_request
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.training_question import OPEN
from rooflinecli.specs.options import OPTIONS

_OF_QUESTION = ("model", "hw", "phase", "n")


def search_command(options: Options) -> str:
    """`roofline estimate` with every option of a question that leaves nothing to a search."""
    given = build_request.named(options)
    words = ["roofline", "estimate", str(given.pop("model")), "--hw", str(given.pop("hw"))]
    for name in OPTIONS:
        if name in given:
            words += OPTIONS[name].words(given[name])
    return shlex.join(words)


def estimate_command(options: Options, layout: str, serving: bool, phases: tuple[str, ...] = ()) -> str:
    """`roofline estimate` with the options of the question and those of the layout, whose own go before."""
    of_layout = {*_OF_QUESTION, *OPEN, *(("batch",) if serving else ())}
    words = ["roofline", "estimate", str(options["model"]), "--hw", str(options["hw"])]
    for phase in phases or (("prefill", "decode") if serving else ("train",)):
        words += ["--phase", phase]
    for name in OPTIONS:  # in the order of --help, however they were given
        if name in options and name not in of_layout:
            words += OPTIONS[name].words(options[name])
    return f"{shlex.join(words)} {layout}"
