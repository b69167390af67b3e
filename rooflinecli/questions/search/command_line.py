"""The whole command line that reproduces a row of a search."""

from __future__ import annotations

import shlex
from typing import Any

from rooflinecli.engine import build_request
from rooflinecli.questions.search.training_question import OPEN
from rooflinecli.specs.options import OPTIONS

_SAID = ("model", "hw", "phase", "n")


def search_command(options: dict[str, Any]) -> str:
    """`roofline estimate` with every option of a question that leaves nothing to a search."""
    given = build_request.named(options)
    words = ["roofline", "estimate", str(given.pop("model")), "--hw", str(given.pop("hw"))]
    for name in OPTIONS:
        if name in given:
            words += OPTIONS[name].words(given[name])
    return shlex.join(words)


def estimate_command(options: dict[str, Any], layout: str, serving: bool, phases: tuple[str, ...] = ()) -> str:
    """`roofline estimate` with the options of the question and those of the layout, whose own go before."""
    layout_says = {*_SAID, *OPEN, *(("batch",) if serving else ())}
    words = ["roofline", "estimate", str(options["model"]), "--hw", str(options["hw"])]
    for phase in phases or (("prefill", "decode") if serving else ("train",)):
        words += ["--phase", phase]
    for name in OPTIONS:  # in the order of --help, however they were given
        if name in options and name not in layout_says:
            words += OPTIONS[name].words(options[name])
    return f"{shlex.join(words)} {layout}"
