"""Comparison of a transformer with its prediction: counts must be equal, times are compared, all stored as JSON lines.

The prediction is the engine's; FLOPs of matmuls are counted from the jaxpr and by XLA.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import value
from rooflinecli.core.units import duration
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import roofline
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.measure.cases import jax_name
from rooflinecli.measure.device import environment, keep_pages, known_chip
from rooflinecli.measure.jaxpr_counter import CountingRules, count_operations
from rooflinecli.measure.model import transformer
from rooflinecli.measure.model.transformer import scaled
from rooflinecli.measure.question import ModelComparison, ModelReport
from rooflinecli.measure.session import Log, time_in_blocks
from rooflinecli.measure.timing import Timing
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.request import Request

TRACED = 3  # runs in a trace: enough to see one that is not the first, small enough to keep


def compare_model(question: ModelComparison) -> ModelReport:
    """Build, count and time the model. Raises UsageError for a model it cannot build or a phase it does not know."""
    for phase in question.phase:
        if phase not in transformer.PHASES:
            raise unknown("phase", phase, transformer.PHASES)
    keep_pages()
    env = environment()
    spec = scaled(question.model, question.layers, question.d_model, question.vocab)
    if spec.max_context and spec.positions.kind == "learned" and question.seq > (spec.positions.length or 0):
        raise UsageError(
            f"--seq {question.seq}: {spec.name} has {spec.positions.length} learned positions; give a shorter one"
        )
    hardware = load_hardware(_profile(question.hw, env.slug, env.kind))
    dtype = question.dtype or ("fp32" if env.platform == "cpu" else "bf16")
    parameters = transformer.initial(spec, jax_name(dtype))
    checks = [_equal("parameters", transformer.count(parameters), total_parameters(spec))]
    log = Log(Path(question.log or "roofline-loop.jsonl"), env.fingerprint)
    rows = []
    for phase in question.phase or transformer.PHASES:
        # One phase: predict, count, time
        expected = predict(phase, spec, hardware, question.batch, question.seq, dtype)
        program = transformer.program(phase, spec, parameters, question.batch, question.seq, jnp.dtype(jax_name(dtype)))
        check = _equal(f"{phase} matmul FLOPs", matmul_flops(program.fn, *program.args), round(expected.flops))
        timing, xla = timed(program, question.budget, None if question.trace is None else Path(question.trace) / phase)
        s = timing.summary
        warnings = (timing.warning, below_floor(s.median, expected.floor), noise(hardware))
        row = {
            "id": f"loop/{spec.id}/L{spec.n_layers}/D{spec.d_model}/b{question.batch}/s{question.seq}/{dtype}/{phase}", "phase": phase,
            "predicted_s": expected.time, "measured_s": s.median, "low_s": s.p10, "mad_s": s.mad, "runs": s.n, "floor_s": expected.floor,
            "error": expected.time / s.median - 1, "matmul_flops": expected.flops, "xla_flops": xla, "compile_s": timing.compile_s,
            "breakdown_s": expected.breakdown, "warning": "; ".join(filter(None, warnings)),
        }  # fmt: skip
        rows.append(row)
        checks.append(check)
        log.append({"key": f"{row['id']}/{time.time():.0f}", "date": env.date, **row})
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


def timed(program: transformer.Program, budget: float, trace: Path | None = None) -> tuple[Timing, float]:
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

    timing = time_in_blocks(run, jax.block_until_ready, budget)
    if trace:
        with jax.profiler.trace(str(trace)):
            for turn in range(TRACED):
                jax.block_until_ready(run(turn))
    return replace(timing, compile_s=compile_s), (lowered.cost_analysis() or {}).get("flops", 0.0)


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
    """The sentence about a count of the program and that of the ledger, which must be the same."""
    return f"{what}: {built:,} built, {ledger:,} in the ledger{'' if built == ledger else ': NOT EQUAL'}"


ADAM_BYTES = 8.0  # two fp32 moments; the fp32 weights are their own master copy


@dataclass(frozen=True)
class Prediction:
    """Seconds, and FLOPs with every query-key pair counted, as a program without a fused mask executes them."""

    time: float
    floor: float
    flops: float
    breakdown: dict[str, float]


def ctx(spec: ModelSpec, hardware: HardwareSpec, batch: int, seq: int, dtype: str) -> EstimateContext:
    length = float(seq)
    request = Request(spec, hardware, batch=float(batch), prompt=length, seq=length, output=1.0, devices=1.0)
    return EstimateContext(replace(request, dtype=dtype, attention_flops="full", optimizer_bytes=ADAM_BYTES))


def total_parameters(spec: ModelSpec) -> int:
    return int(value(parameters(spec).total))


def predict(phase: str, spec: ModelSpec, hardware: HardwareSpec, batch: int, seq: int, dtype: str) -> Prediction:
    """Price one phase on one device. FLOPs are counted over full attention, times over the causal half the kernels were fitted at."""
    counted = ctx(spec, hardware, batch, seq, dtype)
    causal = replace(counted.request, attention_flops="causal")
    timed, layout = EstimateContext(causal), Layout(micro_batch=float(batch))
    if phase == "train":
        answer = train(timed, layout)
        flops = 3 * value(counted.model_flops(batch, seq, seq, seq, decode=False))
        return Prediction(float(value(answer.time_s)), float(value(answer.floor_s)), flops, _plain(answer.breakdown_s))
    decode = phase == "decode"
    queries, logits = (1, 1) if decode else (seq, seq if phase == "forward" else 1)
    # A bare forward pass: no serving engine around it, and a head that answers at `logits` positions
    costs = StepAccumulator(timed.chip, "kernel", 1.0)
    ops = ForwardPass(timed.formats, decode=decode)
    work = pass_axis_sizes(float(batch), float(queries), float(seq), float(logits), layout)
    for group in timed.ledger.layers:
        costs.add(
            ops.ops(group.rows, layer_sizes(group, work, layout, timed.spec.document, timed.lift)), float(group.repeat)
        )
    outer = stem_head_axis_sizes(timed.ledger, work, layout, timed.spec.document, timed.lift)
    costs.add(ops.ops((*timed.ledger.stem, *timed.ledger.head), outer, outer=True), 1.0)
    flops = value(counted.model_flops(batch, queries, seq, logits, decode=decode))
    floor = roofline.floor_time(value(costs.t_compute), value(costs.t_memory))
    return Prediction(float(value(costs.total)), float(floor), float(flops), _plain(costs.groups))


def _plain(parts: dict[str, float]) -> dict[str, float]:
    return {name: float(value(seconds)) for name, seconds in parts.items()}


def matmul_flops(fn: Callable[..., Any], *args: Any) -> int:
    """Two FLOPs per multiply-add of every matmul in `fn`, loops included."""
    return round(count_operations(jax.make_jaxpr(fn)(*args), CountingRules(dead=True)).flops)
