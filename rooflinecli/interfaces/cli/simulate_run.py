"""What `roofline simulate` does once its options are read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.progress import Progress


@dataclass
class SimulateRunOptions:
    """Options of an estimate, of the load, and those that a study varies, as written."""

    options: dict[str, Any]
    given: dict[str, Any]
    varied: dict[str, str | None]
    seeds: int | None
    interval: bool | None
    requests_out: Path | None
    timeline: Path | None
    every: str | None
    plot: str | None
    plot_kind: str
    jobs: int
    cluster: str | None
    format: str
    out: Path | None
    width: int


def run(ask: SimulateRunOptions) -> bool:
    """Simulate and print; True when every promise is kept."""
    from rooflinecli.questions.simulate.study import cells
    from rooflinecli.render.formats.plot import check

    if ask.plot:
        check(ask.plot)
    found = cells(ask.options, ask.given, ask.varied)
    try:
        return _study(ask, found) if len(found) > 1 else _one(ask, found[0])
    except KeyboardInterrupt:
        nothing = "no simulation" if len(found) > 1 else "no request"
        print(f"interrupted: {nothing} had ended", file=sys.stderr)
        raise


def _one(ask: SimulateRunOptions, cell: Any) -> bool:
    """A single question: its run, its interval, its files."""
    from rooflinecli.core.parallel_map import spread_over
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.simulate.answer import simulate
    from rooflinecli.questions.simulate.min_replicas import min_replicas
    from rooflinecli.questions.simulate.run import run
    from rooflinecli.render.formats.request_log import check, save, table
    from rooflinecli.render.views.simulate import text

    for path, flag in ((ask.requests_out, "--requests-out"), (ask.timeline, "--timeline")):
        if path is not None:
            check(path, flag)
    every = _every(ask)
    bar = Progress(cell.question.expected, "requests")
    try:
        found, fewer = min_replicas(cell.question, tell=bar.add) if cell.fewest else (run(cell.question, bar.add), None)
    finally:
        bar.close()
    result = simulate(found, fewer, ask.seeds, ask.interval, spread_over(ask.jobs, ask.cluster))
    write(text(result, ask.format, ask.width), ask.out)
    if ask.requests_out is not None:
        save(table(found.every), ask.requests_out, "--requests-out")
    if ask.timeline is not None:
        from rooflinecli.simulate.timeline import timeline

        course = timeline(found.every, found.replicas, every, found.question.limits, found.paid)
        save(course, ask.timeline, "--timeline")
    if ask.plot:
        from rooflinecli.questions.simulate.plots import picture
        from rooflinecli.render.formats.plot import draw

        drawn = draw(picture(found, ask.plot_kind), ask.plot)
        if drawn:
            print(drawn)
    if result["interrupted"]:
        import typer

        raise typer.Exit(130)
    return bool(result["slo"] is None or result["slo"]["kept"])


def _every(ask: SimulateRunOptions) -> float:
    """Seconds of an interval of the timeline; 0: a round one. Raises UsageError."""
    from rooflinecli.specs.parse_values import seconds

    if ask.every is None:
        return 0.0
    if ask.timeline is None:
        raise UsageError("--every says how fine the timeline is; add --timeline FILE", "every")
    return seconds("--every", ask.every)


def _study(ask: SimulateRunOptions, found: list[Any]) -> bool:
    """Several questions: a row each."""
    from rooflinecli.core.parallel_map import spread_over
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.simulate.study import study
    from rooflinecli.render.views.simulate_study import rows

    for name, given in (("requests-out", ask.requests_out), ("timeline", ask.timeline)):
        if given is not None:
            raise UsageError(f"--{name} belongs to a single simulation; leave one value of each option", name)
    bar = Progress(len(found), "simulations")
    result = study(found, spread_over(ask.jobs, ask.cluster), bar.add)
    bar.close()
    write(rows(result, ask.format, ask.width), ask.out)
    if ask.plot:
        from rooflinecli.questions.simulate.plots import over_rates
        from rooflinecli.render.formats.plot import draw

        drawn = draw(over_rates(result), ask.plot)
        if drawn:
            print(drawn)
    if len(result["rows"]) < len(found):
        import typer

        print(f"interrupted: {len(result['rows'])} of {len(found)} simulations had ended", file=sys.stderr)
        raise typer.Exit(130)
    return bool(result["kept"])
