"""Entry point of the engine: a context, a layout and a phase in, a typed answer out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from rooflinecli.core.num import Number
from rooflinecli.engine.apply_calibration import calibrated
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import DERIVED


def train(ctx: EstimateContext, layout: Layout) -> TrainAnswer:
    """A training step (engine/training), whose modules serving does not load."""
    from rooflinecli.engine import training

    return training.train(ctx, layout)


SHIPPED: dict[str, Callable[[EstimateContext, Layout], PhaseAnswer]] = {
    "prefill": prefill,
    "decode": decode,
    "train": train,
}
PHASES = {phase: calibrated(phase, shipped) for phase, shipped in SHIPPED.items()}
ANSWERS: dict[str, type[PhaseAnswer]] = {"prefill": PrefillAnswer, "decode": DecodeAnswer, "train": TrainAnswer}


def answer(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """Answer of a phase under a layout whose sizes are lifted as the context's numbers are (`ctx.lifted`).

    Raises UsageError for a network that cannot join the layout's groups, Infeasible for a request rate no replica can sustain.
    """
    result = priced(ctx, layout, phase)
    result.derived = derive(ctx, layout, phase, result)
    return result


def priced(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """The answer without derived quantities, computed once: choosing a layout has priced it already."""
    return ctx.memoized(layout, phase, lambda: PHASES[phase](ctx, layout))


def derive(ctx: EstimateContext, layout: Layout, phase: str, answer: PhaseAnswer) -> dict[str, Number]:
    """Name -> value of every derived quantity of a phase (specs/quantities); left out where the chip's file lacks an argument."""
    derived: dict[str, Number] = {}
    for name, formula, names in _formulas(phase):
        arguments = [_argument(argument, ctx, layout, answer) for argument in names]
        if not any(value is None for value in arguments):
            derived[name] = formula(*arguments)
    return derived


@cache
def _formulas(phase: str) -> tuple[tuple[str, Callable[..., Number], tuple[str, ...]], ...]:
    return tuple(
        (row.name, row.formula, row.of) for row in DERIVED if row.phase in ("", phase) and row.formula is not None
    )


def _argument(name: str, ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number | None:
    if name == "devices":
        return layout.devices
    if name == "image_tokens":  # of an image that is made, not read
        return ctx.request_tokens if ctx.spec.denoising is not None else None
    return ctx.chip.power if name == "power" else getattr(answer, name, None)
