"""Tables of a study on standard output: for people, or with --format markdown, csv or json."""

from __future__ import annotations

import argparse

from rooflinecli.interfaces.cli.output import columns
from rooflinecli.render.answer import render
from rooflinecli.render.views import report_tables
from rooflinecli.validate.question import ValidateAnswer
from rooflinecli.validate.stats import Table


def show(tables: list[Table], *flags: str) -> None:
    """Print tables in the format that the command line asks for; `flags` are those that the study itself has read."""
    parser = argparse.ArgumentParser()
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--format", default="table", choices=("table", "markdown", "csv", "json"))
    format = parser.parse_args().format
    answer = ValidateAnswer(subject="lab", tables=[table.report() for table in tables])
    if format == "csv":
        print(report_tables.csv(answer.tables))
    else:
        print(render(answer, lambda a: report_tables.view(a.tables, [report_tables.LEGEND]), format, columns()))
