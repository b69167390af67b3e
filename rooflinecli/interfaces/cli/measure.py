"""`roofline measure [SUITE]`: time real kernels, fit the constants, write a hardware profile; `measure model` closes the loop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.common_options import WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

_SUITES = {
    "matmul": "Matmuls: square, skinny as in decode, ragged.",
    "attention": "Attention: prefill and decode.",
    "bandwidth": "Memory streams: copy, triad, read.",
    "elementwise": "Norms, activations, reductions, optimizer, gather.",
    "collectives": "All-reduce and its kin over all local devices, or over hosts.",
    "all": "Everything (the default).",
}


class _Default(TyperGroup):
    """`roofline measure --quick` is `roofline measure all --quick`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["all", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Default,
    help="Time real kernels on this machine, fit the engine's constants and write a hardware profile "
    "that `estimate --hw` reads.",
    **QUIET,
)
_Opt = typer.Option


def _suite(name: str) -> Any:
    def command(
        quick: bool = _Opt(False, "--quick", help="A short grid, under 30 s on two CPU cores."),
        out: Path = _Opt(None, "--out", "-o", metavar="FILE", help="The profile; omitted: DEVICE.yaml in this folder."),
        log: Path = _Opt(
            None, help="The log of timings, which an interrupted run resumes; omitted: the profile's name with .jsonl."
        ),
        restart: bool = _Opt(False, "--restart", help="Measure afresh; the old log is kept as .old."),
        budget: float = _Opt(None, min=1.0, help="Seconds for all timing; omitted: 21 with --quick, else 900."),
        looks: int = _Opt(
            None, min=1, help="How often a kernel timed on a busy machine is timed again: 2 with --quick, else 4."
        ),
        dtype: list[str] = _Opt(None, "--dtype", help="fp32, bf16, fp16, fp8, int8, tf32; repeat for several."),
        extends: str = _Opt(
            None, help="The known chip this profile extends, or 'none'; omitted: recognized by its name."
        ),
        pallas: bool = _Opt(True, "--pallas/--no-pallas", help="Pallas kernels beside XLA's, where they compile."),
        force: bool = _Opt(
            False,
            "--force",
            help="Write the profile though the machine was busy, and fits that are worse than the bare roofline.",
        ),
        coordinator: str = _Opt(None, help="host:port of process 0, for several hosts."),
        processes: int = _Opt(None, min=1, help="How many processes take part."),
        process_id: int = _Opt(None, "--process-id", min=0, help="Which of them this is."),
        wide: bool = WIDE,
        format: Format = _Opt(Format.table, "--format", "-f", metavar="CHOICE", help="table or json."),
    ) -> None:
        needs_jax()
        from rooflinecli.measure.run import Options, execute
        from rooflinecli.render.views.measure import rate

        suites = tuple(s for s in _SUITES if s != "all") if name == "all" else (name,)
        options = Options(
            suites,
            quick,
            out,
            log,
            restart,
            budget,
            looks,
            tuple(dtype or ()),
            extends,
            pallas,
            force,
            (coordinator, processes, process_id),
        )
        raise typer.Exit(_show(execute(options, rate), format, columns(wide)))

    command.__doc__ = _SUITES[name]
    return command


for _name in _SUITES:
    app.command(_name)(_suite(_name))


@app.command("model")
def model(
    model: str = typer.Argument(
        ..., help="A name or alias (`roofline models`), or a YAML path: attention is MHA or GQA."
    ),
    hw: str = _Opt(None, "--hw", help="The profile to predict with; omitted: DEVICE.yaml in this folder."),
    batch: int = _Opt(1, min=1, help="Sequences."),
    seq: int = _Opt(256, min=2, help="Tokens of the prompt and of a training sequence."),
    layers: int = _Opt(None, min=1, help="Scale down: keep so many layers."),
    d_model: int = _Opt(None, "--d-model", min=8, help="Scale down: model width; heads and d_ff follow."),
    vocab: int = _Opt(None, min=2, help="Scale down: vocabulary."),
    dtype: str = _Opt(None, help="fp32 on a CPU, bf16 elsewhere."),
    phase: list[str] = _Opt(None, "--phase", help="forward, train, prefill, decode; repeat or omit for all."),
    budget: float = _Opt(5.0, min=0.1, help="Seconds of timing per phase."),
    log: Path = _Opt(None, help="Where the results are stored; omitted: roofline-loop.jsonl."),
    trace: Path = _Opt(
        None, metavar="FOLDER", help="Keep a trace of three runs of each phase there, for `roofline profile`."
    ),
    wide: bool = WIDE,
    format: Format = _Opt(Format.table, "--format", "-f", metavar="CHOICE", help="table or json."),
) -> None:
    """Close the loop: build the model in JAX from its YAML, run it, and hold the prediction against the clock."""
    needs_jax()
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.measure.model.compare import ModelComparison, close

    answer = close(
        ModelComparison(model, hw, batch, seq, layers, d_model, vocab, dtype, tuple(phase or ()), budget, log, trace)
    )
    if format is Format.json:
        import json

        write(json.dumps(answer, indent=2))
        return
    from rooflinecli.render.views.measure import loop

    for row in answer["phases"]:
        if row["warning"]:
            print(f"roofline: {row['phase']}: {row['warning']}", file=sys.stderr)
    write(loop(answer["phases"], answer["checks"], columns(wide)))


def _server(engine: str | None) -> Any:
    def command(
        url: str = typer.Argument(..., help="The server's address, such as http://localhost:8000."),
        model: str = _Opt(None, "--model", help="The model to ask for; omitted: the only one that the server lists."),
        concurrency: str = _Opt("1,4,16", metavar="COUNTS", help="Requests in flight, one run each."),
        prompt: str = _Opt(
            "512",
            metavar="TOKENS",
            help="Tokens of a prompt, about; the server's own count is kept. Several with commas.",
        ),
        output: int = _Opt(64, min=2, metavar="TOKENS", help="Tokens of an answer."),
        requests: int = _Opt(None, min=1, metavar="COUNT", help="Requests of a run; omitted: four for each in flight."),
        timeout: float = _Opt(120.0, min=1.0, metavar="SECONDS", help="How long to wait for one answer."),
        out: Path = _Opt(
            None,
            "--out",
            "-o",
            metavar="FILE",
            help="Where the runs go, for `roofline calibrate`; omitted: standard output.",
        ),
    ) -> None:
        import json

        from rooflinecli.interfaces.cli.output import write
        from rooflinecli.measure.openai_load import ServerBenchmark, close

        runs = [
            close(ServerBenchmark(url, model, engine, many, length, output, requests or 0, timeout))
            for many in _counts("--concurrency", concurrency)
            for length in _counts("--prompt", prompt)
        ]
        write("\n".join(json.dumps(run) for run in runs), out)

    command.__doc__ = f"""A closed loop against a running {"vLLM" if engine else "OpenAI-compatible"} server: first token, time per token.

    Writes a line of JSON per load, which `roofline calibrate FILE --hw H -n N` reads. OPENAI_API_KEY is sent where it is set.
    """
    return command


def _counts(flag: str, text: str) -> list[int]:
    """Whole numbers with commas between. Raises UsageError."""
    from rooflinecli.specs import parse_values

    found = [parse_values.number(flag, part.strip()) for part in text.split(",")]
    if any(value < 1 or value != int(value) for value in found):
        raise UsageError(f"{flag} {text}: expected whole numbers above zero, such as 1,4,16")
    return [int(value) for value in found]


app.command("openai")(_server(None))
app.command("vllm")(_server("vllm"))


def needs_jax() -> None:
    """Raises UsageError with the pip line where jax is not installed."""
    from importlib.util import find_spec

    if find_spec("jax") is None:
        raise UsageError(
            'measuring needs jax; install it with: pip install "rooflinecli[measure]" (on a GPU or TPU: '
            'pip install "jax[cuda13]" or "jax[tpu]")'
        )


def _show(answer: Any, format: Format, width: int) -> int:
    """Print a run's answer; returns the exit code."""
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.render.views import measure as render

    if not answer.leader:
        return 0
    for sentence in [*render.warnings(answer.records, answer.failed), *answer.notes]:
        print(f"roofline: {sentence}", file=sys.stderr)
    if answer.text is not None:
        write(answer.text, answer.out)
    if format is Format.json:
        write(render.as_json(answer.environment.record(), answer.records, answer.fits, answer.roofs, answer.extra))
    else:
        parts = [render.timings(answer.records, width)]
        if answer.roofs:
            parts.append(render.fits(answer.fits, answer.roofs, width))
        if answer.extra.get("held_out"):
            parts.append(render.held(answer.extra["held_out"], width))
        if answer.text is not None:
            parts.append(f"wrote {answer.out}; use it as --hw {answer.out}")
        write("\n\n".join(parts))
    return 130 if answer.interrupted else int(answer.withheld)
