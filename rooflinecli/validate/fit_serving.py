"""Refitting the constants of serving on collected and published runs: on all that a fit may see, and with each group left out.

Every run is asked once, with an array of factors on the constants (one moved at a time), so that one pass gives its time and
how that answers to each constant. The logarithm of a time is then taken as linear in those of the constants, which makes a
fit, and one for every group left out, a matter of a second. Loss: soft-L1 of log(predicted / measured) beside a weak pull
towards what ships; search: fit.minimise, one constant after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import grouped_gemm
from rooflinecli.price import overrides
from rooflinecli.price.overrides import TIMES
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.validate import inference as served
from rooflinecli.validate.fit_kernels import minimize
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Array, Table

STEP = 0.05  # of the logarithm of a constant, for its slope
SOFT = 0.1  # error up to which the loss is square
PULL = 200.0  # weight of a constant's squared logarithm beside the soft losses of all runs
UNIT, MOST = 0.1, 0.7  # of a constant's logarithm: what the search starts with, and how far a slope is trusted
SLACK = 0.995  # of a floor: what is measured below it is a wrong label
ROUNDS, STEPS = 8, 14
RATE = 3.0  # weight of a published throughput beside a collected latency: an eighth as many
EXPERTS = "efficiency.served_experts."
PATHS = (
    "efficiency.matmul.compute",
    "efficiency.matmul.memory",
    "efficiency.decode_attention.memory",
    "efficiency.latent_attention.memory",
    "efficiency.prefill_attention.compute",
    *(f"{EXPERTS}{name}" for name in ("of_compute", "of_memory", "of_overhead", "of_held", "of_passes")),
    "efficiency.exchange.memory",
    *(f"engine.{name}" for name in ("per_layer", "per_moe_layer", "per_sequence", "per_sequence_moe")),
)
CROWDED = ("of_compute", "of_passes")
FORMATS = ("bf16", "fp8", "fp4")
EXPERT_FORMATS = ("bf16", "fp8", "nvfp4", "mxfp4", "mxfp4-fp8", "int4")
ENGINES = ("vllm", "sglang", "trtllm", "trtllm-cpp")


@dataclass(frozen=True)
class FitQuestion:
    """A run as the fit sees it: what it belongs to, its logarithms of measured and expected seconds, and the slope of each of PATHS."""

    model: str
    engine: str
    generation: str
    compute: str
    experts: str
    moe: bool
    rate: bool
    seen: bool
    crowded: float
    measured: float
    expected: float
    error: float
    possible: bool
    slopes: Array


@dataclass(frozen=True)
class FreeConstant:
    """A constant under fit: its name, the path that moves it, and the share of that path's slope which a run feels."""

    name: str
    path: str
    share: Callable[[FitQuestion], float]


def _free() -> Iterable[FreeConstant]:
    """The constants: of dense kernels, of experts by format, of exchanges by generation, and of each engine."""
    for name in FORMATS:
        yield FreeConstant(f"matmul.compute {name}", PATHS[0], _of("compute", name))
    for path in PATHS[1:5]:
        yield FreeConstant(path.removeprefix("efficiency."), path, _of("", ""))
    for field in ("of_compute", "of_overhead"):
        for name in EXPERT_FORMATS:
            yield FreeConstant(f"{field} {name}", EXPERTS + field, _of("experts", name, field in CROWDED))
    for field in ("of_memory", "of_held", "of_passes"):
        yield FreeConstant(field, EXPERTS + field, _of("", "", field in CROWDED))
    for field in CROWDED:
        yield FreeConstant(f"crowded.{field}", EXPERTS + field, _crowd)
    for name in ("hopper", "blackwell"):
        yield FreeConstant(f"gather.memory {name}", "efficiency.exchange.memory", _of("generation", name))
    for path in PATHS[-4:]:
        for name in ENGINES:
            yield FreeConstant(f"{name}.{path.removeprefix('engine.')}", path, _of("engine", name))


def _of(what: str, name: str, shared: bool = False) -> Callable[[FitQuestion], float]:
    """Runs whose `what` is `name` feel a constant, all where nothing is named; where shared, without the crowd's part of the slope."""
    return lambda a: float(not what or getattr(a, what) == name) / (1 + a.crowded * shared)


def _crowd(a: FitQuestion) -> float:
    """The crowd's part of a slope: two entries answer to one path, so with a crowd its slope is theirs together."""
    return a.crowded / (1 + a.crowded)


FREE = tuple(_free())


def answered(run: Run) -> FitQuestion:
    """A run's inter-token latency, or the time a token takes at its throughput: as shipped, and with each of PATHS moved by STEP."""
    request, factors = build_request.request(run.options), {}
    for i, path in enumerate(PATHS):
        if known(request.hardware, path):
            column = np.ones(len(PATHS) + 1)
            column[i + 1] = np.exp(STEP)
            factors[TIMES + path] = column
    ctx = EstimateContext(request, override=factors)
    answer = inference.decode(ctx, run.layout)
    rate = "throughput" in run.measured
    seconds = 1 / served.finite(run, answer, factors) if rate else answer.time_s
    logs = np.log(np.broadcast_to(seconds, len(PATHS) + 1))
    return FitQuestion(
        run.options["model"],
        run.engine,
        _generation(request.hardware),
        "fp4" if "fp4" in ctx.formats.compute else ctx.formats.compute,
        _served(ctx.formats.expert_format),
        any(group.moe for group in ctx.ledger.layers),
        rate,
        run.seen in ("collected", "fitted"),
        float(grouped_gemm.crowded(float(np.max(answer.batch)))),
        float(np.log(1 / run.measured["throughput"] if rate else run.measured["itl"])),
        float(logs[0]),
        float(np.max(answer.interval_s[1] / answer.time_s)) - 1,
        rate or run.measured["itl"] >= SLACK * float(np.max(answer.floor_s)),
        (logs[1:] - logs[0]) / STEP,
    )


def _served(expert_format: str) -> str:
    """The format whose factors a format of experts has."""
    return expert_format if expert_format in EXPERT_FORMATS else expert_format.partition("-")[0]


def known(hardware: HardwareSpec, path: str) -> bool:
    """Whether the chip has constants of the class."""
    return path.startswith(overrides.ENGINE) or path.split(".")[1] in overrides.classes(hardware)


def _generation(hardware: HardwareSpec) -> str:
    """The generation whose file the chip extends, Grace or not."""
    under = hardware.document.base_document
    return under.path.stem.lstrip("_").removeprefix("grace-") if under is not None else hardware.id


class Linear:
    """Runs as arrays: logarithms of measured and expected seconds, and a column of slopes for each of FREE."""

    def __init__(self, runs: list[FitQuestion]):
        self.runs = runs
        where = {path: i for i, path in enumerate(PATHS)}
        self.slopes = np.array([[a.slopes[where[free.path]] * free.share(a) for free in FREE] for a in runs])
        self.missed = np.array([a.expected - a.measured for a in runs])
        self.weight = np.array([RATE if a.rate else 1.0 for a in runs])
        self.seen = np.array([a.seen for a in runs])

    def fit(self, mask: Array) -> Array:
        """Logarithms of factors on the constants that fit the runs of a mask."""
        slopes, weight = self.slopes[mask], self.weight[mask]
        point, left = np.zeros(len(FREE)), self.missed[mask].copy()
        for _ in range(ROUNDS):
            for i in np.flatnonzero(np.abs(slopes).sum(axis=0) > 0):
                felt = slopes[:, i]
                rest = left - felt * point[i]
                point[i] = best(rest, felt, weight, point[i])
                left = rest + felt * point[i]
        return point

    def errors(self, point: Array) -> Array:
        """log(predicted / measured) with the constants at a point."""
        found: Array = self.missed + self.slopes @ point
        return found

    def without(self, of: Callable[[FitQuestion], str]) -> Array:
        """The same with each group's runs predicted from a fit that left the group out."""
        names = np.array([of(a) for a in self.runs])
        found = self.missed.copy()
        for name in np.unique(names[self.seen]):
            mine = names == name
            found[mine] = self.errors(self.fit(self.seen & ~mine))[mine]
        return found


def best(rest: Array, felt: Array, weight: Array, now: float, pull: float = PULL) -> float:
    """One constant, the others fixed."""

    def loss(point: Array) -> float:
        x = UNIT * point[0]
        missed = (rest + felt * x) / SOFT
        return float((weight * (np.sqrt(1 + missed * missed) - 1)).sum() + pull * x * x + 1e6 * max(abs(x) - MOST, 0))

    return UNIT * float(minimize(loss, np.array([now / UNIT]), STEPS)[0])


def gather() -> Linear:
    """Collected runs and published ones that state a latency or a throughput, static batches aside."""
    runs = served.collected_runs()[0] + [run for run in served.published_runs() if not run.static]
    found = (answered(run) for run in runs if {"itl", "throughput"} & set(run.measured))
    return Linear([a for a in found if a.possible])


def refitted() -> list[Table]:
    """By quantity and kind of model: errors as shipped, refitted to all, and with each model, generation and engine left out; then the factors."""
    linear = gather()
    point = linear.fit(linear.seen)
    ways = {"shipped": linear.missed, "fitted": linear.errors(point)}
    ways |= {"left_out": linear.without(lambda a: a.model), "generation_out": linear.without(lambda a: a.generation)}
    ways["engine_out"] = linear.without(lambda a: a.engine)
    rows = [_line(linear, ways, rate, moe) for rate in (False, True) for moe in (False, True)]
    notes = [
        "Mean errors, median beside it where it says so, of runs that constants may be fitted to; shipped: as they are; fitted: every constant refitted to all of them, to first "
        "order; left out: predicted from a fit without the model (its median and what of it lies inside the interval beside it), the generation of chips, the engine.",
    ]
    return [Table("refit: serving", rows, notes), _factors(point)]


def _line(linear: Linear, ways: dict[str, Array], rate: bool, moe: bool) -> dict[str, Any]:
    mask = np.array([a.seen and a.rate == rate and a.moe == moe for a in linear.runs])
    line: dict[str, Any] = {
        "group": f"{'throughput' if rate else 'inter-token latency'}, {'MoE' if moe else 'dense'}",
        "rows": int(mask.sum()),
    }
    for name, logs in ways.items():
        line[name] = float(_relative(logs[mask], rate).mean())
    line["left_out_median"] = float(np.median(_relative(ways["left_out"][mask], rate)))
    wide = np.log1p([a.error for a, m in zip(linear.runs, mask, strict=True) if m])
    line["left_out_inside"] = float((np.abs(ways["left_out"][mask]) <= wide).mean())
    return line


def _relative(logs: Array, rate: bool) -> Array:
    """|predicted / measured - 1| from the logarithm of a ratio of seconds."""
    return np.abs(np.expm1(-logs if rate else logs))


def _factors(point: Array) -> Table:
    rows = [{"group": free.name, "factor": float(f"{np.exp(x):.4g}")} for free, x in zip(FREE, point, strict=True)]
    return Table("refit: factors on the constants of serving", rows, ["1 where the runs ask for what ships."])
