"""Which quantisations of a model fit a machine, with how much context, and how fast each is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rooflinecli import memory
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import value
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.host_offload import as_fits, looked_up
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.residency import resident
from rooflinecli.engine.stored_weights import as_file
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf_mix import DEFAULTS
from rooflinecli.quantization.schemes import SCHEMES, parse
from rooflinecli.questions.estimate.extrapolation_notes import foreign
from rooflinecli.specs.layers import Quantization
from rooflinecli.specs.layout import Plan
from rooflinecli.specs.request import Request

SCHEMA = "roofline/fit/1"
FILES = (
    "F16",
    "Q8_0",
    "Q6_K",
    "Q5_K_M",
    "Q4_K_M",
    "Q4_K_S",
    "IQ4_XS",
    "Q3_K_L",
    "Q3_K_M",
    "Q3_K_S",
    "IQ3_M",
    "Q2_K",
    "IQ2_M",
    "IQ2_XS",
    "IQ1_M",
)
MIXTURES = ("F16", "Q8_0", "MXFP4_MOE", *FILES[2:])
DEFAULT = "llamacpp"
MOST = 2**20  # tokens looked at where a model names no longest context
LEAST = 512.0  # tokens of context below which nobody would call it a fit


@dataclass(frozen=True)
class Fitting:
    """One file type: bytes of its tensors, bits per weight, whether it fits, the longest context, and rates at the prompt asked for."""

    file: str
    bytes: int
    bits_per_weight: float
    fits: bool
    max_context: int
    engine: str
    decode_tokens_per_s: float | None = None
    decode_interval_per_s: tuple[float, float] | None = None
    prefill_tokens_per_s: float | None = None
    prefill_interval_per_s: tuple[float, float] | None = None
    layers_on_host: int | None = None
    experts_on_host: int | None = None


def fit(request: Request, files: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Every file type on one device, largest first, and the largest that holds the prompt and the answer asked for.

    Raises UsageError for an unknown file type and for a model whose files no rule describes.
    """
    spec = request.model
    moe = any(group.feedforward.kind == "moe" for group in spec.layers)
    wanted = files or (MIXTURES if moe else FILES)
    total = parameters(spec).total
    asked = [_fitting(request, file, total) for file in wanted]
    base = Scene(replace(request, engine=request.engine or runs(asked[0].file)))
    needed = float(value(base.prompt + base.output))
    best = next((f.file for f in sorted(asked, key=lambda f: -f.bytes) if f.fits and f.max_context >= needed), None)
    return {
        "schema": SCHEMA,
        "model": {"name": spec.name, "id": spec.id, "parameters": total, "max_context": spec.max_context},
        "hardware": {
            "name": request.hardware.name,
            "id": request.hardware.id,
            "capacity_bytes": float(value(base.chip.capacity)),
            "reserve_bytes": float(value(engine_constant(base, "reserve_bytes", "B"))),
        },
        "workload": {
            "prompt": value(base.prompt),
            "output": value(base.output),
            "batch": 1,
            "engine": base.engine.name,
        },
        "largest": best,
        "files": [vars(f) for f in asked],
        "notes": _notes(request, wanted),
    }


def _notes(request: Request, wanted: tuple[str, ...]) -> list[str]:
    """What runs the files, where nothing here knows it on this chip."""
    engines = dict.fromkeys(request.engine or runs(file) for file in wanted)
    return [note for name in engines for note in foreign(Scene(replace(request, engine=name)))]


def _fitting(request: Request, file: str, total: int) -> Fitting:
    """One file type on one device, one sequence."""
    model, engine = as_file(request.model, file), request.engine or runs(file)
    scene = Scene(replace(request, model=model, weight_dtype=None, devices=1.0, batch=1.0, engine=engine))
    plan = Plan()
    weights = float(value(memory.weights(scene.parameters(plan), scene.formats, 1.0)))
    room = float(value(scene.chip.capacity)) - weights + looked_up(scene) - float(value(engine_constant(scene, "reserve_bytes", "B")))
    longest = _longest(scene, plan, room)
    line = Fitting(file, round(weights), weights * 8 / total, longest >= LEAST, int(max(longest, 0)), scene.engine.name)
    if not line.fits:
        return _shared_out(scene, plan, line)
    return _timed(scene, plan, line)


def _shared_out(scene: Scene, plan: Plan, line: Fitting) -> Fitting:
    """What does not fit with the rest of it on the host, where the machine has one that holds it."""
    if scene.request.hardware.host_link is None or scene.request.hardware.kind == "cpu":
        return line
    asked = as_fits(scene, plan, engine_constant(scene, "reserve_bytes", "B"))
    parted = Scene(replace(scene.request, **asked))
    if parted.host is None:
        return line
    held = resident(parted, plan, "decode")
    if float(value(held.host_bytes or 0.0)) > float(value(parted.host.chip.capacity)):
        return line
    layers, experts = asked.get("gpu_layers"), asked.get("experts_on")
    away = scene.spec.n_layers - int(layers) if layers is not None else None
    found = replace(line, layers_on_host=away, experts_on_host=int(experts.partition(":")[2]) if experts else None)
    return _timed(parted, plan, found)


def _timed(scene: Scene, plan: Plan, line: Fitting) -> Fitting:
    """The line with its rates."""
    step, prompt = decode(scene, plan), prefill(scene, plan)
    low, high = (1 / float(value(t)) for t in reversed(step.interval_s))
    slow, fast = (float(value(scene.prompt / t)) for t in reversed(prompt.interval_s))
    return replace(
        line,
        decode_tokens_per_s=1 / float(value(step.time_s)),
        decode_interval_per_s=(low, high),
        prefill_tokens_per_s=float(value(scene.prompt / prompt.time_s)),
        prefill_interval_per_s=(slow, fast),
    )


def runs(file: str) -> str:
    """The engine that runs a file type or format where nobody says: llama.cpp, or the tool that wrote it."""
    stem = (parse(file) or Quantization(dtype="", group_size=None)).method
    return SCHEMES[stem].engine or DEFAULT if stem else DEFAULT


def _longest(scene: Scene, plan: Plan, room: float) -> float:
    """Tokens of one sequence whose cache the rest of the memory holds, as far as the model goes: by halving, since windows and
    states make the cache no straight line."""

    def fits(tokens: int) -> bool:
        return float(value(memory.kv_cache(scene.book, plan, scene.formats, 1.0, float(tokens), scene.lift))) <= room

    low, high = 0, int(scene.spec.max_context or MOST)
    if room < 0 or not fits(1):
        return 0.0
    if fits(high):
        return float(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return float(low)


def wanted(named: list[str] | None) -> tuple[str, ...] | None:
    """File types and formats (awq, mlx-4) as people write them. Raises UsageError for one that does not exist."""
    found = []
    if any(not item.strip(" ,") for item in named or ()):
        raise UsageError("--file: names no file type; give one such as Q4_K_M, or leave the option out", "file")
    for part in (part.strip() for item in named or () for part in item.split(",")):
        if part and part.upper() not in DEFAULTS and parse(part) is None:
            raise unknown("file type", part, (*DEFAULTS, *SCHEMES), option="file")
        if part:
            found.append(part.upper() if part.upper() in DEFAULTS else part.lower())
    return tuple(found) or None
