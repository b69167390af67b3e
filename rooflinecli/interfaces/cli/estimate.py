"""`roofline estimate MODEL --hw HW`: the main job."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE, levels
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    cls=PanelCommand,
    epilog="roofline estimate llama70b --hw h100 -n 8 --prompt 8k --concurrency 32\n"
    "roofline estimate llama-3-8b --hw tpu-v5p -n 64 --phase train --tokens 15T",
)
@asks(loose=("model", "hw"))
def estimate(
    options: dict[str, Any],
    mfu: str = _Opt(None, metavar="SHARE", help="A measured training MFU to hold against the estimate."),
    measured: str = _Opt(
        None, metavar="TIME", help="A measured time of the one --phase, such as '35 ms', to hold against the floor."
    ),
    explain: str = _Opt(
        None, metavar="QUANTITY", help="Show how a quantity follows, e.g. decode.time_s; `plan`: why this layout."
    ),
    depth: int = levels(3),
    source: str = _Opt(
        None, "--from", metavar="LAUNCH", help="Read options from a launch script, a config or a command in quotes."
    ),
    emit: str = _Opt(None, metavar="TOOL", help="Print the launch of this plan instead: vllm, sglang, megatron, ..."),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """What training, prefill and decode cost: time, throughput, memory and dollars, as floor, expected and interval.

    Exit code 1 when the plan does not fit; the answer is printed all the same, with what is missing.
    """
    from rooflinecli.core.record import plain
    from rooflinecli.engine import build_request
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.estimate.answer import estimate as answer
    from rooflinecli.questions.estimate.compare_measured import note

    if source is not None:
        from rooflinecli.importers.launch.read import options as launched

        options = launched(source, options, build_request.warn)
    request = build_request.request(options)
    if explain is not None:
        write(_explained(request, explain, depth, columns(wide, out)), out)
        return
    result = answer(request)
    if emit is not None:
        from rooflinecli.questions.estimate.emit import launch

        write(launch(emit, options, result), out)
        if not result.feasible:
            raise typer.Exit(1)
        return
    note(request, result, mfu, measured)
    room = "views" if format is Format.table else "formats"
    page = import_module(f"rooflinecli.render.{room}.{'estimate' if format is Format.table else format.value}").estimate
    write(page(plain(result), columns(wide, out)) if format is Format.table else page(plain(result)), out)
    if not result.feasible:
        raise typer.Exit(1)


def _explained(request: Any, quantity: str, depth: int, width: int) -> str:
    """The derivation of a quantity, or why the plan is the one it is."""
    if quantity == "plan":
        from rooflinecli.questions.estimate.explain_layout import why
        from rooflinecli.render.views.layout_choice import why as page

        return page(why(request), width)
    from rooflinecli.questions.estimate.explain import derivation
    from rooflinecli.render.views.explain import explain as text

    return text(derivation(request, quantity), depth)
