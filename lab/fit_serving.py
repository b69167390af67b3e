"""Refit of the constants of serving on collected and published runs: on all that a fit may see, and with each group left out.

Every run is priced once, with an array of factors on the constants (one moved at a time): its time, and the slope of its logarithm in
the logarithm of each constant. To first order a fit of all constants is then a least-squares problem over those slopes, with a pull
toward the shipped constants. `python -m lab.fit_serving`, with the extra `validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.fit import Array, Constant, Values, fit, leave_one_out
from lab.show import show
from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import grouped_gemm
from rooflinecli.price import overrides
from rooflinecli.price.overrides import TIMES
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.validate import inference as served
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Table

STEP = 0.05  # of the logarithm of a constant, for its slope
PULL = 200.0  # weight of a constant's squared logarithm against the soft losses of all runs
TRUSTED = float(np.exp(0.7))  # the largest factor for which a slope holds
SLACK = 0.995  # of a floor: what is measured below it is a wrong label
RATE = 3.0  # weight of a published throughput against a collected latency: an eighth as many
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
class FitRow:
    """A run as the fit sees it: what it belongs to, logarithms of measured and expected seconds, and the slope of each of PATHS."""

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
    """A constant under fit: its name, the path that moves it, and the share of that path's slope that a run responds with."""

    name: str
    path: str
    share: Callable[[FitRow], float]


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
        yield FreeConstant(f"crowded.{field}", EXPERTS + field, lambda row: row.crowded / (1 + row.crowded))
    for name in ("hopper", "blackwell"):
        yield FreeConstant(f"gather.memory {name}", "efficiency.exchange.memory", _of("generation", name))
    for path in PATHS[-4:]:
        for name in ENGINES:
            yield FreeConstant(f"{name}.{path.removeprefix('engine.')}", path, _of("engine", name))


def _of(field: str, name: str, shared: bool = False) -> Callable[[FitRow], float]:
    """The share of runs whose `field` is `name` (of all where it is empty); two entries with a crowd of experts share one slope."""
    return lambda row: float(not field or getattr(row, field) == name) / (1 + row.crowded * shared)


FREE = tuple(_free())


def slopes_of(
    run: Run, paths: tuple[str, ...], seconds: Callable[[EstimateContext, dict[str, Any]], Any]
) -> tuple[float, Array]:
    """Logarithm of a run's seconds as shipped, and its slope along each path; `seconds` answers a context under factors."""
    request, factors = build_request.request(run.options), {}
    for i, path in enumerate(paths):
        if has_class(request.hardware, path):
            column = np.ones(len(paths) + 1)
            column[i + 1] = np.exp(STEP)
            factors[TIMES + path] = column
    found = seconds(EstimateContext(request, override=factors), factors)
    logs = np.log(np.broadcast_to(found, len(paths) + 1))
    return float(logs[0]), (logs[1:] - logs[0]) / STEP


def fit_row(run: Run) -> FitRow:
    """A run's ITL, or the time a token takes at its throughput, with its slopes."""
    rate, answers = "throughput" in run.measured, []

    def seconds(ctx: EstimateContext, factors: dict[str, Any]) -> Any:
        answer = inference.decode(ctx, run.layout)
        answers.append((ctx, answer))
        return 1 / served.finite(run, answer, factors) if rate else answer.time_s

    expected, slopes = slopes_of(run, PATHS, seconds)
    ((ctx, answer),) = answers
    formats = ctx.formats
    return FitRow(
        run.options["model"],
        run.engine,
        _generation(ctx.request.hardware),
        "fp4" if "fp4" in formats.compute else formats.compute,
        # the format whose factors a format of experts has
        formats.expert_format if formats.expert_format in EXPERT_FORMATS else formats.expert_format.partition("-")[0],
        any(group.moe for group in ctx.ledger.layers),
        rate,
        run.seen in ("collected", "fitted"),
        float(grouped_gemm.crowded(float(np.max(answer.batch)))),
        float(np.log(1 / run.measured["throughput"] if rate else run.measured["itl"])),
        expected,
        float(np.max(answer.interval_s[1] / answer.time_s)) - 1,
        rate or run.measured["itl"] >= SLACK * float(np.max(answer.floor_s)),
        slopes,
    )


def has_class(hardware: HardwareSpec, path: str) -> bool:
    """Whether the chip has constants of the path's class."""
    return path.startswith(overrides.ENGINE) or path.split(".")[1] in overrides.classes(hardware)


def _generation(hardware: HardwareSpec) -> str:
    """The generation whose file the chip extends, Grace or not."""
    under = hardware.document.base_document
    return under.path.stem.lstrip("_").removeprefix("grace-") if under is not None else hardware.id


class Linear:
    """Runs as arrays: `missed` is log(expected / measured) [runs], `slopes` its slope along each constant [runs, constants]."""

    def __init__(self, names: Iterable[str], missed: Array, slopes: Array, weights: Array | float, pull: float):
        self.missed, self.slopes, self.pull = missed, slopes, pull
        self.names, self.weights = tuple(names), np.broadcast_to(weights, missed.shape)

    def fit(self, mask: Array) -> Array:
        """Logarithms of factors on the constants [constants] that fit the runs of a mask; 0 for those that move none of them."""
        slopes, missed, weights = self.slopes[mask], self.missed[mask], self.weights[mask]
        moved = np.flatnonzero(np.abs(slopes).sum(axis=0) > 0)
        free = {self.names[i]: Constant(1 / TRUSTED, TRUSTED, 1.0, self.pull) for i in moved}

        def residuals(values: Values) -> Array:
            return missed + slopes[:, moved] @ np.log(list(values.values()))

        point = np.zeros(len(self.names))
        point[moved] = np.log(list(fit(free, residuals, weights).values()))
        return point

    def errors(self, point: Array) -> Array:
        """log(predicted / measured) [runs] with the constants at a point."""
        found: Array = self.missed + self.slopes @ point
        return found

    def left_out(self, families: Array, seen: Array | bool = True) -> Array:
        """Errors [runs], each family's from a fit to the other families that are `seen`."""
        found = self.missed.copy()
        for _, own, point in leave_one_out(families, self.fit, seen):
            found[own] = self.errors(point)[own]
        return found


def linear_of(rows: list[FitRow]) -> Linear:
    """The problem of these rows, with all of FREE."""
    where = {path: i for i, path in enumerate(PATHS)}
    slopes = np.array([[row.slopes[where[free.path]] * free.share(row) for free in FREE] for row in rows])
    missed = np.array([row.expected - row.measured for row in rows])
    weights = np.array([RATE if row.rate else 1.0 for row in rows])
    return Linear((free.name for free in FREE), missed, slopes, weights, PULL)


def gather() -> list[FitRow]:
    """Collected runs and published ones that state a latency or a throughput, static batches aside."""
    runs = served.collected_runs()[0] + [run for run in served.published_runs() if not run.static]
    rows = (fit_row(run) for run in runs if {"itl", "throughput"} & set(run.measured))
    return [row for row in rows if row.possible]


def tables() -> list[Table]:
    """By quantity and kind of model: errors as shipped, refitted to all, and with each model, generation and engine left out; the factors."""
    rows = gather()
    linear, seen = linear_of(rows), np.array([row.seen for row in rows])
    point = linear.fit(seen)
    errors = {"shipped": linear.missed, "fitted": linear.errors(point)}
    for name, field in (("left_out", "model"), ("generation_out", "generation"), ("engine_out", "engine")):
        errors[name] = linear.left_out(np.array([getattr(row, field) for row in rows]), seen)
    lines = [_line(rows, errors, rate, moe) for rate in (False, True) for moe in (False, True)]
    notes = [
        "Mean errors, medians next to them where stated, of runs that constants may be fitted to; fitted: every constant refitted to all of them, to first "
        "order; left out: predicted from a fit without the model (with its median and the share inside the interval), the generation of chips, the engine.",
    ]
    factors = [{"group": free.name, "factor": float(f"{np.exp(x):.4g}")} for free, x in zip(FREE, point, strict=True)]
    return [
        Table("refit: serving", lines, notes),
        Table(
            "refit: factors on the constants of serving", factors, ["1 where the runs agree with the shipped constant."]
        ),
    ]


def _line(rows: list[FitRow], errors: dict[str, Array], rate: bool, moe: bool) -> dict[str, Any]:
    mask = np.array([row.seen and row.rate == rate and row.moe == moe for row in rows])
    off = {name: np.abs(np.expm1(-logs[mask] if rate else logs[mask])) for name, logs in errors.items()}
    half_width = np.log1p([row.error for row, chosen in zip(rows, mask, strict=True) if chosen])
    return {
        "group": f"{'throughput' if rate else 'inter-token latency'}, {'MoE' if moe else 'dense'}",
        "rows": int(mask.sum()),
        **{name: float(each.mean()) for name, each in off.items()},
        "left_out_median": float(np.median(off["left_out"])),
        "left_out_inside": float((np.abs(errors["left_out"][mask]) <= half_width).mean()),
    }


if __name__ == "__main__":
    show(tables())
