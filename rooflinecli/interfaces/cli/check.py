"""`roofline check`: the question, and its report in the formats of CI."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.check.question import Check
from rooflinecli.specs.options import OptText, Text, Texts, field

FORMATS = ("table", "json", "junit", "github", "sarif", "markdown")  # one value is one file of render/formats/check/


class CheckDelivery(Delivery):
    """Reports of a check: on standard output, and in files beside it."""

    # fmt: off
    format: Text = field("choice", "Format of the report", default="table", choices=FORMATS, short="-f")
    report: Texts = field("free", "Also write the report to a file; repeatable.", default=None, several=True, metavar="FORMAT=FILE")
    write_baseline: OptText = field("file", "Save this report as the accepted baseline.", default=None)
    # fmt: on


def run(question: Check, how: CheckDelivery) -> int:
    """Check and report; the exit code is 1 where a requirement is not met."""
    from rooflinecli.render.formats.check.github import annotation

    also = [_also(item) for item in how.report]
    try:
        found = question.answer(_measured)
    except DataError as error:
        if how.format == "github":
            where = re.match(r"^(.*?):(\d+): ", str(error))
            file, line = (where[1], int(where[2])) if where else (str(error).partition(":")[0], 1)
            write(annotation("error", file, line, "roofline check: the plan cannot be read", str(error)))
        raise
    out = None if how.out is None else Path(how.out)
    write(_rendered(how.format, found, columns(how.wide, out)), out)
    for kind, path in also:
        write(_rendered(kind, found, columns(how.wide, path)), path)
    if how.write_baseline is not None:
        write(_rendered("json", found), Path(how.write_baseline))
    return 0 if found["holds"] else 1


def _measured(files: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of measured files beside the estimate; read only where a plan names one."""
    from rooflinecli.calibrate.gap_explanations import rows_of_plan

    return rows_of_plan(files, options)


def _rendered(kind: str, found: dict[str, Any], width: int = 0) -> str:
    page = import_module(f"rooflinecli.render.formats.check.{kind}").render
    return str(page(found, width) if kind == "table" else page(found))


def _also(item: str) -> tuple[str, Path]:
    kind, _, path = item.partition("=")
    if not path or kind not in FORMATS:
        raise UsageError(f"--report {item}: expected FORMAT=FILE with a format of {', '.join(FORMATS)}")
    return kind, Path(path)


app = command(Check, run, CheckDelivery)
