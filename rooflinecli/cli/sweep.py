"""`roofline sweep MODEL --hw HW --batch 1..512 ...`: the same answer over a whole space."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from rooflinecli.cli.main import QUIET

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


@app.command()
def sweep(
    model: str = typer.Argument(..., help="One or several models, comma-separated."),
    hw: str = _Opt(..., "--hw", help="One or several chips, comma-separated."),
    phase: list[str] = _Opt(None, "--phase", help="prefill, decode, train; omitted: prefill and decode."),
    n: str = _Opt(None, "-n", "--devices", help="Devices; with it dp is what tp, pp and cp leave."),
    tp: str = _Opt(None, help="Tensor parallel sizes (1)."),
    pp: str = _Opt(None, help="Pipeline stages (1)."),
    dp: str = _Opt(None, help="Data parallel replicas (1, or what -n leaves)."),
    cp: str = _Opt(None, help="Context parallel sizes (1)."),
    ep: str = _Opt(None, help="Expert parallel sizes (1)."),
    zero: str = _Opt(None, help="ZeRO stages (1)."),
    micro_batch: str = _Opt(None, "--micro-batch", help="Sequences per replica and pipeline slot (1)."),
    virtual_stages: str = _Opt(None, "--virtual-stages", help="Interleaved stages per device (1)."),
    sequence_parallel: str = _Opt(None, "--sequence-parallel", help="yes, no or yes,no (training: yes where tp > 1)."),
    recompute: str = _Opt(None, help="none, selective, full, op (none)."),
    flash: str = _Opt(None, "--flash", help="yes, no or yes,no (yes)."),
    batch: str = _Opt(None, help="Sequences; 4M-tokens works too."),
    prompt: str = _Opt(None, help="Prompt tokens."),
    output: str = _Opt(None, help="Output tokens."),
    seq: str = _Opt(None, help="Training sequence lengths."),
    dtype: str = _Opt(None, help="Number formats of matmuls."),
    kv_dtype: str = _Opt(None, "--kv-dtype", help="Number formats of the KV cache."),
    weight_dtype: str = _Opt(None, "--weight-dtype", help="Narrower storage of weights alone."),
    tokens: str = _Opt(None, help="Tokens of the whole training run."),
    concurrency: str = _Opt(None, help="Closed loop: requests in flight on a replica, each followed by a new one."),
    qps: str = _Opt(None, help="Open loop: requests per second over the deployment."),
    engine: str = _Opt(None, help="Serving engines, by name."),
    schedule: str = _Opt(None, help="Pipeline schedules: 1f1b, gpipe, zero-bubble."),
    ring: str = _Opt(None, help="Context-parallel splits."),
    shard: str = _Opt(None, "--shard-group", help="HSDP: replicas that ZeRO splits over."),
    imbalance: str = _Opt(None, help="Tokens of the busiest expert group over an even share."),
    dropout: str = _Opt(None, help="yes, no (training)."),
    offload: str = _Opt(None, help="none, optimizer."),
    software: str = _Opt(None, help="Training framework whose efficiency applies."),
    recipe: str = _Opt(None, help="Precision recipes of training."),
    lora_rank: str = _Opt(None, "--lora-rank", help="LoRA ranks."),
    price: str = _Opt(None, help="USD per device-hour."),
    utilisation: str = _Opt(None, help="Shares of paid time that are busy."),
    efficiency: str = _Opt(None, help="expected, ideal."),
    attention_flops: str = _Opt(None, "--attention-flops", help="causal, full."),
    gradient_bytes: str = _Opt(None, "--gradient-bytes", help="Bytes per parameter of gradients."),
    optimizer_bytes: str = _Opt(None, "--optimizer-bytes", help="Bytes per parameter of optimizer state."),
    set_: list[str] = _Opt(
        None,
        "--set",
        help="A hardware figure: memory.bandwidth='2..5/0.5 TB/s', peak.bf16=x1,x2, efficiency.matmul.compute=0.6,0.8.",
    ),
    columns: str = _Opt(None, help="Columns by JSON path, group or pattern: decode.time_s,decode.memory,cost.*"),
    feasible_only: bool = _Opt(
        False, "--feasible-only", help="Leave out points that do not fit or cannot be laid out."
    ),
    where: list[str] = _Opt(None, "--where", help="Keep points that satisfy, e.g. 'decode.time_s <= 40 ms'; repeat."),
    part: str = _Opt(None, "--shard", help="i/n: the i-th of n equal parts; the parts concatenate to the whole."),
    sensitivity: bool = _Opt(
        False, "--sensitivity", help="For a single point: how time moves with each hardware figure and constant."
    ),
    plot: str = _Opt(None, help="FILE.png, FILE.svg, or - for the terminal."),
    plot_kind: PlotKind = _Opt(
        PlotKind.latency, "--plot-kind", help="latency against throughput, the roofline, or memory against batch."
    ),
    format: SweepFormat = _Opt(SweepFormat.table, help="table, csv, json, jsonl, markdown or parquet."),
    out: Path = _Opt(None, help="Write to a file instead."),
) -> None:
    """Every number of `estimate` over ranges: `1..512`, `1..512/8` (step), `1..512x2` (factor), lists `1k,4k,32k`.

    The plan is the one given, never chosen: sizes left out are 1, ZeRO is 1, nothing is recomputed (`roofline search`
    chooses). Points that do not fit stay, with feasible = false and the reason. Exit code 1 when no point is feasible.
    """
    given = locals()
    skip = ("set_", "columns", "feasible_only", "where", "part", "sensitivity", "plot", "plot_kind", "format", "out")
    options = {key: value for key, value in given.items() if key not in skip and value not in (None, [])}
    from rooflinecli.cli import sweeping

    wanted = [c.strip() for c in columns.split(",")] if columns else None
    if sensitivity:
        sweeping.sensitivity(options, set_, format.value, out)
        return
    ask = sweeping.Ask(
        options, set_, wanted, where or [], feasible_only, part, plot, plot_kind.value, format.value, out
    )
    if not sweeping.run(ask):
        raise typer.Exit(1)
