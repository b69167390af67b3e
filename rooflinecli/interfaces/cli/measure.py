"""`roofline measure [SUITE]`: time real kernels, fit the constants, write a hardware profile; `measure model` compares a whole model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.interfaces.cli.from_question import Delivery, add, show
from rooflinecli.interfaces.cli.main import PlainGroup, application
from rooflinecli.interfaces.cli.output import write
from rooflinecli.measure.question import SUITES, ModelComparison, OpenAIServer, Suite, VLLMServer, needs_jax
from rooflinecli.specs.options import Text, field

if TYPE_CHECKING:
    from rooflinecli.measure.run import MeasureAnswer


class MeasureDelivery(Delivery):
    """An answer on standard output; --out is the profile."""

    without = frozenset({"out", "schema"})
    # fmt: off
    format: Text = field("choice", "Format of the answer", default="table", choices=("table", "json"), short="-f")
    # fmt: on


class RunsDelivery(Delivery):
    """Runs of a server as JSON lines."""

    without = frozenset({"format", "schema", "wide"})


class _Default(PlainGroup):
    """`roofline measure --quick` is `roofline measure all --quick`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["all", *args]
        return super().parse_args(ctx, args)


def suite(question: Suite, how: MeasureDelivery) -> int:
    """Measure and print; the exit code is 1 where no profile was written, 130 after Ctrl-C."""
    needs_jax()
    from rooflinecli.render.views.measure import rate

    return _show(question.answer(rate), how)


def _show(answer: MeasureAnswer, how: MeasureDelivery) -> int:
    """Write the profile and print the run; returns the exit code."""
    from rooflinecli.render.views import measure as views

    if not answer.leader:
        return 0
    for sentence in [*views.warnings(answer.records, answer.failed), *answer.notes]:
        print(f"roofline: {sentence}", file=sys.stderr)
    if answer.text is not None:
        write(answer.text, answer.out)
    report: Any = answer.report() if how.format == "json" else answer
    show(report, "measure", how)
    return 130 if answer.interrupted else int(answer.withheld)


def model(question: ModelComparison, how: MeasureDelivery) -> None:
    """Compare a model with its prediction and print it."""
    answer = question.answer()
    if how.format == "table":
        for row in answer.phases:
            if row["warning"]:
                print(f"roofline: {row['phase']}: {row['warning']}", file=sys.stderr)
    show(answer, "measure.comparison", how)


def server(question: OpenAIServer, how: RunsDelivery) -> None:
    """Measure a server and print a line of JSON for each run."""
    import json

    write("\n".join(json.dumps(run) for run in question.answer()), None if how.out is None else Path(how.out))


app = application(
    cls=_Default,
    help="Time real kernels on this machine, fit the engine's constants and write a hardware profile "
    "that `estimate --hw` reads.",
)
for _suite in SUITES.values():
    add(app, _suite, suite, MeasureDelivery)
add(app, ModelComparison, model, MeasureDelivery)
add(app, OpenAIServer, server, RunsDelivery)
add(app, VLLMServer, server, RunsDelivery)
