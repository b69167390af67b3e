"""`roofline check`: the question, and its answer in the formats of CI."""

from __future__ import annotations

import re
from pathlib import Path

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.interfaces.verbs import measured_rows
from rooflinecli.questions.check.question import Check, CheckAnswer
from rooflinecli.specs.options import OptText, Text, Texts, field

CI = ("junit", "github", "sarif")  # each is a function of render/formats/check
FORMATS = ("table", "json", *CI, "markdown")


class CheckDelivery(Delivery):
    """Reports of a check: on standard output, and in files."""

    # fmt: off
    format: Text = field("choice", "Format of the report", default="table", choices=FORMATS, short="-f")
    report: Texts = field("free", "Also write the report to a file; repeatable.", default=None, several=True, metavar="FORMAT=FILE")
    write_baseline: OptText = field("file", "Save this report as the accepted baseline.", default=None)
    # fmt: on


def run(question: Check, how: CheckDelivery) -> int:
    """Check and report; the exit code is 1 where a requirement is not met."""
    also = [(kind, path) for kind, _, path in (item.partition("=") for item in how.report)]
    if wrong := [item for item, (kind, path) in zip(how.report, also, strict=True) if not path or kind not in FORMATS]:
        raise UsageError(f"--report {wrong[0]}: expected FORMAT=FILE with a format of {', '.join(FORMATS)}")
    try:
        answer = question.answer(measured_rows)
    except DataError as error:
        if how.format == "github":
            from rooflinecli.render.formats.check import annotation

            where = re.match(r"^(.*?):(\d+): ", str(error))
            file, line = (where[1], int(where[2])) if where else (str(error).partition(":")[0], 1)
            write(annotation("error", file, line, "roofline check: the plan cannot be read", str(error)))
        raise
    out = None if how.out is None else Path(how.out)
    for kind, path in [(how.format, out), *((kind, Path(name)) for kind, name in also)]:
        write(_rendered(kind, answer, columns(how.wide, path), how.schema, how.details), path)
    if how.write_baseline is not None:
        write(_rendered("json", answer), Path(how.write_baseline))
    return 0 if answer.passed else 1


def _rendered(kind: str, answer: CheckAnswer, width: int = 0, schema: str | None = None, details: bool = True) -> str:
    if kind in CI:
        from rooflinecli.render.formats import check as formats

        return str(getattr(formats, kind)(answer))
    from rooflinecli.render.answer import render
    from rooflinecli.render.views.check import view

    return render(answer, view, kind, width, schema=schema, details=details)


app = command(Check, run, CheckDelivery)
