"""Comparison of a transformer with its prediction: counts must be equal, times are compared, all stored as JSON lines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.units import duration
from rooflinecli.measure.answer_types import ModelReport, PhaseComparison
from rooflinecli.measure.cpu_contention import around
from rooflinecli.measure.device import environment, keep_pages, known_chip
from rooflinecli.measure.dtypes import jax_name
from rooflinecli.measure.log import Log
from rooflinecli.measure.model import flop_oracle, programs, weights
from rooflinecli.measure.model.predict import Prediction, predict, total_parameters
from rooflinecli.measure.model.supported import scaled
from rooflinecli.measure.question import ModelComparison
from rooflinecli.measure.timing import Timing
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.model import ModelSpec

TRACED = 3  # runs in a trace: enough to see one that is not the first, small enough to keep


def close(loop: ModelComparison) -> ModelReport:
    """Run the loop. Raises UsageError for a model it cannot build or a phase it does not know."""
    for phase in loop.phase:
        if phase not in programs.PHASES:
            raise unknown("phase", phase, programs.PHASES)
    keep_pages()
    env = environment()
    spec = scaled(loop.model, loop.layers, loop.d_model, loop.vocab)
    if spec.max_context and spec.positions.kind == "learned" and loop.seq > (spec.positions.length or 0):
        raise UsageError(
            f"--seq {loop.seq}: {spec.name} has {spec.positions.length} learned positions; give a shorter one"
        )
    hardware = load_hardware(_profile(loop.hw, env.slug, env.kind))
    dtype = loop.dtype or ("fp32" if env.platform == "cpu" else "bf16")
    parameters = weights.initial(spec, jax_name(dtype))
    checks = [_equal("parameters", weights.count(parameters), total_parameters(spec))]
    log = Log(Path(loop.log or "roofline-loop.jsonl"), env.fingerprint)
    rows = []
    for phase in loop.phase or programs.PHASES:
        row, check = _phase(phase, loop, spec, hardware, parameters, dtype)
        rows.append(row)
        checks.append(check)
        log.append({"key": f"{row.id}/{time.time():.0f}", "date": env.date, **row.to_dict()})
    return ModelReport(model=spec.name, hardware=hardware.name, checks=checks, phases=rows)


def _profile(given: str | None, slug: str, kind: str) -> str:
    """The profile to predict with. Raises UsageError when there is none."""
    if given:
        return given
    here = Path(f"{slug}.yaml")
    if here.is_file():
        return str(here)
    chip = known_chip(kind)
    if chip:
        return chip
    raise UsageError(f"no profile of this machine ({here}); run `roofline measure` first, or give --hw")


def _phase(
    phase: str, loop: ModelComparison, spec: ModelSpec, hardware: HardwareSpec, parameters: Any, dtype: str
) -> tuple[PhaseComparison, str]:
    """One phase: predict, count, time."""
    expected = predict(phase, spec, hardware, loop.batch, loop.seq, dtype)
    program = programs.program(phase, spec, parameters, loop.batch, loop.seq, jnp.dtype(jax_name(dtype)))
    check = _equal(f"{phase} matmul FLOPs", flop_oracle.matmul_flops(program.fn, *program.args), round(expected.flops))
    timing, xla = timed(program, loop.budget, None if loop.trace is None else Path(loop.trace) / phase)
    return _row(phase, loop, spec, hardware, expected, timing, xla, dtype), check


def timed(program: programs.Program, budget: float, trace: Path | None = None) -> tuple[Timing, float]:
    """Compile and time a program, and trace a few runs where asked; also XLA's own FLOP count (matmuls plus elementwise)."""
    lowered = jax.jit(program.fn, donate_argnums=program.donate, keep_unused=True).lower(*program.args)
    start = time.perf_counter()
    executable = lowered.compile()
    compile_s = time.perf_counter() - start
    state = [program.args]

    def run(turn: int) -> Any:
        out = executable(*state[0])
        state[0] = program.carry(state[0], out)
        return out

    timing = around(run, jax.block_until_ready, budget)
    if trace:
        with jax.profiler.trace(str(trace)):
            for turn in range(TRACED):
                jax.block_until_ready(run(turn))
    return replace(timing, compile_s=compile_s), flop_oracle.xla_flops(lowered)


def _row(
    phase: str,
    loop: ModelComparison,
    spec: ModelSpec,
    hardware: HardwareSpec,
    expected: Prediction,
    timing: Timing,
    xla: float,
    dtype: str,
) -> PhaseComparison:
    s = timing.summary
    return PhaseComparison(
        id=f"loop/{spec.id}/L{spec.n_layers}/D{spec.d_model}/b{loop.batch}/s{loop.seq}/{dtype}/{phase}",
        phase=phase,
        predicted_s=expected.time,
        measured_s=s.median,
        low_s=s.low,
        mad_s=s.mad,
        runs=s.n,
        floor_s=expected.floor,
        error=expected.time / s.median - 1,
        matmul_flops=expected.flops,
        xla_flops=xla,
        compile_s=timing.compile_s,
        breakdown_s=expected.breakdown,
        warning="; ".join(filter(None, (timing.warning, below_floor(s.median, expected.floor), noise(hardware)))),
    )


def below_floor(measured: float, floor: float) -> str:
    """Warning about a time below the printed floor; empty where there is none."""
    if measured >= floor:
        return ""
    return (
        f"measured {duration(measured)} is below the floor of {duration(floor)}: a peak or the bandwidth of the profile is too low; "
        "measure again on an idle machine, or report the chip's figures"
    )


def noise(hardware: HardwareSpec) -> str:
    """Warning about a profile that was timed on a busy machine; empty for an idle one and for a datasheet."""
    contended = float((hardware.measured or {}).get("contended_fraction", 0.0))
    return f"{contended:.0%} of the profile's timings were taken on a busy machine" if contended else ""


def _equal(what: str, built: int, ledger: int) -> str:
    """The sentence about a count; the loop is closed only where both are the same."""
    return f"{what}: {built:,} built, {ledger:,} in the ledger{'' if built == ledger else ': NOT EQUAL'}"
