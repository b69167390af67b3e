"""What a legal layout is: one list of rules, read by estimate, the chooser, sweep, search and check alike."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.context import Scene
from rooflinecli.engine.explicit_layout import attention_parallel, layout
from rooflinecli.engine.rules import Rule, common, encoders, one
from rooflinecli.engine.rules.serving import serving
from rooflinecli.engine.rules.training import training
from rooflinecli.specs.layout import SIZES, Plan


def rules(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    """Every rule for a layout of `phase` besides memory; sizes are scalars or arrays.

    Nothing is split by the scalar 1, so no rule of it can be broken.
    """
    if not one(plan.tp):
        yield from common.tensor(scene, plan, scene.pads_heads(plan, phase))
        yield from encoders.heads(scene, plan)
    if not one(plan.pp):
        yield from common.stages(scene, plan)
    if not one(plan.ep):
        yield from common.experts(scene, plan, phase)
    if not one(plan.dp):
        yield common.whole(plan)
    yield from common.network(scene, plan, phase)
    yield from (training if phase == "train" else serving)(scene, plan)
    yield from encoders.sources(scene)
    yield from common.lengths(scene, phase)


def broken(scene: Scene, plan: Plan, phase: str) -> Rule | None:
    """The first rule that a layout breaks, None where it is legal."""
    return next((rule for rule in rules(scene, plan, phase) if not num.value(rule.holds)), None)


def all_of(found: list[Rule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for rule in found:
        ok = rule.holds & ok
    return num.value(ok)


def check(scene: Scene) -> None:
    """Refuse the sizes that were given, whatever the open ones become. Raises UsageError with the flag and the remedy."""
    r = scene.request
    given = {name: float(value) for name in SIZES if (value := getattr(r, name)) is not None}
    if r.attention_dp and r.phases != ("train",):
        given = {
            **given,
            **dict(zip(("tp", "dp", "ep"), attention_parallel(r, r.tp or 1, r.dp or 1, r.ep), strict=True)),
        }
        given = {name: float(size) for name, size in given.items() if name != "ep" or r.ep is not None}
    for phase in r.phases if "decode" not in r.phases else (p for p in r.phases if p != "prefill"):
        plan = Plan(**{**given, **layout(r, phase)})
        for rule in rules(scene, plan, phase):
            if set(rule.sizes) <= set(given) and not num.value(rule.holds):
                raise rule.refusal


def most_in_the_way(found: list[Rule]) -> Rule:
    """Of the rules that candidates broke, the one that most of them did; the first of equals."""
    counts: dict[str, int] = {}
    for rule in found:
        counts[rule.name] = counts.get(rule.name, 0) + 1
    return max(found, key=lambda rule: counts[rule.name])
