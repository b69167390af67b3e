"""`roofline plan MODEL --tokens 15T --deadline 30d --hw h100,b200`: how many, which, how long, how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import CHIPS, CLUSTER, FORMAT, JOBS, OUT, PRICES, SLO, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.questions.check.settings import Bound
from rooflinecli.specs.options import LOAD

app = typer.Typer(**QUIET)
_Opt = typer.Option
_LAYOUT = ("tp", "pp", "dp", "cp", "ep", "zero", "micro-batch", "virtual-stages", "recompute", "sequence-parallel")


@app.command(
    cls=PanelCommand,
    epilog="roofline plan llama-3-70b --tokens 15T --deadline 30d --hw h100,b200,tpu-v6e\n"
    "roofline plan llama-3-70b --tokens 15T --budget '10 M USD' --hw h100,mi300x --price mi300x=2.50\n"
    "roofline plan llama-3-70b --phase decode --qps 50 --slo ttft=1s,itl=40ms --hw h100,b200",
)
@asks(
    ranged=_LAYOUT,
    without=("concurrency", "stages", "recompute-modules", "recompute-layers"),
    help={
        "phase": "train (default), or decode for a service at --qps.",
        "n": "The most devices to have of a chip.",
        "batch": "Global batch (4M-tokens works too); serving: batches to try (1..1024).",
        **dict.fromkeys(_LAYOUT, "Restrict the layouts that are searched, e.g. to 8 or 4,8."),
        "recompute": "Restrict recomputation, e.g. to none,selective.",
        "sequence-parallel": "Restrict to yes or no.",
    },
)
def plan(
    options: dict[str, Any],
    hw: list[str] = CHIPS,
    deadline: str = _Opt(
        None,
        metavar="TIME",
        rich_help_panel=LOAD,
        help="When the run has to be done, such as 30d; a service: how long it is paid for.",
    ),
    budget: str = _Opt(
        None,
        metavar="MONEY",
        rich_help_panel=LOAD,
        help="The most to pay in all, such as '2 M USD'; alone: the shortest run that it pays for.",
    ),
    qps: str = _Opt(None, metavar="RATE", rich_help_panel=LOAD, help="Serving: requests per second to carry."),
    slo: str = SLO,
    price: list[str] = PRICES,
    where: list[str] = _Opt(
        None, "--where", metavar="CONDITION", help="What must also hold, e.g. 'train.memory.headroom >= 10 %'; repeat."
    ),
    hold: Bound = _Opt(Bound.pessimistic, help="Which end is held to the limits: pessimistic, expected or floor."),
    jobs: int = JOBS,
    cluster: str = CLUSTER,
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """How many devices, of which chip, for how long, at what bill: every chip's answer side by side, the cheapest first.

    Training: the fewest devices of each chip that see --tokens by --deadline, or the shortest run that --budget pays for, each with the
    best layout by search. Serving: the fewest that carry --qps inside --slo. All held at the pessimistic end of the estimate.
    Exit code 1 when no chip can.
    """
    from rooflinecli.core.parallel_map import spread_over
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.interfaces.cli.progress import Progress
    from rooflinecli.questions.plan.answer import plan as answer
    from rooflinecli.render.views.plan import render

    over = spread_over(jobs, cluster) if jobs > 1 or cluster else None
    asked = {**options, "hw": ",".join(hw), **({"price": ",".join(price)} if price else {})}
    bar = Progress(asked["hw"].count(",") + 1, "chips")
    found = answer(asked, deadline, budget, hold.value, where or [], qps, slo, over, lambda _: bar.add(1))
    bar.close()
    write(render(found, format.value, columns(wide, out)), out)
    if not found["feasible"]:
        raise typer.Exit(1)
