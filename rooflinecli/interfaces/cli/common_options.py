"""Options that mean the same on every verb, with the same short names."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.interfaces.cli.completion import chips, models, on_tab
from rooflinecli.interfaces.cli.output import Format
from rooflinecli.specs.options import LOAD

_CHIP = "A chip or system (`roofline hardware`)."
MODEL: Any = typer.Argument(
    ..., metavar="MODEL", help="A name or alias (`roofline models`), or a YAML path.", autocompletion=on_tab(models)
)
HW: Any = typer.Option(..., "--hw", metavar="NAME", help=_CHIP, autocompletion=on_tab(chips))
CHIPS: Any = typer.Option(
    ...,
    "--hw",
    metavar="NAMES",
    rich_help_panel=LOAD,
    autocompletion=on_tab(chips),
    help="Chips, with commas or repeated.",
)
PRICES: Any = typer.Option(
    None,
    "--price",
    metavar="MONEY",
    rich_help_panel=LOAD,
    help="USD per device-hour, instead of the file's: 2.50, or h100=2.50,mi300x=3 for chips by name; repeat.",
)
SLO: Any = typer.Option(
    None,
    "--slo",
    metavar="LIMITS",
    rich_help_panel=LOAD,
    help="Serving: --ttft and --itl in one, such as ttft=1s,itl=40ms.",
)
EXPLAIN: Any = typer.Option(None, "--explain", metavar="QUANTITY", help="Show how a quantity follows, e.g. time_s.")
FORMAT: Any = typer.Option(Format.table, "--format", "-f", metavar="CHOICE", help="table, json, csv or markdown.")
WIDE: Any = typer.Option(False, "--wide", help="All columns of a table, however wide.")
OUT: Any = typer.Option(None, "--out", "-o", metavar="FILE", help="Write to a file instead of standard output.")


JOBS: Any = typer.Option(1, "--jobs", min=1, metavar="COUNT", help="Processes to spread the work over.")
CLUSTER: Any = typer.Option(
    None, "--cluster", metavar="ADDRESS", help="A Dask scheduler to spread the work over (extra rooflinecli[cluster])."
)


def levels(default: int) -> Any:
    """--depth with its default."""
    return typer.Option(default, "--depth", min=0, metavar="COUNT", help="How many levels of an explanation.")


def most(default: int | None, help: str) -> Any:
    """--top with its default."""
    return typer.Option(default, "--top", min=1, metavar="COUNT", help=help)
