"""Explanations of an estimate: of one of its numbers, of the layout it chose, and of the gap to a measured step.

`--explain QUANTITY` is the estimate again with traced inputs, and the one number asked for. A measured step, TTFT or ITL is explained by
single assumptions, each tried alone, ranked by the size of the change: some are settings (no overlap, full recomputation), for which
the estimate is made again, and a part of the gap may stay; others are amounts (slower links, a power cap, padding), of which the one
that closes the gap is found, if one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from rooflinecli.core import derivation_text, num
from rooflinecli.core.derivation import Traced, decreasing_root
from rooflinecli.core.errors import ImpossibleValue, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.core.num import Number
from rooflinecli.core.units import duration, si
from rooflinecli.engine.choose import Candidate, ChosenLayout, evaluate_candidates
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import IDLE_DRAW, PHASES, answer, time_at_bound
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, layout_answer
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer, Explanation
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import canonical
from rooflinecli.specs.request import Request


def derivation(request: Request, quantity: str) -> Traced:
    """The traced number behind a quantity of the JSON. Raises UsageError naming what exists."""
    return derivation_text.derivation(estimate(request, TracedInputs()), quantity, canonical(quantity))


def why(request: Request) -> list[dict[str, object]]:
    """Per kind of work (serving, training): the choice, its reason, and every layout tried on that many devices.

    Each layout comes with bytes per device, whether it fits, its expected seconds when it does, and those at the end of the interval that ranks it.
    """
    ctx = context_of(request)
    request = ctx.request
    layouts, _ = choose_layouts(ctx)
    serving = tuple(phase for phase in layouts if phase != "train")
    kinds = [("serving", serving)] * bool(serving) + [("training", ("train",))] * ("train" in layouts)
    return [_considered(ctx, phases, work, layouts[phases[0]]) for work, phases in kinds]


def _considered(ctx: EstimateContext, phases: tuple[str, ...], work: str, choice: ChosenLayout) -> dict[str, object]:
    tried = evaluate_candidates(ctx, phases, int(choice.layout.devices), [])
    if choice.layout not in [one.layout for one in tried]:  # a training layout is refined from them
        tried.append(Candidate(choice.layout, choice.fits))
    layouts = [_layout(ctx, phases, one) for one in tried]
    half, smaller = int(choice.layout.devices) // 2, None
    if choice.chosen and half:  # the layout on half the devices that comes closest to fitting: why there are not fewer
        needed = [one.needs(ctx, phases) for one in evaluate_candidates(ctx, phases, half, [])]
        smaller = {"devices": half, "least_bytes_per_device": min(needed)} if needed else None
    layouts.sort(key=lambda row: (not row["fits"], row["time_at_bound_s"] if row["fits"] else row["bytes_per_device"]))
    return {
        "work": work, "reason": choice.reason, "chosen": _shown(choice.layout), "capacity_bytes": float(ctx.chip.capacity), "considered": layouts,
        "smaller": smaller,
    }  # fmt: skip


def _layout(ctx: EstimateContext, phases: tuple[str, ...], one: Candidate) -> dict[str, object]:
    found = answer(ctx, one.layout, "train" if "train" in phases else "decode") if one.fits else None
    return {
        "layout": _shown(one.layout), "bytes_per_device": one.needs(ctx, phases), "fits": one.fits, "time_s": found.time_s if found else None,
        "time_at_bound_s": time_at_bound(found, ctx.request.bound) if found else None,
        "bottleneck": max(found.breakdown_s, key=found.breakdown_s.__getitem__) if found else None,
    }  # fmt: skip


def _shown(layout: Layout) -> dict[str, object]:
    return layout_answer(layout, False, "").to_dict()


EXPOSED_AXES = ("tp", "ep", "cp", "pp", "dp", "fsdp")  # classes of exposed collectives
LEAST = 0.02  # of a rate: below it a link or a chip is broken, not slow
CLOSED = 0.05  # a gap this small is closed: no single assumption is better known


@dataclass(frozen=True)
class MeasuredStep:
    """The time of a phase of an estimate, and the one that was measured."""

    phase: str
    request: Request
    layout: Layout
    expected: PhaseAnswer
    measured: float

    @property
    def slower(self) -> bool:
        return self.measured > float(self.expected.time_s)

    def seconds(
        self,
        override: dict[str, Number] | None = None,
        layout: Layout | None = None,
        workload: Mapping[str, Any] = MappingProxyType({}),
    ) -> float:
        """The time with some figures, the layout or fields of the request replaced."""
        request = replace(self.request, **workload)
        return float(PHASES[self.phase](EstimateContext(request, override=override), layout or self.layout).time_s)


def explain(phase: str, request: Request, result: EstimateAnswer, layout: Layout, measured: float) -> list[Explanation]:
    """Assumptions that move the time of a phase under `layout` toward `measured` seconds, the likeliest first.

    Those that close the gap come before those that leave some of it, and the milder change before the larger.
    """
    step = MeasuredStep(phase, request, layout, result.phases[phase], measured)
    tried = _training(step) if phase == "train" else _serving(step)
    unexplained = abs(float(step.expected.time_s) / measured - 1)
    found = [e for e in tried if abs(e.gap) < unexplained - 1e-3]  # moves the right way, and not much too far
    return sorted(found, key=lambda e: (round(abs(e.gap) / CLOSED) if abs(e.gap) > CLOSED else 0, e.change))


def _explanation(step: MeasuredStep, assumption: str, seconds: float, change: float) -> Explanation:
    mfu = float(step.expected.mfu) * float(step.expected.time_s) / seconds
    return Explanation(assumption=assumption, time_s=seconds, mfu=mfu, gap=seconds / step.measured - 1, change=change)


def _training(step: MeasuredStep) -> Iterator[Explanation]:
    """Assumptions without an amount, then those whose amount follows from the gap: only losses, since a gain beyond the datasheet explains none."""
    none = {f"efficiency.{axis}_collective.overlap": 0.0 for axis in EXPOSED_AXES}
    most = {f"efficiency.{axis}_collective.overlap": 1.0 for axis in EXPOSED_AXES}
    words = ("no communication hidden behind computation", none) if step.slower else ("all communication hidden", most)
    yield _explanation(step, words[0], step.seconds(words[1]), 0.5)
    layout = step.layout
    other = "full" if step.slower else "none"
    if layout.recompute != other or layout.recompute_layers is not None:
        again = replace(layout, recompute=other, recompute_layers=None)
        yield _explanation(step, f"recomputation: {other}", step.seconds(layout=again), 0.3)
    for size in (1.0,) if step.slower else (2 * layout.micro_batch, 4 * layout.micro_batch):
        if size != layout.micro_batch:
            yield _explanation(
                step, f"microbatches of {size:g}", step.seconds(layout=replace(layout, micro_batch=size)), 0.4
            )
    if not step.slower:
        return
    yield from _rates(step)
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


def _serving(step: MeasuredStep) -> Iterator[Explanation]:
    """Loads, lengths and losses that would make a prefill or a decode step take as long as it did."""
    request, ctx = step.request, EstimateContext(step.request)
    longest = float(ctx.spec.max_context or 64 * ctx.prompt) - float(ctx.output)
    fitting = float(step.expected.max_batch) if isinstance(step.expected, DecodeAnswer) else 0.0
    loaded = request.concurrency is not None or request.qps is not None
    loads = (
        ("prompt", float(ctx.prompt), longest, "prompts of {:,.0f} tokens instead of {:,.0f}", not request.images),
        ("batch", float(ctx.batch), fitting, "{:,.0f} sequences per replica instead of {:,.0f}", not loaded),
    )
    for name, now, most, words, applies in loads:
        low, high = (now, most) if step.slower else (1.0, now)

        def seconds(size: float, name: str = name) -> float:
            return step.seconds(workload={name: size})

        if applies and low < high and seconds(low) < step.measured < seconds(high):
            at = round(decreasing_root(lambda size: step.measured - seconds(size), low, high))
            yield _explanation(step, words.format(at, now), seconds(float(at)), 1 - min(at, now) / max(at, now))
    if step.slower:
        yield from _rates(step)
        lost = step.measured - float(step.expected.time_s)
        wait = "waits in a queue" if step.phase == "prefill" else "waits for the host (scheduling, sampling, Python)"
        each = "request" if step.phase == "prefill" else "step"
        yield _explanation(step, f"every {each} {wait} for {duration(lost)}", step.measured, lost / step.measured)


def _rates(step: MeasuredStep) -> Iterator[Explanation]:
    """Slower memory, links and clocks."""
    rate = step.request.hardware.memory.bandwidth.si
    share = _solved(step, lambda x: {"memory.bandwidth": rate * x})
    if share is not None and step.phase != "train":
        words = f"memory: {si(rate * share, 'B/s')} instead of {si(rate, 'B/s')}"
        yield _explanation(step, words, step.measured, 1 - share)
    for index, level in enumerate(step.request.hardware.network):
        rate = level.bandwidth.si
        share = _solved(step, lambda x, i=index, r=rate: {f"network.{i}.bandwidth": r * x})  # type: ignore[misc]
        if share is not None:
            words = f"{level.name}: {si(rate * share, 'B/s')} per device instead of {si(rate, 'B/s')}"
            yield _explanation(step, words, step.measured, 1 - share)
    # compute at a lower clock, as under a power cap
    hardware = step.request.hardware
    share = _solved(step, lambda x: {f"peak.{dtype}": rate.si * x for dtype, rate in hardware.peak.items()})
    if share is not None:
        watts = hardware.power.si if hardware.power is not None else 0.0
        cap = watts * share**3  # a clock falls with the cube root of the power, as `power_capped_rate` has it
        reached = cap > IDLE_DRAW * watts and abs(step.seconds({"power": cap}) / step.measured - 1) < CLOSED
        capped = f" (a power cap of {num.value(cap):.0f} W)" if reached else ""
        yield _explanation(step, f"clocks at {share:.0%} of their rate{capped}", step.measured, 1 - share)


def note(request: Request, result: EstimateAnswer, mfu: float | None, measured: float | None) -> None:
    """Note a measured MFU or time in seconds next to the estimate, and what would explain it.

    Raises ImpossibleValue when it beats the hardware's peak.
    """
    if mfu is not None:
        if mfu > 1:
            raise ImpossibleValue(
                f"--mfu {mfu:g}: impossible; {mfu:.0%} of peak is more than the hardware can do. "
                f"{f'Write {mfu:g}% for a share in percent. ' if 2 <= mfu <= 100 else ''}"
                "Check that 6N FLOPs per token were counted and the dense, not the sparse, peak"
            )
        if mfu <= 0:
            raise UsageError(f"--mfu {mfu:g}: a utilization lies above 0 and up to 1")
        train = result.phases.get("train")
        if train is None:
            raise UsageError("--mfu describes training; add --phase train")
        train.measured_mfu = mfu
        train.measured_time_s = train.time_s * train.mfu / mfu
    if measured is not None:
        if len(result.phases) != 1:
            raise UsageError("--measured belongs to one phase; add --phase train, prefill or decode")
        ((name, phase),) = result.phases.items()
        if measured < phase.floor_s:
            raise ImpossibleValue(
                f"--measured {duration(measured)}: impossible; {name} cannot take less than its floor of {duration(phase.floor_s)} "
                "on this plan. Check batch, lengths, dtype and device count"
            )
        phase.measured_time_s = measured
    for name, phase in result.phases.items():
        if phase.measured_time_s is not None:
            layouts, _ = choose_layouts(context_of(request))
            result.gap_explanations = explain(name, request, result, layouts[name].layout, float(phase.measured_time_s))
