"""Choosing a plan: the sizes a user left open, on the devices given or on the fewest that hold the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rooflinecli.engine import legal
from rooflinecli.engine.answer import PHASES
from rooflinecli.engine.candidates import candidates
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.engine.residency import resident
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import Infeasible, UsageError
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan
from rooflinecli.units import si

LARGEST = 65536


@dataclass(frozen=True)
class Choice:
    """A plan, whether the device count was chosen, and one sentence on why it is this one."""

    plan: Plan
    chosen: bool
    reason: str
    fits: bool


@dataclass(frozen=True)
class Weighed:
    """A candidate with what it holds in the phase that holds most; `held` is None where its load cannot be followed at all."""

    plan: Plan
    held: Residency | None

    @property
    def fits(self) -> bool:
        return self.held is not None and bool(self.held.fits)

    @property
    def needs(self) -> float:
        return float(self.held.total_bytes) if self.held is not None else float("inf")


def choose(scene: Scene, phases: tuple[str, ...], fastest: bool = True) -> Choice:
    """The best of the candidates that hold every one of `phases` (training alone, or those of serving).

    On the devices given, or on the fewest that hold it; where `fastest` is not asked for, the plainest. Raises UsageError when the sizes given cannot be laid out at all,
    Infeasible when no count holds them.
    """
    given, refused, overrun = scene.request.devices, list[legal.Rule](), list[Infeasible]()
    if given is not None:
        return _on(scene, phases, int(given), refused, overrun)
    smaller: list[Weighed] = []
    any_legal = False
    for devices in _counts(scene):
        tried = weigh(scene, phases, devices, refused, overrun)
        best = _best(scene, phases if fastest else (), tried)
        if best is not None:
            return Choice(best.plan, True, _why_so_many(scene, best, smaller), True)
        smaller, any_legal = tried, any_legal or bool(tried)
    if not any_legal and refused:
        raise legal.most_in_the_way(refused).refusal
    raise overrun[-1] if overrun else Infeasible(_held_nowhere(scene))


def _on(
    scene: Scene, phases: tuple[str, ...], devices: int, refused: list[legal.Rule], overrun: list[Infeasible]
) -> Choice:
    """The best on the devices given, or the one that comes nearest to fitting."""
    tried = weigh(scene, phases, devices, refused, overrun)
    if not tried:
        raise _no_layout(scene, devices, refused)
    best = _best(scene, phases, tried)
    if best is not None:
        return Choice(best.plan, False, _why(scene, phases, tried), True)
    if all(one.held is None for one in tried):
        raise overrun[0]
    least = min(tried, key=lambda one: one.needs)
    if len(tried) == 1:
        return Choice(least.plan, False, f"it does not fit on {devices}", False)
    none = f"none of the {len(tried)} layouts tried fits on {devices}; shown is the one that needs least memory"
    return Choice(least.plan, False, none, False)


def _best(scene: Scene, phases: tuple[str, ...], tried: list[Weighed]) -> Weighed | None:
    fitting = [one for one in tried if one.fits]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda one: _rank(scene, phases, one.plan))


def weigh(
    scene: Scene, phases: tuple[str, ...], devices: int, refused: list[legal.Rule], overrun: list[Infeasible]
) -> list[Weighed]:
    """Every candidate on so many devices with what it holds; rules broken and loads that cannot be followed are collected."""
    found = []
    for plan in candidates(scene, phases[-1], devices, refused):
        try:
            held = max((resident(scene, plan, phase) for phase in phases), key=lambda r: float(r.total_bytes))
            found.append(Weighed(plan, held))
        except Infeasible as error:
            overrun.append(error)
            found.append(Weighed(plan, None))
    return found


def _rank(scene: Scene, phases: tuple[str, ...], plan: Plan) -> tuple[Number, ...]:
    """Training takes the fastest step. Serving takes stages only where memory asks for them: replicas serve more users.

    Without phases the plainest layout is as good as any.
    """
    if not phases:
        return plan.pp, plan.tp
    if phases == ("train",):
        return PHASES["train"](scene, plan).time_s, plan.pp, plan.tp
    return plan.pp, PHASES["decode"](scene, plan).time_s, plan.tp


def _counts(scene: Scene) -> Iterator[int]:
    """Device counts to try: what the sizes given multiply to, doubling as far as the network reaches."""
    r = scene.request
    count, _ = legal.product_of_given(r)
    yield count
    while None in (r.tp, r.pp, r.dp) and count * 2 <= reach(scene):
        count *= 2
        yield count


def reach(scene: Scene) -> int:
    """Most devices that are tried on a chip."""
    return int(min(scene.chip.levels[-1].size if scene.chip.levels else 1, LARGEST))


def _no_layout(scene: Scene, devices: int, refused: list[legal.Rule]) -> UsageError:
    """Why nothing can be laid out on the devices given."""
    r = scene.request
    product, asked = legal.product_of_given(r)
    first = asked.partition(" ")[0].removeprefix("--") or "n"
    if devices % product:
        return UsageError(
            f"{asked} {_makes(asked, product)}, which does not divide -n {devices}; change one of them", first
        )
    if None not in (r.tp, r.pp, r.dp) and product != devices:
        return UsageError(f"{asked} {_makes(asked, product)}, not -n {devices}; change one of them", first)
    if refused:
        return legal.most_in_the_way(refused).refusal
    return UsageError(
        f"no layout of {scene.spec.name} on -n {devices} with {asked or 'the sizes given'}; change -n or free a size",
        "n",
    )


def _makes(asked: str, product: int) -> str:
    return f"multiply to {product}" if asked.count("--") > 1 else f"takes {product} devices"


def _held_nowhere(scene: Scene) -> str:
    """Why no device count will do."""
    r, chip = scene.request, scene.chip.spec.name
    if not scene.chip.levels:
        return (
            f"{scene.spec.name} does not fit on 1 x {chip}, whose file describes no network, so that a plan has one device; "
            "add `network:` to it, or lower --batch or the lengths"
        )
    most = legal.product_of_given(r)[0] if None not in (r.tp, r.pp, r.dp) else reach(scene)
    return f"{scene.spec.name} does not fit on {most} x {chip} with the sizes given; lower --batch or --seq, or free --tp/--pp"


def _why(scene: Scene, phases: tuple[str, ...], tried: list[Weighed]) -> str:
    """Why this plan on the devices given: what was looked at."""
    r = scene.request
    if len(tried) == 1:
        return "the layout given" if None not in (r.tp, r.pp, r.dp) else "the only layout of the sizes left open"
    if sum(one.fits for one in tried) == 1:
        return f"the only one of {len(tried)} layouts tried that fits"
    how = "fastest" if phases == ("train",) else "fastest with the fewest stages"
    return f"the {how} of {len(tried)} layouts tried; `roofline search` tries every one"


def _why_so_many(scene: Scene, best: Weighed, smaller: list[Weighed]) -> str:
    """Why this count: how full it is, and what half of it would have been."""
    per = f"{si(best.needs, 'B')} of {si(float(scene.chip.capacity), 'B')}"
    product, asked = legal.product_of_given(scene.request)
    if best.plan.devices < 2:
        return f"one device holds it: {per}"
    if best.plan.devices == product:
        return f"{product} devices, as {asked} say: {per} on each"
    half = "half as many would not fit" if smaller else "half as many have no legal layout"
    return f"fewest that hold it (counts double): {per} on each; {half}"
