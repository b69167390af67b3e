"""Options that mean the same on every verb, with the same short names."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.interfaces.cli.output import Format

FORMAT: Any = typer.Option(Format.table, "--format", "-f", metavar="CHOICE", help="table, json, csv or markdown.")
WIDE: Any = typer.Option(False, "--wide", help="All columns of a table, however wide.")
OUT: Any = typer.Option(None, "--out", "-o", metavar="FILE", help="Write to a file instead of standard output.")
