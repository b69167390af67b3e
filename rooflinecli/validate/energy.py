"""Measured power of serving: predictions by constants that were fitted without the model, and the serving quantities of the same runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rooflinecli.engine import build_request, evaluate, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import DecodeAnswer, PrefillAnswer
from rooflinecli.engine.residency import max_batch
from rooflinecli.engine.serving_load import ReplicaLoad, prefill_interference_s
from rooflinecli.formulas import energy, serving
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.snapshots import published
from rooflinecli.validate.stats import AT_FAULT, Array, Points, Row, Table, error_table, notes, score

FORMATS = {"mxfp4": None}  # the checkpoint's own


@dataclass
class PowerRow:
    """A measured run, its estimate, and the uses of memory and matrix units at the measured and the estimated throughput."""

    model: str
    hw: str
    kind: str
    devices: float
    replicas: float
    tdp: float
    batch: float
    watts: float
    tokens_per_s: float
    itl_s: float
    answer: DecodeAnswer
    measured_use: tuple[float, float]
    use: tuple[float, float]
    error: float
    at_fault: bool

    @property
    def group(self) -> str:
        return f"{self.hw}, {self.kind}" + AT_FAULT * self.at_fault


@cache
def rows() -> tuple[PowerRow, ...]:
    """Every row of published_runs/energy.yaml with its estimate."""
    data = published("energy")
    prompts, runs = data["prompts"], [(run, values) for run in data["runs"] for values in run["rows"]]
    return tuple(_row(run, prompts[run["task"]], *map(float, values)) for run, values in runs)


def _row(run: Row, prompt: int, batch: float, output: float, watts: float, rate: float, itl_ms: float) -> PowerRow:
    layout = Layout(tp=float(run["tp"]), dp=float(run["dp"]), ep=float(run["ep"]), zero=0)
    running = max(round(batch / run["dp"]), 1)
    options = {
        "model": run["model"], "hw": run["hw"], "dtype": FORMATS.get(run["dtype"], run["dtype"]), "engine": "vllm-api-server", "prompt": prompt,
        "output": max(round(output), 1), "concurrency": running, "phase": "decode",
        "max_num_seqs": running,  # which the server was started with, as it ran them
    }  # fmt: skip
    ctx = EstimateContext(build_request.request(options))
    # as many as the server ran, of which not all were at full length
    ran = ReplicaLoad("closed", ctx.batch, max_batch(ctx, layout), prefill_interference_s(ctx, layout))
    ctx.memoized(layout, "load", lambda: ran)
    answer = inference.decode(ctx, layout)
    evaluate.derive(ctx, layout, "decode", answer)
    context, devices = serving.mean_context(ctx.prompt, ctx.output), float(layout.devices)
    memory = float(answer.resources_s.memory)

    def uses(seconds: float, tokens_per_s: float) -> tuple[float, float]:
        compute = evaluate.served_compute_use(ctx, answer.batch, context, tokens_per_s, devices)
        return memory / seconds, float(compute)

    return PowerRow(
        model=run["model"], hw=run["hw"], kind="MoE" if ctx.is_moe else "dense", devices=devices, replicas=float(layout.dp),
        tdp=float(ctx.chip.rated_power), batch=batch, watts=watts, tokens_per_s=rate, itl_s=itl_ms / 1e3, answer=answer,
        measured_use=uses(batch / rate, rate), use=uses(float(answer.time_s), float(answer.tokens_per_s)),
        error=float(answer.derived["power_error"]), at_fault="at_fault" in run,
    )  # fmt: skip


@dataclass
class ImageRow:
    """A measured run of a model that makes images or video, and its estimate; power by constants fitted to language models alone."""

    model: str
    hw: str
    devices: float
    batch: float
    watts: float
    seconds: float
    layout: Layout
    answer: PrefillAnswer

    @property
    def group(self) -> str:
        return f"{self.model}, {'one device' if self.devices == 1 else 'several'}"

    @property
    def joules(self) -> float:
        return self.watts * self.seconds * self.devices / self.batch


@cache
def image_rows() -> tuple[ImageRow, ...]:
    """Every row of the table `diffusion` of published_runs/energy.yaml with its estimate."""
    found = []
    for run in published("energy")["diffusion"]:
        named = {key: run[key] for key in ("model", "hw")}
        for devices, ulysses, batch, watts, seconds in run["rows"]:
            options = {**named, "image": run["image"], "batch": float(batch), "phase": "prefill"}
            ctx = EstimateContext(build_request.request(options))
            layout = Layout(cp=float(devices), ring="ulysses" if ulysses * ulysses >= devices else "zigzag")
            answer = inference.prefill(ctx, layout)
            evaluate.derive(ctx, layout, "prefill", answer)
            found.append(ImageRow(**named, devices=devices, batch=batch, watts=watts, seconds=seconds, layout=layout, answer=answer))  # fmt: skip
    return tuple(found)


def image_values(name: str, row: ImageRow) -> tuple[float, ...]:
    """Measured, expected, floor, low and high seconds per batch, watts or joules per image of one run."""
    answer = row.answer
    time_s, floor_s, low, high = (float(t) for t in (answer.time_s, answer.floor_s, *answer.interval_s))
    if name == "seconds for a batch":
        return row.seconds, time_s, floor_s, low, high
    key = "power_w" if name == "power" else "joules_per_image"
    expected, (low, high) = float(answer.derived[key]), map(float, answer.derived_intervals[f"{key}_interval"])
    if name == "power":
        return row.watts, expected, 0.0, low, high
    return row.joules, expected, expected * (floor_s / time_s), low, high


def watts(row: PowerRow, use: tuple[float, float]) -> float:
    """Power of a device at some uses of memory and matrix units, by constants fitted without the model (`python -m lab.left_out`)."""
    static, memory, compute = published("left_out")["power"][row.hw][row.model]
    return float(energy.power_fraction(static, memory, compute, *use)) * row.tdp


def joules(row: PowerRow) -> tuple[float, float, float, float]:
    """Expected, floor, low and high joules per output token."""
    answer = row.answer
    expected = watts(row, row.use) * row.devices / float(answer.tokens_per_s)
    rate = float(answer.tokens_per_s / answer.tokens_per_s_interval[0]) - 1
    error = float(energy.quotient_error(rate, row.error, evaluate.POWER_AND_RATE))
    return expected, expected * float(answer.floor_s / answer.time_s), expected / (1 + error), expected * (1 + error)


def _power(row: PowerRow, use: tuple[float, float]) -> tuple[float, float, float, float]:
    expected = watts(row, use)
    return expected, 0.0, expected / (1 + row.error), min(expected * (1 + row.error), row.tdp)


def _rates(row: PowerRow) -> tuple[float, float, float, float]:
    rate, (low, high) = row.answer.tokens_per_s, row.answer.tokens_per_s_interval
    return float(rate), float(rate * row.answer.time_s / row.answer.floor_s), float(low), float(high)


QUANTITIES: dict[str, tuple[Callable[[PowerRow], float], Callable[[PowerRow], tuple[float, float, float, float]]]] = {
    "joules per output token": (lambda row: row.watts * row.devices / row.tokens_per_s, joules),
    "power at the estimated throughput": (lambda row: row.watts, lambda row: _power(row, row.use)),
    "power at the measured throughput": (lambda row: row.watts, lambda row: _power(row, row.measured_use)),
    "inter-token latency": (lambda row: row.itl_s, lambda row: (row.answer.time_s, row.answer.floor_s, *row.answer.interval_s)),
    "throughput": (lambda row: row.tokens_per_s, _rates),
    "running sequences": (lambda row: row.batch, lambda row: (float(row.answer.batch) * row.replicas, 0.0, row.batch, row.batch)),
}  # fmt: skip


def points(name: str, group: str, found: list[PowerRow]) -> Points:
    """Measurements and predictions of one of QUANTITIES."""
    measured, predicted = QUANTITIES[name]
    return Points.of(group, [(measured(row), *predicted(row)) for row in found], higher=name == "throughput")


def tables() -> list[Table]:
    """One table per quantity, by chip and kind of model, then dense, MoE and all; and joules at TDP and at a constant share of it."""
    made, ordered = [], sorted(rows(), key=lambda row: row.group)
    for name, (measured, predicted) in QUANTITIES.items():
        scored = [([r.group] if r.at_fault else [r.group, r.kind], (measured(r), *predicted(r))) for r in ordered]
        made.append(score(f"energy: {name}", scored, notes("energy"), subtotals=("dense", "MoE"), higher=name == "throughput"))  # fmt: skip
    for name in ("joules per image", "seconds for a batch", "power"):
        runs = [([row.group], image_values(name, row)) for row in image_rows()]
        made.append(score(f"energy: images and video, {name}", runs, notes("diffusion")))
    base = points("power at the measured throughput", "", list(rows()))
    tdp = np.array([row.tdp for row in rows()])
    forms: dict[str, Array] = {"at TDP": tdp, "0.685 of TDP": 0.685 * tdp}
    others = [replace(base, group=name, expected=w, low=w / 1.27, high=w * 1.27) for name, w in forms.items()]
    return [*made, error_table("energy: power without the form", others, notes("energy"), {})]
