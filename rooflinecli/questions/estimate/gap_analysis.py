"""Explanations of a measured training step: single assumptions, each tried alone, ranked by the size of the change.

Some are settings (no overlap, full recomputation): the estimate is made again with them, and a part of the gap may stay.
Others are amounts (slower links, a power cap, padding): the amount that closes the gap is found, if one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.solve import decreasing_root
from rooflinecli.core.units import duration, si
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import roofline
from rooflinecli.questions.estimate.answer_types import EstimateAnswer, Explanation
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import Request

AXES = ("tp", "ep", "cp", "pp", "dp", "fsdp")  # classes of exposed collectives
LEAST = 0.02  # of a rate: below it a link or a chip is broken, not slow
CLOSED = 0.05  # a gap this small is closed: no single assumption is better known


@dataclass(frozen=True)
class MeasuredStep:
    """The step of an estimate, and the one that was measured."""

    request: Request
    layout: Layout
    expected: PhaseAnswer
    measured: float

    @property
    def slower(self) -> bool:
        return self.measured > float(self.expected.time_s)

    def seconds(self, override: dict[str, Number] | None = None, plan: Layout | None = None) -> float:
        """The step with some figures or the layout replaced."""
        return float(PHASES["train"](EstimateContext(self.request, override=override), plan or self.layout).time_s)


def explain(request: Request, result: EstimateAnswer, plan: Layout, measured: float) -> list[Explanation]:
    """Assumptions that move the step of `plan` toward `measured` seconds, the likeliest first.

    Those that close the gap come before those that leave some of it, and the milder change before the larger.
    """
    step = MeasuredStep(request, plan, result.phases["train"], measured)
    found = [e for e in (*_settings(step), *_amounts(step)) if _helps(step, e)]
    return sorted(found, key=lambda e: (round(abs(e.gap) / CLOSED) if abs(e.gap) > CLOSED else 0, e.change))


def _helps(step: MeasuredStep, e: Explanation) -> bool:
    """Whether it moves the right way, and not much too far."""
    before = float(step.expected.time_s) / step.measured - 1
    return abs(e.gap) < abs(before) - 1e-3


def _explanation(step: MeasuredStep, assumption: str, seconds: float, change: float) -> Explanation:
    mfu = float(step.expected.mfu) * float(step.expected.time_s) / seconds
    return Explanation(assumption=assumption, time_s=seconds, mfu=mfu, gap=seconds / step.measured - 1, change=change)


def _settings(step: MeasuredStep) -> Iterator[Explanation]:
    """Assumptions without an amount."""
    none = {f"efficiency.{axis}_collective.overlap": 0.0 for axis in AXES}
    most = {f"efficiency.{axis}_collective.overlap": 1.0 for axis in AXES}
    words = ("no communication hidden behind computation", none) if step.slower else ("all communication hidden", most)
    yield _explanation(step, words[0], step.seconds(words[1]), 0.5)
    plan = step.layout
    other = "full" if step.slower else "none"
    if plan.recompute != other or plan.recompute_layers is not None:
        again = replace(plan, recompute=other, recompute_layers=None)
        yield _explanation(step, f"recomputation: {other}", step.seconds(plan=again), 0.3)
    for size in (1.0,) if step.slower else (2 * plan.micro_batch, 4 * plan.micro_batch):
        if size != plan.micro_batch:
            yield _explanation(
                step, f"microbatches of {size:g}", step.seconds(plan=replace(plan, micro_batch=size)), 0.4
            )


def _amounts(step: MeasuredStep) -> Iterator[Explanation]:
    """Assumptions whose amount follows from the gap; only losses, since a gain beyond the datasheet is no explanation."""
    if not step.slower:
        return
    yield from _links(step)
    yield from _power(step)
    lost = step.measured - float(step.expected.time_s)
    share = lost / step.measured
    yield _explanation(step, f"padding: {share:.0%} of the tokens of a batch carry no data", step.measured, share)
    yield _explanation(
        step, f"stragglers: every step waits {duration(lost)} for the slowest device", step.measured, share
    )
    yield _explanation(step, f"input stalls: {duration(lost)} of every step wait for data", step.measured, share)


def _solved(step: MeasuredStep, override: Callable[[float], dict[str, Number]]) -> float | None:
    """The share of a rate at which the step takes as long as it did; None where none does."""
    if step.seconds(override(LEAST)) < step.measured:
        return None
    return decreasing_root(lambda share: step.seconds(override(share)) - step.measured, LEAST, 1.0)


def _links(step: MeasuredStep) -> Iterator[Explanation]:
    levels = step.request.hardware.network
    for index, level in enumerate(levels):
        rate = level.bandwidth.si
        share = _solved(step, lambda x, i=index, r=rate: {f"network.{i}.bandwidth": r * x})  # type: ignore[misc]
        if share is not None:
            words = f"{level.name}: {si(rate * share, 'B/s')} per device instead of {si(rate, 'B/s')}"
            yield _explanation(step, words, step.measured, 1 - share)


def _power(step: MeasuredStep) -> Iterator[Explanation]:
    """Compute at a lower clock, as under a power cap."""
    hardware = step.request.hardware
    share = _solved(step, lambda x: {f"peak.{dtype}": rate.si * x for dtype, rate in hardware.peak.items()})
    if share is None:
        return
    watts = hardware.power.si if hardware.power is not None else None
    capped = f" (a power cap of {num.value(roofline.power_at_rate(share, watts)):.0f} W)" if watts is not None else ""
    yield _explanation(step, f"clocks at {share:.0%} of their rate{capped}", step.measured, 1 - share)
