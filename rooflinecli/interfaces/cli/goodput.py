"""`roofline goodput -n 16384 --checkpoint '30 s'`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, levels
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format

app = typer.Typer(**QUIET)
_Opt = typer.Option
_UNITS = {"checkpoint": "s", "restart": "s", "interval": "s", "mtbf": "s", "run": "s", "bandwidth": "B/s"}


@app.command()
def goodput(
    n: str = _Opt(..., "-n", "--devices", help="Devices of the run."),
    checkpoint: str = _Opt(None, help="Time to save a checkpoint: 30 s."),
    params: str = _Opt(None, help="Parameters, instead of --checkpoint: 70B."),
    bandwidth: str = _Opt(None, help="Bandwidth of all writers together: 200 GB/s."),
    mtbf: str = _Opt(None, help="Mean time between failures of one device: 50000 h (Llama 3's fleet)."),
    restart: str = _Opt(None, help="Time to come back after a failure: 10 min."),
    interval: str = _Opt(None, help="Work between checkpoints; omitted: the best (Daly)."),
    run: str = _Opt(None, help="Failure-free length of the run: 54 days."),
    explain: str = _Opt(None, help="Show how a quantity follows, e.g. goodput."),
    depth: int = levels(3),
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """What failures, checkpoints and restarts leave of a long run, and how often to save."""
    from rooflinecli.interfaces.cli.calculator_inputs import at_least_one
    from rooflinecli.interfaces.cli.output import columns, write
    from rooflinecli.questions.goodput.answer import goodput as answer
    from rooflinecli.render.views.goodput import text

    given = {
        "checkpoint": checkpoint,
        "restart": restart,
        "interval": interval,
        "mtbf": mtbf,
        "run": run,
        "bandwidth": bandwidth,
    }
    q = {name: _positive(name, written) for name, written in given.items()}
    devices, weights = at_least_one("-n", n), None if params is None else at_least_one("--params", params, "amount")
    write(
        text(
            lambda lift: answer(
                devices,
                q["checkpoint"],
                weights,
                q["bandwidth"],
                q["mtbf"],
                q["restart"],
                q["interval"],
                q["run"],
                lift,
            ),
            format.value,
            explain,
            depth,
            columns(out=out),
        ),
        out,
    )


def _positive(name: str, written: str | None) -> float | None:
    """A quantity with its unit, above zero. Raises UsageError with the flag."""
    from rooflinecli.core import units
    from rooflinecli.core.errors import UsageError

    if written is None:
        return None
    try:
        value = units.parse(written, _UNITS[name])
    except ValueError as error:
        raise UsageError(f"--{name} {error}") from None
    if value <= 0:
        raise UsageError(f"--{name} {written}: must be above zero")
    return value
