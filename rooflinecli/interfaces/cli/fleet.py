"""`roofline fleet FILE`: several models with their own traffic on one fleet."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import CLUSTER, FORMAT, JOBS, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.questions.check.settings import Bound

app = typer.Typer(**QUIET)
_Opt = typer.Option


class Objective(StrEnum):
    """What an assignment has least of."""

    cost = "cost"
    devices = "devices"


@app.command(epilog="roofline fleet examples/fleet.yaml --objective devices --split")
def fleet(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="YAML: groups of devices and models with their traffic (docs/plan.md)."
    ),
    hold: Bound = _Opt(
        None, help="Which end is held to rates and limits, instead of the file's: pessimistic, expected or floor."
    ),
    objective: Objective = _Opt(
        None, metavar="CHOICE", help="What there shall be least of: cost (where every price is known) or devices."
    ),
    split: bool = _Opt(
        False, "--split", help="Let a model run on several groups wherever that is less, not only where it must."
    ),
    jobs: int = JOBS,
    cluster: str = CLUSTER,
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Which model on which chips with what layout and how many replicas; what is left over, and how far traffic may grow.

    The least cost (or fewest devices) at which every model has its rate inside its limits, exactly; where the fleet does not carry
    all of it, the largest equal share of every model's traffic. Exit code 1 when it does not fit.
    """
    from rooflinecli.core.parallel_map import spread_over
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.fleet.answer import fleet as answer
    from rooflinecli.render.views.fleet import render

    over = spread_over(jobs, cluster) if jobs > 1 or cluster else None
    found = answer(file, hold.value if hold else None, objective.value if objective else None, split, over)
    write(render(found, format.value, columns(wide, out)), out)
    if not found["feasible"]:
        raise typer.Exit(1)
