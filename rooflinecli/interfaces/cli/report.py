"""`roofline report MODEL --hw HW --out report.html`: one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.specs.options import OPTIONS

app = typer.Typer(**QUIET)


@app.command(
    cls=PanelCommand,
    epilog="roofline report llama70b --hw h100 -n 8 --out report.html\n"
    "roofline report llama-3-8b --hw tpu-v5e -n 8 --phase train --batch 256",
)
@asks()
def report(
    options: dict[str, Any],
    out: Path = typer.Option(
        Path("report.html"), "--out", "-o", metavar="FILE", help="The page to write; - for standard output."
    ),
    slo: str = typer.Option(
        None,
        metavar="LIMITS",
        help="With --qps or --concurrency: the promise to hold against other loads: ttft=2s,itl=50ms@99.",
    ),
    profile: Path = typer.Option(
        None,
        metavar="TRACE",
        help="A trace of the one phase asked for, as `roofline profile` reads it: measured beside expected.",
    ),
) -> None:
    """One HTML page: times, memory, the roofline, latency against throughput, derivations that unfold, sources.

    It loads nothing from anywhere, reads on a phone, in the dark and on paper, and embeds its numbers as JSON. Exit code 1
    when the plan does not fit; the page is written all the same.
    """
    from rooflinecli.engine import build_request
    from rooflinecli.interfaces.cli.output import print_error, write
    from rooflinecli.questions.report import report as answer
    from rooflinecli.questions.simulate.from_estimate import served
    from rooflinecli.render.report.page import page

    request = build_request.request(options)
    traced = _traced(profile, request) if profile is not None else None
    made = answer(request, served(options, slo) if _serves(request) else None, traced)
    write(page(made, command(options)), None if str(out) == "-" else out)
    if str(out) != "-":
        print(f"wrote {out}")
    if not made.data["estimate"]["feasible"]:
        for violation in made.data["estimate"]["violations"]:
            print_error(violation["message"])
        raise typer.Exit(1)


def _traced(trace: Path, request: Any) -> dict[str, Any]:
    """The trace beside the estimate. Raises UsageError where that has several phases."""
    from rooflinecli.core.errors import UsageError
    from rooflinecli.importers.profiles.read import read
    from rooflinecli.questions.profile.compare_estimate import against

    if len(request.phases) != 1:
        raise UsageError("--profile: a trace is of one phase; add --phase train, prefill or decode")
    return against(read(trace), request)


def _serves(request: Any) -> bool:
    """Whether a load of requests is asked for, by something that writes tokens."""
    return "decode" in request.phases and bool(request.model.lm_head and request.model.vocab_size)


def command(options: dict[str, Any]) -> str:
    """The `roofline estimate` line with the same options."""
    import shlex

    words = ["roofline", "estimate", str(options["model"])]
    for name, written in options.items():
        words += OPTIONS[name].words(written) if name != "model" else []
    return shlex.join(words)
