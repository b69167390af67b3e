"""A measured row as a question to the engine: seconds under constants multiplied by factors, one call for many vectors of factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rooflinecli.calibrate.constant_groups import BLOCKS, merged
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import SHIPPED
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import roofline, serving
from rooflinecli.price.chip import Chip
from rooflinecli.specs.layout import Layout

Array = Any  # numpy.ndarray of float64
STEP = 0.01  # of a logarithm, for central differences: far above rounding, far below a prior's width

# what was measured -> the phase whose constants it tells of
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
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        return PHASE[self.quantity]

    @property
    def key(self) -> Any:
        """What the row asks; None where nobody said."""
        return (
            (self.quantity, self.layout, *sorted((k, str(v)) for k, v in self.options.items()))
            if self.options
            else None
        )

    def on(self, chip: Chip) -> Number:
        """Expected seconds on a chip whose constants may be arrays."""
        return seconds(self.ctx.on_chip(chip), self.layout, self.quantity)


def seconds(ctx: EstimateContext, layout: Layout, quantity: str) -> Number:
    """What a measurement should have shown, in seconds."""
    if quantity == "throughput":
        return 1.0 / SHIPPED["decode"](ctx, layout).tokens_per_s
    if quantity == "static":
        return static(ctx, layout)
    phase = {"itl": "decode", "ttft": "prefill"}.get(quantity, quantity)
    return SHIPPED[phase](ctx, layout).time_s


def static(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds per output token of a batch prefilled and decoded together."""
    busy = load(ctx, layout)
    whole = forward_step(ctx, layout, busy.batch, ctx.prompt, ctx.prompt, decode=False)
    lasts = serving.answer_time(whole.seconds, SHIPPED["decode"](ctx, layout).time_s, ctx.output)
    return lasts / (busy.batch * ctx.output)


def static_floor(ctx: EstimateContext, layout: Layout) -> float:
    """As `static`, at peak rates."""
    busy = load(ctx, layout)
    whole = forward_step(ctx, layout, busy.batch, ctx.prompt, ctx.prompt, decode=False)
    first = roofline.floor_time(whole.costs.t_compute, whole.costs.t_memory)
    lasts = serving.answer_time(first, SHIPPED["decode"](ctx, layout).floor_s, ctx.output)
    return float(lasts / (busy.batch * ctx.output))


class RowPredictor:
    """Prices questions of one phase at many vectors of block logarithms; chips of one file and iteration are shared."""

    def __init__(self, questions: Sequence[PredictedRow]):
        self.questions = list(questions)
        self.phase = self.questions[0].phase
        self.blocks = BLOCKS[self.phase]

    def log_seconds(self, x: Array, shift: Array | None = None) -> Array:
        """Logarithms of expected seconds [questions, vectors] at x [blocks, vectors], all blocks of a question moved further by its `shift`
        [questions, vectors] where one is given."""
        chips: dict[Any, Chip] = {}
        factors, rows = merged(self.phase, x), []
        for i, q in enumerate(self.questions):
            if shift is not None:  # a chip of its own
                chips, factors = {}, merged(self.phase, x + shift[i])
            rows.append(np.broadcast_to(q.on(_shared(chips, q, factors)), x.shape[1:]))
        return np.log(np.array(rows, dtype=np.float64))

    def linear(self, x: Array) -> tuple[Array, Array]:
        """Logarithms of seconds [questions, draws] at x [blocks, draws], and their derivatives [questions, draws, blocks]."""
        width, draws = x.shape
        moved = np.concatenate([np.zeros((width, 1)), STEP * np.eye(width), -STEP * np.eye(width)], axis=1)
        found = self.log_seconds((x[:, :, None] + moved[:, None, :]).reshape(width, -1))
        found = found.reshape(len(self.questions), draws, -1)
        return found[..., 0], (found[..., 1 : width + 1] - found[..., width + 1 :]) / (2 * STEP)


def _shared(chips: dict[Any, Chip], q: PredictedRow, factors: Mapping[str, Number]) -> Chip:
    """The chip of a question under factors, one for all questions on the same figures."""
    chip = q.ctx.chip
    key = (id(chip.spec), tuple(sorted(chip.override.items())), chip.ideal)
    if key not in chips:
        chips[key] = chip.with_factors(_told(chip, factors))
    return chips[key]


def _told(chip: Chip, factors: Mapping[str, Number]) -> dict[str, Number]:
    """Those factors whose class the chip or the defaults of its kind know."""
    from rooflinecli.price import overrides

    classes = overrides.classes(chip.spec)
    return {
        path: f for path, f in factors.items() if path.startswith(overrides.ENGINE) or path.split(".")[1] in classes
    }
