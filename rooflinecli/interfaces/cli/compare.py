"""`roofline compare MODEL --hw a,b,c`: one plan across chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, PRICES, SLO, WIDE
from rooflinecli.interfaces.cli.completion import chips as named
from rooflinecli.interfaces.cli.completion import on_tab
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.specs.options import LOAD

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    cls=PanelCommand,
    epilog="roofline compare llama70b --hw h100,h200,mi300x -n 8 --batch 64\n"
    "roofline compare llama70b --hw h100,mi300x --price mi300x=3 --slo itl=40ms\n"
    "roofline compare llama-3.1-8b --hw h100 -n 1 --measured bench.json",
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
    price: list[str] = PRICES,
    slo: str = SLO,
    at: str = _Opt(
        "same-devices", metavar="CHOICE", help="What is equal: same-devices, same-cost (USD per hour) or same-memory."
    ),
    rank: str = _Opt(
        None,
        metavar="QUANTITY",
        help="Quantity to rank by, as named in the JSON of `roofline estimate`; omitted: the time of --phase, else of decode.",
    ),
    measured: list[Path] = _Opt(
        None,
        "--measured",
        metavar="FILE",
        help="Results of a benchmark or a training log: each row beside the estimate on the one --hw, and what would explain the gap.",
    ),
    sensitivity: bool = _Opt(
        False,
        "--sensitivity",
        help="Also: which hardware figure or constant would change the order, the break-even price, what would settle it.",
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """One plan on several chips side by side, ranked; a chip that cannot hold it is shown with the reason.

    Exit code 1 when no chip can.
    """
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.compare.answer import compare as answer
    from rooflinecli.render.views.compare import render

    options |= {"price": ",".join(price)} if price else {}
    if measured:
        write(_measured(options, hw, measured, format, columns(wide, out)), out)
        return
    chips = [name.strip() for item in hw for name in item.split(",") if name.strip()]
    if sensitivity and format is Format.csv:
        from rooflinecli.engine.build_request import warn

        warn("--sensitivity has no place in csv, which holds the rows alone; table, markdown and json have it")
    result = answer(options, chips, at, rank, slo, sensitivity)
    write(render(result, format.value, columns(wide, out)), out)
    if not result["feasible"]:
        raise typer.Exit(1)


def _measured(options: dict[str, Any], hw: list[str], files: list[Path], format: Format, width: int) -> str:
    """Measured rows beside the estimate on one chip."""
    from rooflinecli.calibrate.gap_explanations import against
    from rooflinecli.calibrate.report import aside
    from rooflinecli.calibrate.resolve_rows import resolve
    from rooflinecli.core.errors import UsageError
    from rooflinecli.importers.logs import read
    from rooflinecli.render.views.measured_gap import render

    if len(hw) != 1 or "," in hw[0]:
        raise UsageError("--measured is held against one chip; give one --hw", "hw")
    found = resolve([reading for file in files for reading in read(file)], {**options, "hw": hw[0]})
    lost = aside([*found.doubts, *found.aside])
    return render({**against(found.rows), "aside": lost, "notes": found.notes}, format.value, width)
