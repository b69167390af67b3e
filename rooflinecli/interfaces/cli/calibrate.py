"""`roofline calibrate`: the question, its page, and the hardware file that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.calibrate.question import Calibrate
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, print_error, write
from rooflinecli.specs.options import OptText, Switch, field


class CalibrateDelivery(Delivery):
    """The page of a calibration on standard output, the hardware file in --out."""

    # fmt: off
    out: OptText = field("file", "Write the calibrated hardware file here.", default=None, short="-o")
    force: Switch = field("switch", "Write --out even where the held-out rows got worse.", default=False)
    # fmt: on


def run(question: Calibrate, how: CalibrateDelivery) -> int:
    """Calibrate and print; the exit code is 1 where held-out rows got worse."""
    from rooflinecli.calibrate.report import report
    from rooflinecli.render.answer import render
    from rooflinecli.render.views import report_tables

    result = question.answer()
    answer = report(result)
    if how.format == "csv":
        write(report_tables.csv(answer.tables))
    else:
        page = report_tables.view(answer.tables, answer.notes)
        write(render(answer, lambda _: page, how.format, columns(how.wide), schema=how.schema))
    if result.refused and not how.force:
        return 1
    if how.out is not None:
        _save(result, Path(how.out))
    return 0


def _save(result: Any, out: Path) -> None:
    from rooflinecli.calibrate.write_hardware import hardware_yaml
    from rooflinecli.core import files

    if result.moved:
        files.write(out, hardware_yaml(result))
    else:
        print_error(f"note: {out} is not written: no phase moved, so the shipped file says all there is")


app = command(Calibrate, run, CalibrateDelivery)
