"""Options that mean the same on every verb, with the same short names."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.interfaces.cli.output import Format

_CHIP = "A chip or system (`roofline hardware`)."
FORMAT: Any = typer.Option(Format.table, "--format", "-f", metavar="CHOICE", help="table, json, csv or markdown.")
WIDE: Any = typer.Option(False, "--wide", help="All columns of a table, however wide.")
OUT: Any = typer.Option(None, "--out", "-o", metavar="FILE", help="Write to a file instead of standard output.")


def levels(default: int) -> Any:
    """--depth with its default."""
    return typer.Option(default, "--depth", min=0, metavar="COUNT", help="How many levels of an explanation.")


def most(default: int | None, help: str) -> Any:
    """--top with its default."""
    return typer.Option(default, "--top", min=1, metavar="COUNT", help=help)
