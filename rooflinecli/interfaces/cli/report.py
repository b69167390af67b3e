"""`roofline report`: one self-contained page of an estimate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import command
from rooflinecli.interfaces.cli.output import print_error, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OPTIONS, EstimateOptions, OptText, Text, field

if TYPE_CHECKING:
    from rooflinecli.questions.profile.compare_estimate import TraceComparison


class Report(EstimateOptions, Question[None]):
    """One HTML page: times, memory, the roofline, latency against throughput, derivations that unfold, sources.

    It loads nothing from anywhere, reads on a phone, in the dark and on paper, and embeds its numbers as JSON. Exit code 1
    when the layout does not fit; the page is written all the same.
    """

    verb = "report"
    examples = (
        "roofline report llama70b --hw h100 -n 8 --out report.html",
        "roofline report llama-3-8b --hw tpu-v5e -n 8 --phase train --batch 256",
    )
    # fmt: off
    slo: OptText = field("free", "With --qps or --concurrency: the SLO to compare with other loads: ttft=2s,itl=50ms@99.", default=None, metavar="LIMITS")
    profile: OptText = field("file", "A trace of the one phase asked for, as `roofline profile` reads it: measured beside expected.", default=None, metavar="TRACE")
    # fmt: on


class Page(Question[None]):
    """Where the page goes."""

    # fmt: off
    out: Text = field("file", "The page to write; - for standard output.", default="report.html", short="-o")
    # fmt: on


def run(question: Report, how: Page) -> int:
    """Write the page; the exit code is 1 where the layout does not fit."""
    from rooflinecli.engine import build_request
    from rooflinecli.questions.report import report as answer
    from rooflinecli.questions.simulate.from_estimate import served
    from rooflinecli.render.report.page import page

    options = question.options()
    request = build_request.request(options)
    traced = _traced(Path(question.profile), request) if question.profile is not None else None
    made = answer(request, served(options, question.slo) if _serves(request) else None, traced)
    write(page(made, estimate_command(options)), None if how.out == "-" else Path(how.out))
    if how.out != "-":
        print(f"wrote {how.out}")
    for violation in made.data["estimate"]["violations"]:
        print_error(violation["message"])
    return 0 if made.data["estimate"]["feasible"] else 1


def _traced(trace: Path, request: Any) -> TraceComparison:
    """The trace beside the estimate. Raises UsageError where that has several phases."""
    from rooflinecli.importers.profiles.read import read
    from rooflinecli.questions.profile.compare_estimate import against

    if len(request.phases) != 1:
        raise UsageError("--profile: a trace is of one phase; add --phase train, prefill or decode")
    return against(read(trace), request)


def _serves(request: Any) -> bool:
    """Whether a load of requests is asked for, by something that generates tokens."""
    return "decode" in request.phases and bool(request.model.lm_head and request.model.vocab_size)


def estimate_command(options: dict[str, Any]) -> str:
    """The `roofline estimate` line with the same options."""
    words = ["roofline", "estimate", str(options["model"])]
    for name, written in options.items():
        words += OPTIONS[name].words(written) if name != "model" else []
    return shlex.join(words)


app = command(Report, run, Page)  # type: ignore[type-var]
