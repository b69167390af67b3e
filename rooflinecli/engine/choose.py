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
from rooflinecli.engine.context import Scene
from rooflinecli.engine.evaluate import priced
from rooflinecli.engine.layout_candidates import candidates, reach, untried
from rooflinecli.engine.phase_answer import PlanAnswer, plan_answer, time_held
from rooflinecli.engine.residency import resident
from rooflinecli.engine.rules import Rule
from rooflinecli.specs.layout import Plan


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """A plan, whether the device count was chosen, and one sentence on why it is this one."""

    plan: Plan
    chosen: bool
    reason: str
    fits: bool

    @cached_property
    def shown(self) -> PlanAnswer:
        """As the contract shows it."""
        return plan_answer(self.plan, self.chosen, self.reason)


@dataclass(frozen=True, eq=False, repr=False)
class Weighed:
    """A candidate, and whether it holds every phase; `follows` says whether its load can be followed at all."""

    plan: Plan
    fits: bool
    follows: bool = True

    def needs(self, scene: Scene, phases: tuple[str, ...]) -> float:
        """Bytes per device in the phase that holds most."""
        if not self.follows:
            return float("inf")
        return max(float(resident(scene, self.plan, phase).total_bytes) for phase in phases)


def choose(scene: Scene, phases: tuple[str, ...], fastest: bool = True) -> Choice:
    """The best of the candidates that hold every one of `phases` (training alone, or those of serving).

    On the devices given, or on the fewest that hold it; where `fastest` is not asked for, the plainest. Raises UsageError when the sizes given cannot be laid out at all,
    Infeasible when no count holds them.
    """
    given, refused, overrun = scene.request.devices, list[Rule](), list[Infeasible]()
    if given is not None:
        return _on(scene, phases, int(given), refused, overrun)
    smaller: list[Weighed] = []
    any_legal = False
    for devices in _counts(scene):
        tried = weigh(scene, phases, devices, refused, overrun)
        best = _best(scene, phases if fastest else (), tried)
        if best is not None:
            return Choice(best.plan, True, _why_so_many(scene, best.plan, best.needs(scene, phases), smaller), True)
        smaller, any_legal = tried, any_legal or bool(tried)
    if not any_legal:
        legality.check(scene)
        if refused:
            raise legality.most_in_the_way(refused).refusal
    raise (
        overrun[-1]
        if overrun
        else Infeasible(infeasibility.held_nowhere(scene, min((one.needs(scene, phases) for one in smaller), default=None)))
    )


def _on(scene: Scene, phases: tuple[str, ...], devices: int, refused: list[Rule], overrun: list[Infeasible]) -> Choice:
    """The best on the devices given, or the one that comes nearest to fitting."""
    tried = weigh(scene, phases, devices, refused, overrun)
    if not tried:
        raise infeasibility.no_layout(scene, devices, refused)
    best = _best(scene, phases, tried)
    if best is not None:
        return Choice(best.plan, False, _why(scene, phases, tried), True)
    if not any(one.follows for one in tried):
        raise overrun[0]
    least = min(tried, key=lambda one: one.needs(scene, phases))
    if len(tried) == 1:
        return Choice(least.plan, False, f"it does not fit on {devices}", False)
    none = f"none of the {len(tried)} layouts tried fits on {devices}; shown is the one that needs least memory"
    return Choice(least.plan, False, none, False)


def _best(scene: Scene, phases: tuple[str, ...], tried: list[Weighed]) -> Weighed | None:
    fitting = _worth_pricing([one for one in tried if one.fits])
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda one: _rank(scene, phases, one.plan))


def _worth_pricing(fitting: list[Weighed]) -> list[Weighed]:
    """Without layouts that compute everything again where the same one fits that keeps everything: it is never slower."""
    keep = {_sizes(one.plan) for one in fitting if one.plan.recompute == "none"}
    return [one for one in fitting if one.plan.recompute != "full" or _sizes(one.plan) not in keep]


def _sizes(plan: Plan) -> tuple[Number, ...]:
    """What candidates differ in, recomputation aside."""
    return plan.tp, plan.pp, plan.dp, plan.ep, plan.micro_batch, plan.zero


def weigh(
    scene: Scene, phases: tuple[str, ...], devices: int, refused: list[Rule], overrun: list[Infeasible]
) -> list[Weighed]:
    """Every candidate on so many devices; rules broken and loads that cannot be followed are collected."""
    found = []
    for plan in candidates(scene, phases[-1], devices, refused):
        try:
            found.append(Weighed(plan, all(resident(scene, plan, phase).fits for phase in reversed(phases))))
        except Infeasible as error:
            overrun.append(error)
            found.append(Weighed(plan, False, False))
    return found


def _rank(scene: Scene, phases: tuple[str, ...], plan: Plan) -> tuple[Number, ...]:
    """Training takes the fastest step by the end of its interval that is held, as a search does. Serving takes stages only
    where memory asks for them: replicas serve more users.

    Without phases the plainest layout is as good as any.
    """
    hold = scene.request.hold
    if not phases:
        return plan.pp, plan.tp
    if phases == ("train",):
        return time_held(priced(scene, plan, "train"), hold), plan.pp, plan.tp
    return plan.pp, time_held(priced(scene, plan, "decode"), hold), plan.tp


def _counts(scene: Scene) -> Iterator[int]:
    """Device counts to try: what the sizes given multiply to, doubling as far as the network reaches."""
    r = scene.request
    count, _ = explicit_layout.product_of_given(r)
    yield count
    while None in (r.tp, r.pp, r.dp) and count * 2 <= reach(scene):
        count *= 2
        yield count


def _why(scene: Scene, phases: tuple[str, ...], tried: list[Weighed]) -> str:
    """Why this plan on the devices given: what was looked at."""
    r = scene.request
    if len(tried) == 1:
        return "the layout given" if None not in (r.tp, r.pp, r.dp) else "the only layout of the sizes left open"
    if sum(one.fits for one in tried) == 1:
        return f"the only one of {len(tried)} layouts tried that fits"
    by = {"pessimistic": ", by the upper end of the interval,", "floor": ", by the floor,"}.get(r.hold, "")
    if phases != ("train",):
        return (
            f"the fastest with the fewest stages{by} of {len(tried)} layouts tried; `roofline search` tries every one"
        )
    return (
        f"the fastest{by} of {len(tried)} layouts tried; not tried: {untried(scene)}; `roofline search` tries every one"
    )


def _why_so_many(scene: Scene, best: Plan, needs: float, smaller: list[Weighed]) -> str:
    """Why this count: how full it is, and what half of it would have been."""
    per = f"{si(needs, 'B')} of {si(float(scene.chip.capacity), 'B')}"
    product, asked = explicit_layout.product_of_given(scene.request)
    if best.devices < 2:
        return f"one device holds it: {per}"
    if best.devices == product:
        return f"{plural(product, 'device')}, as {asked} say: {per} on each"
    half = "half as many would not fit" if smaller else "half as many have no legal layout"
    return f"fewest that hold it (counts double): {per} on each; {half}"
