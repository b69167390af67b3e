"""`roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=4k --hw tpu-v5e`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def shard(
    matmul: str = typer.Argument(
        ..., help='Two arrays, split dimensions marked: "X[I_x, J] W[J_y, K]"; "-> Y[I, K_x]" asks for a result.'
    ),
    mesh: str = typer.Option(..., help="Mesh axes, outermost first: x=4,y=2."),
    sizes: str = typer.Option(..., help="Dimensions: I=1k,J=4k,K=16k."),
    hw: str = typer.Option(..., "--hw", help="A chip or system (`roofline hardware`)."),
    dtype: str = typer.Option("bf16", help="Number format."),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Which of the four sharding cases a matmul is, the collective it needs, its bytes and time, and the alternatives."""
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.shard import notation
    from rooflinecli.questions.shard.answer import shard as answer
    from rooflinecli.render.views.shard import text
    from rooflinecli.specs.hardware import load_hardware

    axes = notation.mesh(mesh)
    arrays = notation.arrays(matmul, axes)
    found = answer(arrays, axes, notation.assignments(sizes, "--sizes"), load_hardware(hw), dtype)
    write(text(found, format.value, columns(wide, out)), out)
