"""Predicted counterpart of a measured row: seconds under factors on the constants, one call for many vectors of factors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rooflinecli.calibrate.constant_groups import BLOCKS, merged
from rooflinecli.calibrate.posterior import Array
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import roofline, serving
from rooflinecli.importers.source import Options
from rooflinecli.price import overrides
from rooflinecli.price.chip import Chip
from rooflinecli.specs.layout import Layout

STEP = 0.01  # of a logarithm, for central differences: far above rounding, far below a prior's width

# measured quantity -> the phase whose constants it informs
PHASE = {
    "train": "train",
    "itl": "decode",
    "static": "decode",
    "throughput": "decode",
    "prefill": "prefill",
    "ttft": "ttft",
}


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
        return (
            (self.quantity, self.layout, *sorted((k, str(v)) for k, v in self.options.items()))
            if self.options
            else None
        )

    def on(self, chip: Chip) -> Number:
        """Expected seconds on a chip whose constants may be arrays."""
        return seconds(self.ctx.on_chip(chip), self.layout, self.quantity)


def seconds(ctx: EstimateContext, layout: Layout, quantity: str) -> Number:
    """Expected seconds of a quantity."""
    if quantity == "throughput":
        return 1.0 / SHIPPED["decode"](ctx, layout).tokens_per_s
    if quantity == "static":
        return static(ctx, layout)
    phase = {"itl": "decode", "ttft": "prefill"}.get(quantity, quantity)
    return SHIPPED[phase](ctx, layout).time_s


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
