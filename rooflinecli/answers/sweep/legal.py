"""Which layouts exist at all, as masks: what `estimate` refuses with a sentence, a sweep keeps with feasible = false."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rooflinecli import num
from rooflinecli.engine.scene import Scene
from rooflinecli.formulas import constraints
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan

Rule = tuple[str, Number]  # what must hold, in words, and where it does (bool or array of bools)


def rules(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    """Every condition a layout of `phase` must meet besides memory; scalars and arrays alike."""
    layers = scene.book.layers
    for heads in sorted({g.axes["N"] for g in layers if "N" in g.axes}):
        yield f"tp divides the {heads} heads", constraints.divides(plan.tp, float(heads))
    yield f"pp is at most the {scene.book.n_layers} layers", constraints.within(plan.pp, float(scene.book.n_layers))
    for experts in sorted({g.axes["E"] for g in layers if g.moe}):
        yield f"ep divides the {experts} experts", constraints.divides(plan.ep, float(experts))
    if not any(g.moe for g in layers):
        yield "a dense model has no experts to split", constraints.within(plan.ep, 1.0)
    yield "ep divides dp", constraints.divides(plan.ep, plan.dp)
    yield from _interleaving(scene, plan)
    yield "the axes multiply to the devices", constraints.divides(1.0, plan.dp) & constraints.within(1.0, plan.dp)
    reach = scene.chip.levels[-1].size if scene.chip.levels else 1.0
    if math.isfinite(reach):
        yield f"the network joins {reach:.0f} devices", constraints.within(_span(plan, phase), reach)
    if phase == "train":
        yield "every replica has a microbatch", constraints.within(plan.dp * plan.micro_batch, scene.train_batch)
        if plan.shard is not None:
            yield "shard divides dp", constraints.divides(plan.shard, plan.dp)
    yield from _length(scene, phase)


def _interleaving(scene: Scene, plan: Plan) -> Iterator[Rule]:
    """Virtual stages cut the layers of at least two stages."""
    pieces, layers = plan.pp * plan.virtual_stages, float(scene.book.n_layers)
    yield (
        "virtual stages need at least two stages",
        constraints.within(num.where(plan.virtual_stages > 1, 2.0, 1.0), plan.pp),
    )
    yield (
        f"pp times virtual stages is at most the {layers:.0f} layers",
        constraints.within(num.where(plan.virtual_stages > 1, pieces, 1.0), layers),
    )


def _span(plan: Plan, phase: str) -> Number:
    """Devices that the widest group with anything to exchange reaches over; serving replicas exchange nothing."""
    widest: Number = 1.0
    for axis in ("tp", "cp", "ep", "dp", "pp") if phase == "train" else ("tp", "ep", "pp"):
        n = getattr(plan, axis)
        widest = num.maximum(widest, num.where(n > 1, n * plan.stride[axis], 1.0))
    return widest


def _length(scene: Scene, phase: str) -> Iterator[Rule]:
    """Learned positions end where they end; only lengths someone gave are held against them, as in `estimate`."""
    r, limit = scene.request, scene.spec.max_context
    if scene.spec.positions.kind != "learned" or not limit:
        return
    if phase == "train":
        if r.seq is not None:
            yield f"{limit} learned positions", constraints.within(scene.seq, float(limit))
    elif r.prompt is not None or r.output is not None:
        yield f"{limit} learned positions", constraints.within(scene.prompt + scene.output, float(limit))


def all_of(found: list[Rule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for _, mask in found:
        ok = mask & ok
    return num.value(ok)
