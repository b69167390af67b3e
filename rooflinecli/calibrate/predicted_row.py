"""Predicted counterpart of a measured row: seconds under factors on the constants, one call for many vectors of factors.

A micro-benchmark is such a row too: a collective or a matmul under the constants of a phase.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from rooflinecli.calibrate.posterior import BLOCKS, Array, merged
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import counts, roofline, serving
from rooflinecli.importers.source import MeasuredRow, Options
from rooflinecli.ledger.ops import Collective, Op, matmul
from rooflinecli.price import overrides
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.options import OPTIONS

STEP = 0.01  # of a logarithm, for central differences: far above rounding, far below a prior's width

# measured quantity -> the phase whose constants it informs
PHASE = {
    "train": "train", "itl": "decode", "static": "decode", "throughput": "decode", "prefill": "prefill", "ttft": "ttft",
}  # fmt: skip


@dataclass(eq=False)
class PredictedRow:
    """One measurement: `quantity` is a key of PHASE, `measured` in seconds (per step, or per token of a rate)."""

    ctx: EstimateContext
    layout: Layout
    quantity: str
    measured: float
    where: str = ""
    tool: str = ""
    options: Options = field(default_factory=dict)

    @property
    def phase(self) -> str:
        return PHASE[self.quantity]

    @property
    def key(self) -> Hashable:
        """Identity of the question, by which repeats are found; None without options."""
        if self.options:
            return (self.quantity, self.layout, *sorted((k, str(v)) for k, v in self.options.items()))
        return None

    @property
    def floor(self) -> float:
        """Seconds at peak rates; 0 for a throughput, whose batch was not measured."""
        return float(seconds(self.ctx, self.layout, self.quantity, at_floor=True))

    @property
    def tflops(self) -> float:
        """The model's TFLOP/s on each device that the measured time of a training step implies."""
        answer, peak = SHIPPED["train"](self.ctx, self.layout), self.ctx.chip.peak(self.ctx.formats.compute)
        return float(answer.mfu * answer.time_s / self.measured * peak) / 1e12

    def on(self, chip: Chip) -> Number:
        """Expected seconds on a chip whose constants may be arrays."""
        return seconds(self.ctx.on_chip(chip), self.layout, self.quantity)


def seconds(ctx: EstimateContext, layout: Layout, quantity: str, at_floor: bool = False) -> Number:
    """Expected seconds of a quantity, or those at peak rates."""
    if quantity == "throughput":
        return 0.0 if at_floor else 1.0 / SHIPPED["decode"](ctx, layout).tokens_per_s
    if quantity == "static":
        return static(ctx, layout, at_floor)
    answer = SHIPPED[{"itl": "decode", "ttft": "prefill"}.get(quantity, quantity)](ctx, layout)
    return answer.floor_s if at_floor else answer.time_s


def static(ctx: EstimateContext, layout: Layout, at_floor: bool = False) -> Number:
    """Seconds per output token of a batch prefilled and decoded together; `at_floor`: at peak rates."""
    busy, step = load(ctx, layout), SHIPPED["decode"](ctx, layout)
    whole = forward_step(ctx, layout, busy.batch, ctx.prompt, ctx.prompt, decode=False)
    if at_floor:
        first, per_token = roofline.floor_time(whole.costs.t_compute, whole.costs.t_memory), step.floor_s
    else:
        first, per_token = whole.seconds, step.time_s
    return serving.e2e_latency(first, per_token, ctx.output) / (busy.batch * ctx.output)


class RowPredictor:
    """Prices rows of one phase at many vectors of factor logarithms; rows on the same chip share it."""

    def __init__(self, rows: Sequence[PredictedRow]):
        self.rows = list(rows)
        self.phase = self.rows[0].phase
        self.blocks = BLOCKS[self.phase]

    def log_seconds(self, x: Array, shift: Array | None = None) -> Array:
        """Logarithms of expected seconds [rows, vectors] at x [groups, vectors], all groups of a row moved further by its `shift`
        [rows, vectors] where one is given; infinite where a row's request rate cannot be sustained."""
        chips: dict[Hashable, Chip] = {}
        factors, seconds = merged(self.phase, x), []
        for i, row in enumerate(self.rows):
            if shift is not None:  # a separate chip per row
                chips, factors = {}, merged(self.phase, x + shift[i])
            key = (id(row.ctx.chip.spec), tuple(sorted(row.ctx.chip.override.items())), row.ctx.chip.ideal)
            if key not in chips:
                classes = overrides.classes(row.ctx.chip.spec)
                known = {
                    p: f for p, f in factors.items() if p.startswith(overrides.ENGINE) or p.split(".")[1] in classes
                }
                chips[key] = row.ctx.chip.with_factors(known)
            seconds.append(np.broadcast_to(row.on(chips[key]), x.shape[1:]))
        with np.errstate(invalid="ignore"):  # a request rate that cannot be sustained under the factors is NaN
            return np.nan_to_num(np.log(np.array(seconds, dtype=np.float64)), nan=np.inf, posinf=np.inf)

    def linear(self, x: Array) -> tuple[Array, Array]:
        """Logarithms of seconds [rows, draws] at x [groups, draws], and their derivatives [rows, draws, groups]."""
        width, draws = x.shape
        moved = np.concatenate([np.zeros((width, 1)), STEP * np.eye(width), -STEP * np.eye(width)], axis=1)
        found = self.log_seconds((x[:, :, None] + moved[:, None, :]).reshape(width, -1))
        found = found.reshape(len(self.rows), draws, -1)
        here, slower, faster = found[..., :1], found[..., 1 : width + 1], found[..., width + 1 :]
        with np.errstate(invalid="ignore"):
            one_sided = np.nan_to_num((here - faster) / STEP, nan=0.0, posinf=0.0)
            return here[..., 0], np.where(np.isfinite(slower), (slower - faster) / (2 * STEP), one_sided)


SMALLEST_MESSAGE = 2.0**20  # bytes: below it a collective measures launches, which a step hides
SMALLEST_SIDE = 512  # elements: matmuls with a smaller side do not measure the rate


@dataclass(eq=False)
class MicrobenchmarkRow(PredictedRow):
    """A micro-benchmark: `op` is a Collective with its devices, or an Op; `of` is the phase whose constants it measures."""

    op: Collective | Op | None = None
    devices: float = 1.0
    of: str = "train"

    @property
    def phase(self) -> str:
        return self.of

    def on(self, chip: Chip) -> Number:
        """Expected seconds under the constants of the phase's regime."""
        return self._priced(chip).expected

    @property
    def floor(self) -> float:
        """Seconds at peak rates."""
        priced = self._priced(self.ctx.chip)
        if isinstance(self.op, Collective):
            return float(priced.floor)
        return float(max(priced.t_compute, priced.t_memory))

    def _priced(self, chip: Chip) -> Any:
        regime = "training" if self.of == "train" else "serving"
        if isinstance(self.op, Collective):
            return price_collective(self.op, chip, regime, self.devices)
        assert self.op is not None
        return price(self.op, chip, regime)


def microbenchmark_rows(row: MeasuredRow, given: Options, chip: HardwareSpec) -> list[PredictedRow]:
    """A row for each phase; none where the benchmark is too small to inform its constants. Raises UsageError for missing options."""
    made = _collective(row, given) if row.quantity == "collective" else _matmul(row, given, chip)
    if made is None:
        return []
    op, devices = made
    ctx: Any = SimpleNamespace(chip=Chip(chip, PLAIN))  # the part of a context that a micro-benchmark needs
    return [
        MicrobenchmarkRow(ctx, Layout(), row.quantity, row.value, row.where, row.tool, row.probe, op, devices, phase)
        for phase in ("train", "decode", "prefill", "ttft")
    ]


def _collective(row: MeasuredRow, given: Options) -> tuple[Collective, float] | None:
    stated = row.probe
    if stated["bytes"] < SMALLEST_MESSAGE and not stated.get("each"):
        return None
    if stated.get("op") is None:
        raise UsageError(
            f"{row.where}: {row.tool} does not state which collective; keep the line that names the program (…_perf)"
        )
    n = stated.get("n") or (build_request.value(OPTIONS["n"], given["n"]) if given.get("n") is not None else None)
    if n is None:
        raise UsageError(f"{row.where}: {row.tool} does not state how many devices took part; give -n", "n")
    size = float(stated["bytes"]) * (float(n) if stated.get("each") else 1.0)
    if size < SMALLEST_MESSAGE:
        return None
    stride = (
        float(build_request.value(OPTIONS["tp"], given["tp"])) if stated["op"] == "permute" and given.get("tp") else 1.0
    )
    return Collective("microbenchmark", stated["op"], size, "microbenchmark", float(n), stride), float(n) * stride


def _matmul(row: MeasuredRow, given: Options, chip: HardwareSpec) -> tuple[Op, float] | None:
    m, n, k = (float(row.probe[name]) for name in ("m", "n", "k"))
    if min(m, n, k) < SMALLEST_SIDE:
        return None
    dtype = row.probe.get("dtype") or given.get("dtype")
    if dtype is None:
        raise UsageError(f"{row.where}: {row.tool} does not state the number format; give --dtype", "dtype")
    f = formats(str(dtype), None, None, chip.peak, chip.name)
    moved = counts.matmul_bytes(m, k, n, f.matmul_input, f.weight, f.activation)
    flops = counts.matmul_flops(m, k, n)
    return matmul("matmul", f.compute, flops, moved, m, k, n, 1 / k), 1.0
