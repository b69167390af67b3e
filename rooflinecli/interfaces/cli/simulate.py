"""`roofline simulate`: the question, and the files and plots of its answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.core.files import check_target
from rooflinecli.interfaces.cli.from_question import Study, command, draw, show
from rooflinecli.interfaces.cli.output import INTERRUPTED, Progress
from rooflinecli.questions.simulate.question import Simulate, SimulateAnswer
from rooflinecli.specs.options import OptNumber, OptText, Text, field

if TYPE_CHECKING:
    from rooflinecli.core.parallel_map import Workers
    from rooflinecli.questions.estimate.answer_types import TriedChange


class SimulateDelivery(Study):
    """Files and plots of a simulation, and the processes it is spread over."""

    # fmt: off
    requests_out: OptText = field("file", "Every request's times to FILE.csv or FILE.parquet.", default=None)
    timeline: OptText = field("file", "Arrivals, tokens, latency, batch and queue over time to FILE.csv or FILE.parquet.", default=None)
    timeline_interval: OptNumber = field("time", "Length of an interval of --timeline, such as 10s.", default=None, former=("every",))
    plot: OptText = field("file", "Curves of percentiles: FILE.png, FILE.svg, or - for the terminal.", default=None)
    plot_kind: Text = field("free", "percentiles, load (batch and queue over time), or slo (SLO attainment against the rate).", default="percentiles", metavar="CHOICE")
    # fmt: on


def run(cells: list[tuple[Simulate, dict[str, str]]], how: SimulateDelivery) -> int:
    """Simulate and print; the exit code is 1 where the SLO is not met."""
    from rooflinecli.core.parallel_map import worker_map
    from rooflinecli.render.formats import plot, request_log

    if how.plot:
        plot.check(how.plot)
    files = {"--requests-out": how.requests_out, "--timeline": how.timeline}
    for flag, path in files.items():
        if path is not None and len(cells) > 1:
            raise UsageError(f"{flag} belongs to a single simulation; leave one value of each option", flag[2:])
        if path is not None:
            check_target(Path(path), flag, request_log.FORMS)
    workers = how.workers([question for question, _ in cells]) or worker_map()
    try:
        return _study(cells, how, workers) if len(cells) > 1 else _one(cells[0][0], how, workers)
    except KeyboardInterrupt:
        print(f"interrupted: no {'simulation' if len(cells) > 1 else 'request'} had ended", file=sys.stderr)
        return INTERRUPTED


def _one(question: Simulate, how: SimulateDelivery, workers: Workers) -> int:
    """A single question: its answer, its interval, its files."""
    from rooflinecli.questions.simulate.answer import answer_and_run
    from rooflinecli.render.formats.request_log import save, table

    with Progress(question.expected, "requests") as bar:
        answer, ran = answer_and_run(question, bar.add, workers)
    show(answer, "simulate", how, changes=_changes(question, answer) if how.format not in ("json", "csv") else ())
    if how.requests_out is not None:
        save(table(ran.every), Path(how.requests_out), "--requests-out")
    if how.timeline is not None:
        from rooflinecli.simulate.summary import timeline

        course = timeline(ran.every, ran.replicas, how.timeline_interval or 0.0, question.limits, ran.paid)
        save(course, Path(how.timeline), "--timeline")
    if how.plot:
        from rooflinecli.render.views.pictures import of_run

        draw(of_run(ran, how.plot_kind), how.plot)
    return INTERRUPTED if answer.interrupted else 0 if answer.met else 1


def _changes(question: Simulate, answer: SimulateAnswer) -> list[TriedChange]:
    """Changes that shorten a decode step of this batch by the estimate."""
    from rooflinecli.core.errors import RooflineError
    from rooflinecli.questions.estimate.changes_to_try import answered

    if "itl_mean_s" not in answer.simulate:
        return []
    batch = max(round(answer.simulate["running_requests_mean"]), 1)
    try:
        return answered({**question.options(), "phase": ["decode"], "batch": batch}).changes_to_try or []
    except RooflineError:  # such as lengths that are a distribution, which an estimate does not take
        return []


def _study(cells: list[tuple[Simulate, dict[str, str]]], how: SimulateDelivery, workers: Workers) -> int:
    """Several questions: a row each."""
    from rooflinecli.questions.simulate.answer import study

    with Progress(len(cells), "simulations") as bar:
        answer = study(cells, workers, bar.add)
    show(answer, "simulate.study", how, table="rows")
    if how.plot:
        from rooflinecli.render.views.pictures import over_rates

        draw(over_rates(answer), how.plot)
    if len(answer.rows) < len(cells):
        print(f"interrupted: {len(answer.rows)} of {len(cells)} simulations had ended", file=sys.stderr)
        return INTERRUPTED
    return 0 if answer.met else 1


app = command(Simulate, run, SimulateDelivery, read=Simulate.cells)
