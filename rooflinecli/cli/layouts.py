"""`roofline layouts MODEL --hw HW -n N --batch B`: how inference can split a layer."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def layouts(
    model: str = typer.Argument(..., help="A name or alias (`roofline models`), or a YAML path."),
    hw: str = _Opt(..., "--hw", help="A chip or system (`roofline hardware`)."),
    n: str = _Opt(..., "-n", "--devices", help="Devices the layer is split over: a power of two."),
    batch: str = _Opt("64", help="Sequences."),
    tokens: str = _Opt("1", help="Tokens of each sequence in the pass: 1 in decode, the prompt in prefill."),
    context: str = _Opt("2048", help="Tokens in the cache."),
    dtype: str = _Opt("bf16", help="Number format."),
    format: Format = _Opt(Format.table, help="table, json, csv or markdown."),
    out: Path = _Opt(None, help="Write to a file instead."),
) -> None:
    """1D and 2D weight-stationary and weight-gathered layouts of a layer, and attention by head or sequence, ranked."""
    from rooflinecli.answers.ask import number
    from rooflinecli.calculators.layouts import layouts as answer
    from rooflinecli.cli.output import write
    from rooflinecli.render.layouts import text
    from rooflinecli.specs.hardware import load_hardware
    from rooflinecli.specs.model import load_model

    result = answer(
        load_model(model),
        load_hardware(hw),
        int(number("n", n)),
        number("batch", batch),
        number("seq", tokens),
        number("seq", context),
        dtype,
    )
    write(text(result, format.value), out)
