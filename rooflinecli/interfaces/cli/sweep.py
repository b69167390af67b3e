"""`roofline sweep MODEL --hw HW --batch 1..512 ...`: the same answer over a whole space."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import CLUSTER, JOBS, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import columns as room
from rooflinecli.specs.options import OPTIONS

app = typer.Typer(**QUIET)
_Opt = typer.Option


class SweepFormat(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"
    markdown = "markdown"
    parquet = "parquet"


class PlotKind(StrEnum):
    latency = "latency"
    roofline = "roofline"
    memory = "memory"


@app.command(
    cls=PanelCommand,
    epilog="roofline sweep llama70b --hw h100,h200 --tp 8 --batch 1..512x2\n"
    "roofline sweep llama-3-8b --hw h100 --set memory.bandwidth=x1,x2",
)
@asks(
    ranged=OPTIONS,
    without=("stages", "recompute-modules", "recompute-layers"),
    help={
        "model": "One or several models, comma-separated.",
        "hw": "One or several chips, comma-separated.",
        "phase": "prefill, decode, train; omitted: prefill and decode.",
        "n": "Devices; with it dp is what tp, pp and cp leave.",
    },
)
def sweep(
    options: dict[str, Any],
    set_: list[str] = _Opt(
        None,
        "--set",
        metavar="FIGURE=VALUES",
        help="A hardware figure: memory.bandwidth='2..5/0.5 TB/s', peak.bf16=x1,x2, efficiency.matmul.compute=0.6,0.8.",
    ),
    columns: str = _Opt(
        None, metavar="LIST", help="Columns by JSON path, group or pattern: decode.time_s,decode.memory,cost.*"
    ),
    feasible_only: bool = _Opt(
        False, "--feasible-only", help="Leave out points that do not fit or cannot be laid out."
    ),
    where: list[str] = _Opt(
        None, "--where", metavar="CONDITION", help="Keep points that satisfy, e.g. 'decode.time_s <= 40 ms'; repeat."
    ),
    part: str = _Opt(
        None, "--shard", metavar="I/N", help="i/n: the i-th of n equal parts; the parts concatenate to the whole."
    ),
    sensitivity: bool = _Opt(
        False, "--sensitivity", help="For a single point: how time moves with each hardware figure and constant."
    ),
    plot: str = _Opt(None, metavar="FILE", help="FILE.png, FILE.svg, or - for the terminal."),
    plot_kind: PlotKind = _Opt(
        PlotKind.latency,
        "--plot-kind",
        metavar="CHOICE",
        help="latency against throughput, the roofline, or memory against batch.",
    ),
    jobs: int = JOBS,
    cluster: str = CLUSTER,
    wide: bool = WIDE,
    format: SweepFormat = _Opt(
        SweepFormat.table, "--format", "-f", metavar="CHOICE", help="table, csv, json, jsonl, markdown or parquet."
    ),
    out: Path = OUT,
) -> None:
    """Every number of `estimate` over ranges: `1..512`, `1..512/8` (step), `1..512x2` (factor), lists `1k,4k,32k`.

    The plan is the one given, never chosen: sizes left out are 1, ZeRO is 1, nothing is recomputed (`roofline search`
    chooses). Points that do not fit stay, with feasible = false and the reason. Exit code 1 when no point is feasible.
    """
    from rooflinecli.interfaces.cli import sweep_run

    wanted = [c.strip() for c in columns.split(",")] if columns else None
    if sensitivity:
        sweep_run.sensitivity(options, set_, format.value, out, room(wide, out))
        return
    ask = sweep_run.SweepRunOptions(
        options,
        set_,
        wanted,
        where or [],
        feasible_only,
        part,
        plot,
        plot_kind.value,
        format.value,
        out,
        room(wide, out),
        jobs,
        cluster,
    )
    if not sweep_run.run(ask):
        raise typer.Exit(1)
