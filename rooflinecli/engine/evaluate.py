"""The one way into the engine: a scene, a plan and a phase in, a typed answer out."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.engine.apply_calibration import calibrated
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.derived_quantities import derive
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.specs.layout import Layout


def train(ctx: EstimateContext, layout: Layout) -> TrainAnswer:
    """A training step (engine/training), whose modules serving does not load."""
    from rooflinecli.engine.training import train as answered

    return answered(ctx, layout)


SHIPPED: dict[str, Callable[[EstimateContext, Layout], PhaseAnswer]] = {
    "prefill": prefill,
    "decode": decode,
    "train": train,
}
PHASES = {phase: calibrated(phase, answered) for phase, answered in SHIPPED.items()}
ANSWERS: dict[str, type[PhaseAnswer]] = {"prefill": PrefillAnswer, "decode": DecodeAnswer, "train": TrainAnswer}


def answer(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """What a phase costs under a plan whose sizes are of the scene's kind of number (`scene.plan`).

    Raises UsageError for a network that cannot join the plan's groups, Infeasible for a rate no replica can follow.
    """
    found = priced(ctx, layout, phase)
    found.derived = derive(ctx, layout, phase, found)
    return found


def priced(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """The same without quantities derived from it, computed once: a plan that was compared with others is answered already."""
    return ctx.memoized(layout, phase, lambda: PHASES[phase](ctx, layout))
