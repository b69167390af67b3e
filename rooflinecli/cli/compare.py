"""`roofline compare MODEL --hw a,b,c`: one plan across chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.cli.asking import Panelled, asks
from rooflinecli.cli.completion import chips as named
from rooflinecli.cli.completion import on_tab
from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format, columns
from rooflinecli.cli.shared import FORMAT, OUT, WIDE
from rooflinecli.specs.options import LOAD

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    cls=Panelled,
    epilog="roofline compare llama70b --hw h100,h200,mi300x -n 8 --batch 64\n"
    "roofline compare gpt3 --hw h100,tpu-v5p --at same-cost --rank train.time_s",
)
@asks(
    help={
        "n": "Devices of the first chip; omitted: the fewest that hold it.",
        "phase": "train, prefill, decode; omitted: those of --rank.",
    }
)
def compare(
    options: dict[str, Any],
    hw: list[str] = _Opt(
        ...,
        "--hw",
        metavar="NAMES",
        rich_help_panel=LOAD,
        autocompletion=on_tab(named),
        help="Chips, with commas or repeated; the first is the measure of --at.",
    ),
    at: str = _Opt(
        "same-devices", metavar="CHOICE", help="What is equal: same-devices, same-cost (USD per hour) or same-memory."
    ),
    rank: str = _Opt(
        "decode.time_s", metavar="QUANTITY", help="Quantity to rank by, as named in the JSON of `roofline estimate`."
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """One plan on several chips side by side, ranked; a chip that cannot hold it is shown with the reason.

    Exit code 1 when no chip can.
    """
    from rooflinecli.answers.compare import compare as answer
    from rooflinecli.cli.output import write
    from rooflinecli.render.compare import render

    chips = [name.strip() for item in hw for name in item.split(",") if name.strip()]
    result = answer(options, chips, at, rank)
    write(render(result, format.value, columns(wide, out)), out)
    if not result["feasible"]:
        raise typer.Exit(1)
