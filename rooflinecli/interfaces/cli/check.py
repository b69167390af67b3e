"""`roofline check PLAN...`: hold capacity plans to their promises; for CI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.common_options import OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import columns
from rooflinecli.questions.check.settings import Bound, InconclusivePolicy

app = typer.Typer(**QUIET)
_Opt = typer.Option


class Report(StrEnum):
    """One value is one file of render/check/."""

    table = "table"
    json = "json"
    junit = "junit"
    github = "github"
    sarif = "sarif"
    markdown = "markdown"


@app.command()
def check(
    plans: list[Path] = typer.Argument(..., metavar="PLAN...", help="YAML files of named checks (docs/check.md)."),
    hold: Bound = _Opt(
        None, help="Which end is held to the limits, instead of the files': floor, expected or pessimistic."
    ),
    unsure: InconclusivePolicy = _Opt(None, help="A limit inside the interval: fail (default) or warn."),
    only: str = _Opt(None, help="Run only the checks whose name matches this pattern, such as 'chat*'."),
    suggest: int = _Opt(
        None,
        min=0,
        help="Estimates the search for changes that pass may take in all (300 less the checks, at least 60).",
    ),
    baseline: Path = _Opt(None, help="A report saved earlier: show what moved since."),
    tolerance: str = _Opt("2 %", help="How far a quantity may move before it is shown."),
    moved: InconclusivePolicy = _Opt(
        InconclusivePolicy.warn, help="What a move beyond the tolerance amounts to: warn or fail."
    ),
    write_baseline: Path = _Opt(None, "--write-baseline", help="Save this report as the accepted plan."),
    wide: bool = WIDE,
    format: Report = _Opt(Report.table, "--format", "-f", help="table, json, junit, github, sarif or markdown."),
    report: list[str] = _Opt(
        None, "--report", metavar="FORMAT=FILE", help="Also write the report to a file; repeatable."
    ),
    out: Path = OUT,
) -> None:
    """Hold the plans to what they promise: every requirement passes, fails, or is unsure within the estimate's interval.

    Exit code 0 when all pass, 1 when one does not, 2 for a wrong command line, 3 for a plan that cannot be read as one.
    """
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.check import answer

    also = [_also(item) for item in report or []]
    settings = answer.CheckSettings(
        hold.value if hold else None,
        unsure.value if unsure else None,
        only,
        suggest,
        baseline,
        answer.share(tolerance),
        moved.value,
    )
    try:
        found = answer.check(plans, settings, _measured)
    except DataError as error:
        if format is Report.github:
            write(_annotated(str(error)))
        raise
    write(_rendered(format, found, columns(wide, out)), out)
    for kind, path in also:
        write(_rendered(kind, found, columns(wide, path)), path)
    if write_baseline is not None:
        write(_rendered(Report.json, found), write_baseline)
    if not found["holds"]:
        raise typer.Exit(1)


def _measured(files: Sequence[Path], options: dict[str, Any]) -> list[dict[str, Any]]:
    """What measured files say, beside the estimate; read only where a plan names one."""
    from rooflinecli.calibrate.gap_explanations import rows_of_plan

    return rows_of_plan(files, options)


def _rendered(kind: Report, found: dict[str, Any], width: int = 0) -> str:
    page = import_module(f"rooflinecli.render.formats.check.{kind.value}").render
    return str(page(found, width) if kind is Report.table else page(found))


def _also(item: str) -> tuple[Report, Path]:
    kind, _, path = item.partition("=")
    if not path or kind not in Report.__members__:
        raise UsageError(f"--report {item}: expected FORMAT=FILE with a format of {', '.join(Report.__members__)}")
    return Report(kind), Path(path)


def _annotated(message: str) -> str:
    """A plan that cannot be read, as an annotation on its line."""
    from rooflinecli.render.formats.check.github import annotation

    where = re.match(r"^(.*?):(\d+): ", message)
    file, line = (where[1], int(where[2])) if where else (message.partition(":")[0], 1)
    return annotation("error", file, line, "roofline check: the plan cannot be read", message)
