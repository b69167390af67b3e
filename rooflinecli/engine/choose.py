"""Choosing a plan: the sizes a user left open, on the devices given or on the fewest that hold the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.text import plural
from rooflinecli.core.units import si
from rooflinecli.engine import explicit_layout, infeasibility, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import priced
from rooflinecli.engine.layout_candidates import candidates, reach, untried_dimensions
from rooflinecli.engine.phase_answer import LayoutAnswer, plan_answer, time_at_bound
from rooflinecli.engine.residency import resident_memory
from rooflinecli.engine.rules import LegalityRule
from rooflinecli.specs.layout import Layout


@dataclass(frozen=True, eq=False, repr=False)
class ChosenLayout:
    """A plan, whether the device count was chosen, and one sentence on why it is this one."""

    layout: Layout
    chosen: bool
    reason: str
    fits: bool

    @cached_property
    def shown(self) -> LayoutAnswer:
        """As the contract shows it."""
        return plan_answer(self.layout, self.chosen, self.reason)


@dataclass(frozen=True, eq=False, repr=False)
class Candidate:
    """A candidate, and whether it holds every phase; `follows` says whether its load can be followed at all."""

    layout: Layout
    fits: bool
    follows: bool = True

    def needs(self, ctx: EstimateContext, phases: tuple[str, ...]) -> float:
        """Bytes per device in the phase that holds most."""
        if not self.follows:
            return float("inf")
        return max(float(resident_memory(ctx, self.layout, phase).total_bytes) for phase in phases)


def choose(ctx: EstimateContext, phases: tuple[str, ...], fastest: bool = True) -> ChosenLayout:
    """The best of the candidates that hold every one of `phases` (training alone, or those of serving).

    On the devices given, or on the fewest that hold it; where `fastest` is not asked for, the plainest. Raises UsageError when the sizes given cannot be laid out at all,
    Infeasible when no count holds them.
    """
    given, refused, overrun = ctx.request.devices, list[LegalityRule](), list[Infeasible]()
    if given is not None:
        return _on(ctx, phases, int(given), refused, overrun)
    smaller: list[Candidate] = []
    any_legal = False
    for devices in _counts(ctx):
        tried = weigh(ctx, phases, devices, refused, overrun)
        best = _best(ctx, phases if fastest else (), tried)
        if best is not None:
            return ChosenLayout(
                best.layout, True, _why_so_many(ctx, best.layout, best.needs(ctx, phases), smaller), True
            )
        smaller, any_legal = tried, any_legal or bool(tried)
    if not any_legal:
        legality.check(ctx)
        if refused:
            raise legality.most_violated_rule(refused).refusal
    raise (
        overrun[-1]
        if overrun
        else Infeasible(
            infeasibility.does_not_fit_error(ctx, min((one.needs(ctx, phases) for one in smaller), default=None))
        )
    )


def _on(
    ctx: EstimateContext, phases: tuple[str, ...], devices: int, refused: list[LegalityRule], overrun: list[Infeasible]
) -> ChosenLayout:
    """The best on the devices given, or the one that comes nearest to fitting."""
    tried = weigh(ctx, phases, devices, refused, overrun)
    if not tried:
        raise infeasibility.no_layout_error(ctx, devices, refused)
    best = _best(ctx, phases, tried)
    if best is not None:
        return ChosenLayout(best.layout, False, _why(ctx, phases, tried), True)
    if not any(one.follows for one in tried):
        raise overrun[0]
    least = min(tried, key=lambda one: one.needs(ctx, phases))
    if len(tried) == 1:
        return ChosenLayout(least.layout, False, f"it does not fit on {devices}", False)
    none = f"none of the {len(tried)} layouts tried fits on {devices}; shown is the one that needs least memory"
    return ChosenLayout(least.layout, False, none, False)


def _best(ctx: EstimateContext, phases: tuple[str, ...], tried: list[Candidate]) -> Candidate | None:
    fitting = _worth_pricing([one for one in tried if one.fits])
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda one: _rank(ctx, phases, one.layout))


def _worth_pricing(fitting: list[Candidate]) -> list[Candidate]:
    """Without layouts that compute everything again where the same one fits that keeps everything: it is never slower."""
    keep = {_sizes(one.layout) for one in fitting if one.layout.recompute == "none"}
    return [one for one in fitting if one.layout.recompute != "full" or _sizes(one.layout) not in keep]


def _sizes(layout: Layout) -> tuple[Number, ...]:
    """What candidates differ in, recomputation aside."""
    return layout.tp, layout.pp, layout.dp, layout.ep, layout.micro_batch, layout.zero


def weigh(
    ctx: EstimateContext, phases: tuple[str, ...], devices: int, refused: list[LegalityRule], overrun: list[Infeasible]
) -> list[Candidate]:
    """Every candidate on so many devices; rules broken and loads that cannot be followed are collected."""
    found = []
    for layout in candidates(ctx, phases[-1], devices, refused):
        try:
            found.append(Candidate(layout, all(resident_memory(ctx, layout, phase).fits for phase in reversed(phases))))
        except Infeasible as error:
            overrun.append(error)
            found.append(Candidate(layout, False, False))
    return found


def _rank(ctx: EstimateContext, phases: tuple[str, ...], layout: Layout) -> tuple[Number, ...]:
    """Training takes the fastest step by the end of its interval that is held, as a search does. Serving takes stages only
    where memory asks for them: replicas serve more users.

    Without phases the plainest layout is as good as any.
    """
    hold = ctx.request.hold
    if not phases:
        return layout.pp, layout.tp
    if phases == ("train",):
        return time_at_bound(priced(ctx, layout, "train"), hold), layout.pp, layout.tp
    return layout.pp, time_at_bound(priced(ctx, layout, "decode"), hold), layout.tp


def _counts(ctx: EstimateContext) -> Iterator[int]:
    """Device counts to try: what the sizes given multiply to, doubling as far as the network reaches."""
    r = ctx.request
    count, _ = explicit_layout.product_of_explicit_sizes(r)
    yield count
    while None in (r.tp, r.pp, r.dp) and count * 2 <= reach(ctx):
        count *= 2
        yield count


def _why(ctx: EstimateContext, phases: tuple[str, ...], tried: list[Candidate]) -> str:
    """Why this plan on the devices given: what was looked at."""
    r = ctx.request
    if len(tried) == 1:
        return "the layout given" if None not in (r.tp, r.pp, r.dp) else "the only layout of the sizes left open"
    if sum(one.fits for one in tried) == 1:
        return f"the only one of {len(tried)} layouts tried that fits"
    by = {"pessimistic": ", by the upper end of the interval,", "floor": ", by the floor,"}.get(r.hold, "")
    if phases != ("train",):
        return (
            f"the fastest with the fewest stages{by} of {len(tried)} layouts tried; `roofline search` tries every one"
        )
    return f"the fastest{by} of {len(tried)} layouts tried; not tried: {untried_dimensions(ctx)}; `roofline search` tries every one"


def _why_so_many(ctx: EstimateContext, best: Layout, needs: float, smaller: list[Candidate]) -> str:
    """Why this count: how full it is, and what half of it would have been."""
    per = f"{si(needs, 'B')} of {si(float(ctx.chip.capacity), 'B')}"
    product, asked = explicit_layout.product_of_explicit_sizes(ctx.request)
    if best.devices < 2:
        return f"one device holds it: {per}"
    if best.devices == product:
        return f"{plural(product, 'device')}, as {asked} say: {per} on each"
    half = "half as many would not fit" if smaller else "half as many have no legal layout"
    return f"smallest power of two that fits: {per} on each; {half}"
