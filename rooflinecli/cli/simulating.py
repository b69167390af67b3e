"""What `roofline simulate` does once its options are read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.cli.progress import Progress
from rooflinecli.errors import UsageError


@dataclass
class Ask:
    """Options of an estimate, of the load, and those that a study varies, as written."""

    options: dict[str, Any]
    given: dict[str, Any]
    varied: dict[str, str | None]
    seeds: int | None
    interval: bool | None
    requests_out: Path | None
    plot: str | None
    plot_kind: str
    jobs: int
    cluster: str | None
    format: str
    out: Path | None
    width: int


def run(ask: Ask) -> bool:
    """Simulate and print; True when every promise is kept."""
    from rooflinecli.answers.simulate.study import cells
    from rooflinecli.render.plot import check

    if ask.plot:
        check(ask.plot)
    found = cells(ask.options, ask.given, ask.varied)
    if len(found) > 1:
        return _study(ask, found)
    return _one(ask, found[0])


def _one(ask: Ask, cell: Any) -> bool:
    """A single question: its run, its interval, its files."""
    from rooflinecli.answers.simulate.run import fewest, run, simulate
    from rooflinecli.cli.output import write
    from rooflinecli.render.requests import check, save
    from rooflinecli.render.simulate import text
    from rooflinecli.spread import spread_over

    if ask.requests_out is not None:
        check(ask.requests_out)
    bar = Progress(cell.question.expected, "requests")
    try:
        found, fewer = fewest(cell.question, tell=bar.add) if cell.fewest else (run(cell.question, bar.add), None)
    finally:
        bar.close()
    result = simulate(found, fewer, ask.seeds, ask.interval, spread_over(ask.jobs, ask.cluster))
    write(text(result, ask.format, ask.width), ask.out)
    if ask.requests_out is not None:
        save(found.times, ask.requests_out)
    if ask.plot:
        from rooflinecli.answers.simulate.picture import picture
        from rooflinecli.render.plot import draw

        drawn = draw(picture(found, ask.plot_kind), ask.plot)
        if drawn:
            print(drawn)
    if result["interrupted"]:
        import typer

        raise typer.Exit(130)
    return bool(result["slo"] is None or result["slo"]["kept"])


def _study(ask: Ask, found: list[Any]) -> bool:
    """Several questions: a row each."""
    from rooflinecli.answers.simulate.study import study
    from rooflinecli.cli.output import write
    from rooflinecli.render.simulate import rows
    from rooflinecli.spread import spread_over

    if ask.requests_out is not None:
        raise UsageError(
            "--requests-out belongs to a single simulation; leave one value of each option", "requests-out"
        )
    bar = Progress(len(found), "simulations")
    result = study(found, spread_over(ask.jobs, ask.cluster), bar.add)
    bar.close()
    write(rows(result, ask.format, ask.width), ask.out)
    if ask.plot:
        from rooflinecli.answers.simulate.picture import over_rates
        from rooflinecli.render.plot import draw

        drawn = draw(over_rates(result), ask.plot)
        if drawn:
            print(drawn)
    if len(result["rows"]) < len(found):
        import typer

        print(f"interrupted: {len(result['rows'])} of {len(found)} simulations had ended", file=sys.stderr)
        raise typer.Exit(130)
    return bool(result["kept"])
