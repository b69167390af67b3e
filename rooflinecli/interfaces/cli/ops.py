"""`roofline ops MODEL --hw HW`: every operation of a model on the roofline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE, most
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    cls=PanelCommand,
    epilog="roofline ops llama-3-8b --hw h100 -n 1 --phase decode --sort time --top 10\n"
    "roofline ops llama70b --hw h100 -n 8 --phase prefill --plot roofline.svg",
)
@asks()
def ops(
    options: dict[str, Any],
    sort: str = _Opt("order", metavar="CHOICE", help="order (as they run), time, flops, bytes or intensity."),
    top: int = most(None, "Only so many rows of each phase, the longest first."),
    plot: str = _Opt(
        None,
        metavar="FILE",
        help="The roofline with these operations on it: FILE.png, FILE.svg (extra `plot`), or - for the terminal.",
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Each operation of a phase: shape, FLOPs, bytes, intensity, bound, floor, expected time and its share.

    The shares of a phase add up to its time in `roofline estimate`. Figures are of one device, over all launches of one
    prefill, decode step or training step. Exit code 1 when the plan does not fit.
    """
    from rooflinecli.engine import build_request
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.ops.answer import operations
    from rooflinecli.render.views.ops import draw, ranked, render

    answer = ranked(operations(build_request.request(options)), sort, top)
    drawn = draw(answer, plot) if plot else None
    if plot != "-" or out is not None or format is not Format.table:
        write(render(answer, format.value, columns(wide, out)), out)
    if drawn:
        write(drawn)
    if not answer["feasible"]:
        raise typer.Exit(1)
