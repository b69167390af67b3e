"""`roofline search MODEL --hw HW -n 2048 --phase train`: the best legal layout, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import CLUSTER, FORMAT, JOBS, OUT, PRICES, SLO, WIDE, most
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.specs.options import LAYOUT, LOAD

app = typer.Typer(**QUIET)
_Opt = typer.Option
_RESTRICTED = {
    "tp": "tensor parallel sizes: 8 or 4,8 or 1..8x2",
    "pp": "pipeline stages",
    "dp": "data parallel replicas",
    "cp": "context parallel sizes",
    "ep": "expert parallel sizes",
    "zero": "ZeRO stages, e.g. 1,3",
    "micro-batch": "micro-batches",
    "virtual-stages": "interleaved stages per device",
    "recompute": "recomputation, e.g. none,selective",
    "sequence-parallel": "to yes or no",
}


@app.command(
    cls=PanelCommand,
    epilog="roofline search llama-3-405b --hw h100 -n 2048 --batch 2048 --top 3\n"
    "roofline search llama70b --hw h100 -n 16 --phase decode --qps 5 --itl '40 ms'\n"
    "roofline search llama70b --hw h100,h200 --phase decode --qps 50 --slo itl=40ms",
)
@asks(
    ranged=_RESTRICTED,
    without=("concurrency", "qps", "stages", "recompute-modules", "recompute-layers"),
    help={
        "hw": "A name or alias (`roofline hardware`), or a YAML path; several with commas are searched side by side.",
        "phase": "train (default), or decode for serving (prefill is searched with it).",
        "n": "Devices: one count or several (training); the most to use (serving).",
        "batch": "Global batch (4M-tokens works too); serving: batches to try (1..1024).",
        **{name: f"Restrict {what}." for name, what in _RESTRICTED.items()},
    },
)
def search(
    options: dict[str, Any],
    objective: str = _Opt(
        None,
        "--objective",
        metavar="LIST",
        help="throughput, latency, cost, energy, devices, any quantity, or two for a Pareto front.",
    ),
    where: list[str] = _Opt(
        None,
        "--where",
        metavar="CONDITION",
        help="What must hold, e.g. 'train.mfu >= 0.4' or 'serve.itl_s <= 40 ms'; repeat. Memory always.",
    ),
    ttft: str = _Opt(
        None, metavar="TIME", rich_help_panel=LOAD, help="Serving: time to first token at most, e.g. '300 ms'."
    ),
    itl: str = _Opt(
        None, metavar="TIME", rich_help_panel=LOAD, help="Serving: inter-token latency at most, e.g. '40 ms'."
    ),
    slo: str = SLO,
    qps: str = _Opt(
        None,
        metavar="RATE",
        rich_help_panel=LOAD,
        help="Serving: requests per second to carry; finds the fewest devices.",
    ),
    price: list[str] = PRICES,
    top: int = most(5, "How many layouts to show, the best of each split of the devices."),
    practised: bool = _Opt(
        False, "--practised", help="Training: only layouts like published runs.", rich_help_panel=LAYOUT
    ),
    every: bool = _Opt(
        False, "--all", help="Training: every layout a row, not the best of each split.", rich_help_panel=LAYOUT
    ),
    sensitivity: bool = _Opt(
        False,
        "--sensitivity",
        help="Also: how the winner's time moves with each figure and constant, which of them would change the winner, what would settle it.",
    ),
    simulate: int = _Opt(
        0, "--simulate", min=0, metavar="COUNT", help="Serving at a rate: simulate the first so many layouts found."
    ),
    jobs: int = JOBS,
    cluster: str = CLUSTER,
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Every legal layout, priced exactly: the winner, what is next and why, what was rejected and by what.

    Training tries all splits over TP, PP, CP, DP, EP with every ZeRO stage, micro-batch, virtual stage, recomputation and
    sequence parallelism. Ranked by the pessimistic end of the interval (--hold); what no published run supports widens it.
    Serving tries instance layouts and batches, together and with prefill and decode pools apart.
    Exit code 1 when nothing is feasible; the nearest miss is shown.
    """
    from rooflinecli.interfaces.cli.search_run import SearchRunOptions, run

    limits: dict[str, str | None] = {"ttft": ttft, "itl": itl, "qps": qps}
    hands = SearchRunOptions(simulate, jobs, cluster, slo, practised, every)
    options |= {"price": ",".join(price)} if price else {}
    if not run(options, objective, where or [], limits, top, sensitivity, format.value, out, columns(wide, out), hands):
        raise typer.Exit(1)
