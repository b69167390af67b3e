"""`roofline collective OP BYTES --hw HW -n N`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, HW, OUT, WIDE, levels
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def collective(
    op: str = typer.Argument(
        ..., help="all-reduce, all-gather, reduce-scatter, all-to-all or permute; with --mode dispatch or combine."
    ),
    size: str = typer.Argument(..., help="The whole tensor, such as 128MiB; a bare number is bytes."),
    hw: str = HW,
    n: str = typer.Option(None, "-n", "--devices", help="Devices in the group; or --mesh."),
    mode: str = typer.Option(
        "nccl",
        help="nccl; deepep-low-latency, deepep, nvlink, gather (dispatch, combine); one-shot, two-shot, custom (all-reduce).",
    ),
    top_k: str = typer.Option(
        "8", "--top-k", help="Experts of a token: with dispatch and combine, BYTES are the tokens of one rank."
    ),
    nodes: str = typer.Option(
        None, "--node-limit", help="Most nodes that a token's experts are on (group-limited routing)."
    ),
    library: str = typer.Option(None, help="Whose kernels: vllm, sglang, trtllm."),
    mesh: str = typer.Option(None, help="Members per torus axis, such as x=4,y=1, instead of -n."),
    explain: str = typer.Option(None, help="Show how a quantity follows, e.g. time_s."),
    depth: int = levels(3),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """What a collective costs over N devices: bytes sent, floor, expected time, bus bandwidth."""
    from math import prod

    from rooflinecli.core.errors import UsageError, unknown
    from rooflinecli.engine.build_request import value
    from rooflinecli.interfaces.cli.calculator_inputs import quantity
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.collective.answer import BUS, along_axes
    from rooflinecli.questions.collective.answer import collective as answer
    from rooflinecli.questions.collective.backends import MODES, PHASES, with_mode
    from rooflinecli.questions.shard.notation import mesh as axis_sizes
    from rooflinecli.render.views.collective import text
    from rooflinecli.specs.hardware import load_hardware
    from rooflinecli.specs.options import OPTIONS

    size_bytes = quantity("size", size, "B")
    if size_bytes <= 0:
        raise UsageError(f"size {size}: must be above zero")
    chip, axes = load_hardware(hw), axis_sizes(mesh) if mesh is not None else None
    if (n is None) == (axes is None):
        raise UsageError("say the group once: -n 8, or --mesh x=4,y=2")
    devices = value(OPTIONS["n"], n) if axes is None else prod(axes.values())
    if op not in (*BUS, *PHASES):
        raise unknown("collective", op, (*BUS, *PHASES))
    if mode == "nccl":
        if op in PHASES:
            raise UsageError(
                f"{op} is what experts' kernels do, not NCCL; add --mode deepep-low-latency, deepep, nvlink or gather",
                "mode",
            )
        along = along_axes(chip, axes) if axes is not None else None
        asked = lambda lift: answer(op, size_bytes, chip, devices, lift=lift, mesh=along)  # noqa: E731
    elif mode in MODES:
        if axes is not None:
            raise UsageError("--mesh lays a group on a torus, which NCCL's rivals do not know; give -n")
        further: dict[str, Any] = {"top_k": value(OPTIONS["n"], top_k, "--top-k"), "library": library or ""}
        if nodes is not None:
            further["limit"] = value(OPTIONS["n"], nodes, "--node-limit")
        asked = lambda lift: with_mode(op, size_bytes, chip, devices, mode, lift=lift, **further)  # noqa: E731
    else:
        raise unknown("mode", mode, MODES)
    write(text(asked, format.value, explain, depth, columns(wide, out)), out)
