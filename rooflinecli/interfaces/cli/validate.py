"""`roofline validate [SUBJECT]`: predicted against published and measured, by group."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


_LAB = {
    "kernels": "fit_kernels",
    "inference": "fit_serving",
    "desk": "fit_local_machines",
    "calibrate": "calibration_study",
}  # subject -> the module that refits its constants


@app.command()
def validate(
    subject: str = typer.Argument(
        "all",
        help="kernels, training, search, inference, collectives, desk, or all.",
    ),
    fit: bool = typer.Option(False, "--fit", hidden=True),
    simulate: bool = typer.Option(
        False, "--simulate", help="Also simulate the collected serving runs, errors beside the formula's (a minute)."
    ),
    full: bool = typer.Option(
        False, "--full", help="Search for every tuned run, not for some of each family (minutes)."
    ),
    plot: Path = typer.Option(
        None, help="A folder for pictures, one per table: predicted against measured, residuals by group."
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Predictions against published and measured rows: error, bias, coverage of the interval, beside the bare roofline.

    Measured kernels and collected serving runs are read from a wheel: pip install "rooflinecli[validate]".
    """
    from rooflinecli.core.errors import UsageError
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.render.views.validate import render
    from rooflinecli.validate.answer import data, tables_of

    if fit or subject == "calibrate":
        name = "--fit" if fit else subject
        raise UsageError(
            f"{name}: refits are no part of the installed package; run them from a checkout: python -m lab.{_LAB.get(subject, 'fit_training')}",
            name,
        )
    found, images = tables_of(subject, simulate, full), {}
    if plot is not None:
        from os.path import relpath

        from rooflinecli.render.views.validate_plot import pictures

        beside = out.parent if out else Path()
        images = {title: relpath(path, beside) for title, path in pictures(found, plot).items()}
    write(render(data(subject, found), format.value, images, columns(wide, out)), out)
