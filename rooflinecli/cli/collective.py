"""`roofline collective OP BYTES --hw HW -n N`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format, columns
from rooflinecli.cli.shared import FORMAT, HW, OUT, WIDE, levels

app = typer.Typer(**QUIET)


@app.command()
def collective(
    op: str = typer.Argument(..., help="all-reduce, all-gather, reduce-scatter, all-to-all or permute."),
    size: str = typer.Argument(..., help="The whole tensor, such as 128MiB; a bare number is bytes."),
    hw: str = HW,
    n: str = typer.Option(..., "-n", "--devices", help="Devices in the group."),
    explain: str = typer.Option(None, help="Show how a quantity follows, e.g. time_s."),
    depth: int = levels(3),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """What a collective costs over N devices: bytes sent, floor, expected time, bus bandwidth."""
    from rooflinecli.answers.collective import collective as answer
    from rooflinecli.cli.output import write
    from rooflinecli.cli.quantities import quantity
    from rooflinecli.errors import UsageError
    from rooflinecli.render.collective import text
    from rooflinecli.specs.ask import value
    from rooflinecli.specs.hardware import load_hardware
    from rooflinecli.specs.options import OPTIONS

    size_bytes = quantity("size", size, "B")
    if size_bytes <= 0:
        raise UsageError(f"size {size}: must be above zero")
    devices, chip = value(OPTIONS["n"], n), load_hardware(hw)
    asked = lambda lift: answer(op, size_bytes, chip, devices, lift=lift)  # noqa: E731
    write(text(asked, format.value, explain, depth, columns(wide, out)), out)
