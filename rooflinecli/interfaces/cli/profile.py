"""`roofline profile`: where the time of a trace goes, and how far each kernel is from its floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import DEPTH, EXPLAIN, derived
from rooflinecli.interfaces.cli.calculator_inputs import HW, Reader, chip, quantity
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE, most
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def profile(
    trace: Path = typer.Argument(
        ..., help="CSV, Chrome trace (.json, .json.gz), Nsight Systems CSV or SQLite export, or a jax.profiler folder."
    ),
    hw: str = HW,
    dtype: str = typer.Option("bf16", "--dtype", help="Number format of kernels that name none."),
    peak: str = typer.Option(None, "--peak", help="Peak FLOP/s, instead of the chip's."),
    bandwidth: str = typer.Option(None, "--bandwidth", help="Memory bandwidth, instead of the chip's."),
    model: str = typer.Option(None, "--model", help="Model whose ledger rows the kernels run."),
    batch: str = typer.Option("1", "--batch", help="With --model: sequences."),
    seq: str = typer.Option(None, "--seq", help="With --model: tokens per sequence in the pass."),
    context: str = typer.Option(None, "--context", help="With --model: context of a decode step, instead of --seq."),
    tp: str = typer.Option("1", "--tp", help="With --model: tensor-parallel size."),
    device: str = typer.Option(None, "--device", help="Which device of the trace; default: the busiest."),
    against: str = typer.Option(
        None,
        "--against",
        metavar="FLAGS",
        help="An estimate as its flags: each operation expected beside measured, and what is left.",
    ),
    steps: int = typer.Option(None, "--steps", min=1, help="With --against: steps in the trace; omitted: counted."),
    top: int = most(15, "Kernels to list."),
    wide: bool = WIDE,
    fmt: Format = FORMAT,
    out: Path = OUT,
    explain: str = EXPLAIN,
    depth: int = DEPTH,
) -> None:
    """Kernel times rolled up: where the time goes, what fusion and overlap would buy, each kernel against its floor."""
    from rooflinecli.importers.profiles.read import read as kernels_of
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.profile.rollup import profile as answer
    from rooflinecli.render.views import profile as text

    if against is not None:
        write(_against(trace, against, hw, steps, device, fmt, top, columns(wide, out)), out)
        return
    read = Reader(explain)
    ops = _ops(model, dtype, batch, seq, context, tp)
    result = answer(kernels_of(trace), _rates(hw, dtype, peak, bandwidth, bool(ops)), device, ops, read.leaf)
    if explain is None:
        write(text.render(result, fmt.value, top, columns(wide, out)), out)
        return
    write(derived({key: value for key, value in result.items() if key != "kernels"}, explain, depth), out)


def _against(
    trace: Path, flags: str, hw: str | None, steps: int | None, device: str | None, fmt: Format, top: int, width: int
) -> str:
    """The trace beside an estimate."""
    from rooflinecli.engine import build_request
    from rooflinecli.importers.profiles.read import read as kernels_of
    from rooflinecli.interfaces.cli.estimate_flags import estimate_options
    from rooflinecli.questions.profile.compare_estimate import against as answer
    from rooflinecli.render.views.profile_vs_estimate import render

    request = build_request.request(estimate_options("--against", flags, hw))
    return render(answer(kernels_of(trace), request, steps, device), fmt.value, top, width)


def _rates(hw: str | None, dtype: str, peak: str | None, bandwidth: str | None, needed: bool) -> Any:
    """Peak and bandwidth from the chip, from options, or both; None when neither is given."""
    from rooflinecli.questions.profile.kernel_floors import Rates

    if hw is None and peak is None and bandwidth is None:
        if needed:
            raise UsageError("--model needs rates to set the kernels against; give --hw")
        return None
    given = {
        "peak": quantity("--peak", peak, "FLOP/s") if peak else None,
        "bandwidth": quantity("--bandwidth", bandwidth, "B/s") if bandwidth else None,
    }
    if any(value is not None and value <= 0 for value in given.values()):
        raise UsageError("--peak and --bandwidth must be above zero")
    if hw is None:
        return Rates(dtype, given["peak"], given["bandwidth"])
    figures = {f"peak.{dtype}": given["peak"], "memory.bandwidth": given["bandwidth"]}
    numbers = chip(Reader(), hw, {path: value for path, value in figures.items() if value is not None})
    return Rates(dtype, numbers.peak(dtype), numbers.bandwidth, numbers)


def _ops(model: str | None, dtype: str, batch: str, seq: str | None, context: str | None, tp: str) -> Any:
    if model is None:
        return None
    if (seq is None) == (context is None):
        raise UsageError("--model needs --seq (a forward pass) or --context (a decode step)")
    from rooflinecli.questions.profile.match_ledger import expected_ops

    read = Reader()
    queries = 1.0 if seq is None else read("--seq", seq, "tokens", "S")
    keys = queries if context is None else read("--context", context, "tokens", "T")
    return expected_ops(model, dtype, read("--batch", batch, "1", "B"), queries, keys, read("--tp", tp, "1", "T"))
