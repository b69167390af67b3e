"""`roofline formula [NAME [argument=value ...]]`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE, levels
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def formula(
    name: str = typer.Argument(None, help="A formula's name; omitted: list all."),
    arguments: list[str] = typer.Argument(
        None, help="argument=value each, with units: peak=989TFLOP/s size=80GiB params=70B rows=8x4096."
    ),
    explain: bool = typer.Option(False, "--explain", help="Show how the value follows from the arguments."),
    depth: int = levels(3),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """List every formula, show one (arithmetic, unit, source), or evaluate it at the numbers given.

    Values may carry units; a bare B is a billion, and bytes are kB, MB, GiB or plain numbers.
    """
    from rooflinecli.formulas.catalogue import every
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.formula import evaluate, find, parameters
    from rooflinecli.render.views import formula as render

    if not name:
        write(render.listing(columns(wide, out)), out)
        return
    entry = find(name, every())
    if not arguments and parameters(entry) and not explain:
        write(render.page(entry, parameters(entry), format.value), out)
        return
    value, given = evaluate(entry, arguments or [])
    write(render.derivation(value, depth) if explain else render.value(entry, value, given, format.value), out)
