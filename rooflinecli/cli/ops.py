"""`roofline ops MODEL --hw HW`: every operation of a model on the roofline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.cli.borrowed import borrows
from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
@borrows
def ops(
    options: dict[str, Any],
    sort: str = _Opt("order", help="order (as they run), time, flops, bytes or intensity."),
    top: int = _Opt(None, min=1, help="Only so many rows of each phase, the longest first."),
    plot: str = _Opt(
        None, help="The roofline with these operations on it: FILE.png, FILE.svg (extra `plot`), or - for the terminal."
    ),
    format: Format = _Opt(Format.table, help="table, json, csv or markdown."),
    out: Path = _Opt(None, help="Write to a file instead."),
) -> None:
    """Each operation of a phase: shape, FLOPs, bytes, intensity, bound, floor, expected time and its share.

    The shares of a phase add up to its time in `roofline estimate`. Figures are of one device, over all launches of one
    prefill, decode step or training step. Exit code 1 when the plan does not fit.
    """
    from rooflinecli.answers import ask
    from rooflinecli.answers.ops import operations
    from rooflinecli.cli.output import write
    from rooflinecli.render.operations import draw, ranked, render

    answer = ranked(operations(ask.request(options)), sort, top)
    drawn = draw(answer, plot) if plot else None
    if plot != "-" or out is not None or format is not Format.table:
        write(render(answer, format.value), out)
    if drawn:
        write(drawn)
    if not answer["feasible"]:
        raise typer.Exit(1)
