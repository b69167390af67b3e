"""`roofline calibrate FILE... --hw H`: measurements that people already have make the predictions theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import FORMAT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.specs.options import LOAD

app = typer.Typer(**QUIET)
_Opt = typer.Option
_SHARE = "Share of your rows that the fit does not see, for the proof."


@app.command(
    cls=PanelCommand,
    epilog="roofline calibrate bench.json --hw h100 --tp 8 --out my-cluster.yaml\n"
    "roofline calibrate train.log --hw h100 --model llama-3-8b -n 64 --batch 512 --seq 8k\n"
    "roofline estimate llama70b --hw my-cluster.yaml --engine vllm --concurrency 64",
)
@asks(without=("model", "phase", "efficiency", "attention-flops", "price", "tokens", "utilisation"))
def calibrate(
    options: dict[str, Any],
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Logs and results of benchmarks and training runs.", rich_help_panel=LOAD
    ),
    model: str = _Opt(
        None, "--model", metavar="NAME", help="The model, where a file does not say.", rich_help_panel=LOAD
    ),
    hold_out: float = _Opt(0.3, "--hold-out", min=0.0, max=0.9, metavar="SHARE", help=_SHARE),
    target: str = _Opt(
        None, "--target", metavar="FLAGS", help="The estimate you care about, as its flags: picks the next measurement."
    ),
    force: bool = _Opt(False, "--force", help="Write --out even where the rows held out got worse."),
    out: Path = _Opt(None, "--out", "-o", metavar="FILE", help="Write the calibrated hardware file here."),
    wide: bool = WIDE,
    format: Format = FORMAT,
) -> None:
    """Fit the engine's constants to your own measurements, with proof on rows held out, and write a hardware file.

    Reads vLLM, SGLang, AIPerf, genai-perf, GuideLLM, InferenceX, trtllm-bench, llama-bench, MLPerf, NCCL, OSU and perftest
    results, and logs of Megatron, NeMo, torchtitan, MaxText, DeepSpeed, llm-foundry and the Hugging Face Trainer. Exit code 1
    when nothing is written because the rows held out got worse.
    """
    from rooflinecli.calibrate.answer import calibrate as answer
    from rooflinecli.calibrate.report import data
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.render.views.calibrate import render

    given = {**options, **({"model": model} if model is not None else {})}
    result = answer(files, given, hold_out, _target(target, str(options["hw"])))
    write(render(data(result), format.value, columns(wide)))
    if result.refused and not force:
        raise typer.Exit(1)
    if out is not None:
        _write(result, out)


def _write(result: Any, out: Path) -> None:
    from rooflinecli.calibrate.write_hardware import hardware_yaml
    from rooflinecli.core import files
    from rooflinecli.interfaces.cli.output import print_error

    if not result.moved:
        print_error(f"note: {out} is not written: no phase moved, so the shipped file says all there is")
        return
    files.write(out, hardware_yaml(result))


def _target(text: str | None, hw: str) -> dict[str, Any] | None:
    """The options of an estimate written as its flags."""
    if text is None:
        return None
    from rooflinecli.interfaces.cli.estimate_flags import estimate_options

    return {"hw": hw, **estimate_options("--target", text, hw)}
