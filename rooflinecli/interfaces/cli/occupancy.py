"""`roofline occupancy`: how full a multiprocessor or a systolic array is."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import Answer, calculator
from rooflinecli.interfaces.cli.calculator_inputs import HW, Reader, quantity
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(
    no_args_is_help=True, help="How full a GPU's multiprocessor (sm) or a systolic array (systolic) is.", **QUIET
)


@app.command()
@calculator("occupancy-sm")
def sm(
    read: Reader,
    threads: str = typer.Option(..., "--threads", "-t", help="Threads per block."),
    shared: str = typer.Option("0 B", "--smem", help="Shared memory per block ('48 KiB')."),
    registers: str = typer.Option("0", "--registers", "-r", help="Registers per thread; 0: no limit from them."),
    hw: str = HW,
    capability: str = typer.Option(None, "--capability", help="Compute capability (9.0), instead of --hw."),
    per_sm: str = typer.Option(
        None, "--smem-per-sm", help="Shared memory per multiprocessor, if configured otherwise."
    ),
    max_threads: str = typer.Option(None, "--max-threads-per-sm", help="Threads per multiprocessor, if otherwise."),
    grid: str = typer.Option(None, "--grid", help="Blocks of the launch, for its waves (needs --hw)."),
) -> Answer:
    """Blocks per multiprocessor and warp occupancy from threads, shared memory and registers."""
    from dataclasses import replace

    from rooflinecli.questions.occupancy import answer as answers
    from rooflinecli.specs.hardware import load_hardware

    if (hw is None) == (capability is None):
        raise UsageError("give --hw or --capability")
    spec = load_hardware(hw) if hw else None
    limits = answers.multiprocessor(capability or answers.capability_of(spec.id if spec else ""))
    if per_sm is not None:
        limits = replace(limits, shared_memory=quantity("--smem-per-sm", per_sm, "B"))
    if max_threads is not None:
        limits = replace(limits, max_warps=quantity("--max-threads-per-sm", max_threads, "1") / limits.warp_size)
    units = read.leaf("n_sm", spec.units.count.si, "1", f"{spec.name}") if spec and spec.units else None
    if grid is not None and units is None:
        raise UsageError("--grid needs the number of multiprocessors; give --hw")
    return answers.occupancy(
        limits,
        read("--threads", threads, "1", "n_t"),
        read("--smem", shared, "B", "M_s", zero=True),
        read("--registers", registers, "1", "n_r", zero=True),
        read("--grid", grid, "1", "n_g"),
        units,
    )


@app.command()
@calculator("occupancy-systolic")
def systolic(
    read: Reader,
    m: str = typer.Argument(..., help="Rows of x."),
    k: str = typer.Argument(..., help="Contracted dimension."),
    n: str = typer.Argument(..., help="Columns of w."),
    hw: str = HW,
    rows: str = typer.Option(None, "--rows", help="Rows of the array; default 128."),
    cols: str = typer.Option(None, "--cols", help="Columns of the array; default: as many as rows."),
    clock: str = typer.Option(None, "--clock", help="Clock ('1.1 GHz'), for FLOP/s."),
) -> Answer:
    """Share of a systolic array that a matmul [m,k] x [k,n] uses, both conventions and by cycles."""
    from rooflinecli.questions.occupancy.answer import systolic as answer
    from rooflinecli.specs.hardware import load_hardware

    shape = [128, 128]
    if hw is not None:
        units = load_hardware(hw).units
        if units is None or units.shape is None:
            raise UsageError(f"{hw} has no systolic array on record; give --rows and --cols")
        shape, clock = units.shape, clock or f"{units.clock.si} Hz"
    rows = rows or str(shape[0])
    cols = cols or (rows if hw is None else str(shape[1]))
    return answer(
        read("m", m, "1", "m"),
        read("k", k, "1", "k"),
        read("n", n, "1", "n"),
        read("--rows", rows, "1", "R"),
        read("--cols", cols, "1", "C"),
        read("--clock", clock, "Hz", "f"),
    )
