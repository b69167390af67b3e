"""Entry point of the engine: a context, a layout and a phase in, a typed answer out."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.engine.apply_calibration import calibrated
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.derived import derive
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.specs.layout import Layout


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
    derive(ctx, layout, phase, result)
    return result


def priced(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """The answer without derived quantities, computed once: choosing a layout has priced it already."""
    return ctx.memoized(layout, phase, lambda: PHASES[phase](ctx, layout))
