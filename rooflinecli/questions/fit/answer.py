"""Which quantizations of a model fit a machine, with how much context, and how fast each is."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from rooflinecli import memory
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import value
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.host_offload import host_embedding_bytes, offload_to_fit
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.residency import resident_memory, weight_bytes
from rooflinecli.engine.stored_weights import with_weight_format
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf import file_types
from rooflinecli.quantization.schemes import parse, schemes
from rooflinecli.questions.estimate.answer import foreign
from rooflinecli.questions.fit.question import FitAnswer, FitDevice, FitLoad, FitModel, FitRow
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import Quantization
from rooflinecli.specs.request import Request

SCHEMA = "roofline/fit/1"
FILES = tuple("F16 Q8_0 Q6_K Q5_K_M Q4_K_M Q4_K_S IQ4_XS Q3_K_L Q3_K_M Q3_K_S IQ3_M Q2_K IQ2_M IQ2_XS IQ1_M".split())
MIXTURES = ("F16", "MXFP4_MOE", *FILES[1:])
DEFAULT = "llamacpp"
MOST = 2**20  # tokens looked at where a model names no longest context
LEAST = 512.0  # tokens of context below which it does not count as a fit


def fit(request: Request, files: tuple[str, ...] | None = None) -> FitAnswer:
    """Every file type on one device, largest first, and the largest that holds the prompt and the answer asked for.

    Raises UsageError for an unknown file type and for a model whose files no rule describes.
    """
    spec = request.model
    moe = any(group.feedforward.kind == "moe" for group in spec.layers)
    wanted = files or (MIXTURES if moe else FILES)
    total = parameters(spec).total
    asked = sorted((_fitting(request, file, total) for file in wanted), key=lambda f: -f.bytes)
    base = EstimateContext(replace(request, engine=request.engine or default_engine_for(wanted[0])))
    needed = float(value(base.prompt + base.output))
    engines = dict.fromkeys(request.engine or default_engine_for(file) for file in wanted)
    away = "the token embedding stays in host memory and takes no device memory"
    apart = [away] if host_embedding_bytes(base) else []
    best = next((f.file for f in asked if f.fits and f.max_context >= needed), None)
    capacity, reserve = (float(value(n)) for n in (base.chip.capacity, engine_constant(base, "reserve_bytes", "B")))
    return FitAnswer(
        schema=SCHEMA, model=FitModel.like(spec, parameters=total),
        hardware=FitDevice.like(request.hardware, capacity_bytes=capacity, reserve_bytes=reserve),
        workload=FitLoad(prompt=value(base.prompt), output=value(base.output), batch=1, engine=base.engine.name), largest=best, files=asked,
        notes=[*apart, *(note for name in engines for note in foreign(EstimateContext(replace(request, engine=name))))],
    )  # fmt: skip


def _fitting(request: Request, file: str, total: int) -> FitRow:
    """One file type on one device, one sequence."""
    model, engine = with_weight_format(request.model, file), request.engine or default_engine_for(file)
    ctx = EstimateContext(replace(request, model=model, weight_dtype=None, devices=1.0, batch=1.0, engine=engine))
    plan = Layout()
    weights = float(value(memory.weights(ctx.parameters(plan), ctx.formats, 1.0)))
    kept = value(weight_bytes(ctx, plan)) + value(engine_constant(ctx, "reserve_bytes", "B"))
    room = float(value(ctx.chip.capacity) - kept)
    longest = _longest(ctx, plan, room)
    line = FitRow(
        file=file, bytes=round(weights), bits_per_weight=weights * 8 / total, fits=longest >= LEAST, max_context=int(max(longest, 0)),
        engine=ctx.engine.name,
    )  # fmt: skip
    return _timed(ctx, plan, line) if line.fits else _shared_out(ctx, plan, line)


def _shared_out(ctx: EstimateContext, layout: Layout, line: FitRow) -> FitRow:
    """What does not fit with the rest of it on the host, where the machine has one that holds it."""
    if ctx.request.hardware.host_link is None or ctx.request.hardware.kind == "cpu":
        return line
    asked = offload_to_fit(ctx, layout, engine_constant(ctx, "reserve_bytes", "B"))
    parted = EstimateContext(replace(ctx.request, **asked))
    if parted.host is None:
        return line
    held = resident_memory(parted, layout, "decode")
    if float(value(held.host_bytes or 0.0)) > float(value(parted.host.chip.capacity)):
        return line
    layers, experts = asked.get("gpu_layers"), asked.get("experts_on")
    away = ctx.spec.n_layers - int(layers) if layers is not None else None
    found = replace(line, layers_on_host=away, experts_on_host=int(experts.partition(":")[2]) if experts else None)
    return _timed(parted, layout, found)


def _timed(ctx: EstimateContext, layout: Layout, line: FitRow) -> FitRow:
    """The line with its rates."""
    step, prompt = decode(ctx, layout), prefill(ctx, layout)
    low, high = (1 / float(value(t)) for t in reversed(step.interval_s))
    slow, fast = (float(value(ctx.prompt / t)) for t in reversed(prompt.interval_s))
    return replace(
        line, decode_tokens_per_s=1 / float(value(step.time_s)), decode_interval_per_s=(low, high),
        prefill_tokens_per_s=float(value(ctx.prompt / prompt.time_s)), prefill_interval_per_s=(slow, fast),
    )  # fmt: skip


def default_engine_for(file: str) -> str:
    """The engine that runs a file type or format by default: llama.cpp, or the tool that wrote it."""
    stem = (parse(file) or Quantization(dtype="", group_size=None)).method
    return schemes()[stem].engine or DEFAULT if stem else DEFAULT


def _longest(ctx: EstimateContext, layout: Layout, room: float) -> float:
    """Tokens of one sequence whose cache the rest of the memory holds, as far as the model goes: by halving, since windows and
    states make the cache no straight line."""

    def beyond(tokens: int) -> bool:
        return float(value(memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, float(tokens), ctx.lift))) > room

    most = int(ctx.spec.max_context or MOST)
    return 0.0 if room < 0 else float(bisect_left(range(1, most + 1), True, key=beyond))


def parse_file_types(named: list[str] | None) -> tuple[str, ...] | None:
    """File types and formats (awq, mlx-4) as people write them. Raises UsageError for one that does not exist."""
    found = []
    if any(not item.strip(" ,") for item in named or ()):
        raise UsageError("--file: names no file type; give one such as Q4_K_M, or leave the option out", "file")
    for part in (part.strip() for item in named or () for part in item.split(",")):
        if part and part.upper() not in file_types() and parse(part) is None:
            raise unknown("file type", part, (*file_types(), *schemes()), option="file")
        if part:
            found.append(part.upper() if part.upper() in file_types() else part.lower())
    return tuple(found) or None
