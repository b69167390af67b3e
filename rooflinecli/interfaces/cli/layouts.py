"""`roofline layouts MODEL --hw HW -n N --batch B`: how inference can split a layer."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, HW, MODEL, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def layouts(
    model: str = MODEL,
    hw: str = HW,
    n: str = _Opt(..., "-n", "--devices", help="Devices the layer is split over: a power of two."),
    batch: str = _Opt("64", help="Sequences."),
    tokens: str = _Opt("1", help="Tokens of each sequence in the pass: 1 in decode, the prompt in prefill."),
    context: str = _Opt("2048", help="Tokens in the cache."),
    dtype: str = _Opt("bf16", help="Number format."),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """1D and 2D weight-stationary and weight-gathered layouts of a layer, and attention by head or sequence, ranked."""
    from rooflinecli.interfaces.cli.calculator_inputs import at_least_one
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.layouts.answer import layouts as answer
    from rooflinecli.render.views.layouts import text
    from rooflinecli.specs.hardware import load_hardware
    from rooflinecli.specs.model import load_model

    result = answer(
        load_model(model),
        load_hardware(hw),
        int(at_least_one("-n", n)),
        at_least_one("--batch", batch),
        at_least_one("--tokens", tokens, "length"),
        at_least_one("--context", context, "length"),
        dtype,
    )
    write(text(result, format.value, columns(wide, out)), out)
