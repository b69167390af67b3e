"""`roofline compare MODEL --hw a,b,c`: one plan across chips."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import typer

from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def compare(
    model: str = typer.Argument(..., help="A name or alias (`roofline models`), or a YAML path."),
    hw: list[str] = _Opt(..., "--hw", help="Chips, with commas or repeated; the first is the measure of --at."),
    at: str = _Opt("same-devices", help="What is equal: same-devices, same-cost (USD per hour) or same-memory."),
    rank: str = _Opt("decode.time_s", help="Quantity to rank by, as named in the JSON of `roofline estimate`."),
    n: str = _Opt(None, "-n", "--devices", help="Devices of the first chip; omitted: the fewest that hold it."),
    tp: str = _Opt(None, help="Tensor parallel size."),
    pp: str = _Opt(None, help="Pipeline stages."),
    dp: str = _Opt(None, help="Data parallel replicas."),
    zero: str = _Opt(None, help="ZeRO stage 0..3."),
    micro_batch: str = _Opt(None, "--micro-batch", help="Sequences per replica and pipeline slot."),
    recompute: str = _Opt(None, help="Activation recomputation: none, selective, full or op."),
    phase: list[str] = _Opt(None, "--phase", help="train, prefill, decode; omitted: those of --rank."),
    batch: str = _Opt(None, help="Sequences: global batch in training, concurrent per replica in serving."),
    prompt: str = _Opt(None, help="Prompt tokens."),
    output: str = _Opt(None, help="Output tokens."),
    seq: str = _Opt(None, help="Training sequence length."),
    dtype: str = _Opt(None, help="Number format of matmuls."),
    kv_dtype: str = _Opt(None, "--kv-dtype", help="Number format of the KV cache."),
    weight_dtype: str = _Opt(None, "--weight-dtype", help="Narrower storage of weights alone."),
    tokens: str = _Opt(None, help="Tokens of the whole training run."),
    format: Format = _Opt(Format.table, "--format", "-f", help="table, json, csv or markdown."),
    out: Path = _Opt(None, "--out", "-o", help="Write to a file instead."),
) -> None:
    """One plan on several chips side by side, ranked; a chip that cannot hold it is shown with the reason.

    Exit code 1 when no chip can.
    """
    given = dict(locals())
    options = {
        name.replace("_", "-"): value
        for name, value in given.items()
        if name not in ("hw", "at", "rank", "format", "out") and value not in (None, [])
    }
    from rooflinecli.answers.compare import compare as answer
    from rooflinecli.cli.output import write

    chips = [name.strip() for item in hw for name in item.split(",") if name.strip()]
    result = answer(options, chips, at, rank)
    write(getattr(import_module("rooflinecli.render.compare"), format.value)(result), out)
    if not result["feasible"]:
        raise typer.Exit(1)
