"""`roofline aot script.py:function --args "f32[128,256]" ... --hw HW`: a compiled function on the roofline."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def aot(
    target: str = typer.Argument(..., help="script.py:function, jitted or not."),
    more: list[str] = typer.Argument(None, metavar="[SHAPE]...", help="Further arguments, as after --args."),
    args: list[str] = _Opt(
        None, "--args", help="Arguments as shapes: f32[128,256], bf16[8,1024], (f32[8], i32[]), {w: f32[8,8]}, 0.5."
    ),
    hw: str = _Opt(..., "--hw", help="A chip (`roofline hardware`); it need not be the one that compiles."),
    trips: float = _Opt(None, min=1, help="Trips of a loop whose end is not known before it runs."),
    plot: str = _Opt(
        None,
        help="The roofline with the function's kernels on it: FILE.png, FILE.svg (extra `plot`), or - for the terminal.",
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Lower and compile a JAX function ahead of time, and put it on the roofline of any chip; nothing is run on arrays.

    FLOPs and bytes come from its jaxpr, beside XLA's own analysis and what that miscounts: loop bodies counted once,
    unused matmuls, elementwise work. Exit code 1 when it does not fit into the chip's memory.
    """
    needs_jax()
    if args and more and len(args) > 1:
        raise UsageError(
            "give shapes after one --args, or repeat --args for each; not both, since their order would be lost"
        )
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.measure.aot import analyse
    from rooflinecli.measure.function_signature import arguments, load
    from rooflinecli.render.views.aot import render
    from rooflinecli.render.views.ops import draw
    from rooflinecli.specs.hardware import load_hardware

    chip = load_hardware(hw)
    answer = analyse(load(target), arguments([*(args or []), *(more or [])]), chip, target, trips)
    drawn = draw(answer, plot) if plot else None
    write(render(answer, format.value, columns(wide, out)), out)
    if drawn:
        write(drawn)
    if not answer["feasible"]:
        raise typer.Exit(1)


def needs_jax() -> None:
    """Raises UsageError with the pip line where jax is not installed."""
    from importlib.util import find_spec

    if find_spec("jax") is None:
        raise UsageError('aot compiles with jax; install it with: pip install "rooflinecli[measure]"')
