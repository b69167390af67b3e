"""Tables of a study on standard output: for people, or with --format markdown, csv or json."""

from __future__ import annotations

import argparse

from rooflinecli.interfaces.cli.output import columns
from rooflinecli.render.views.validate import render
from rooflinecli.validate.answer import data
from rooflinecli.validate.stats import Table


def show(tables: list[Table]) -> None:
    """Print tables in the format that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", default="table", choices=("table", "markdown", "csv", "json"))
    print(render(data("lab", tables), parser.parse_args().format, {}, columns(False, None)))
