"""What must hold in any phase: heads, layers and experts divide, the axes multiply, the network joins, positions suffice."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.context import Scene
from rooflinecli.engine.rules import Rule
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import AXES, Plan


def tensor(scene: Scene, plan: Plan, pads: bool) -> Iterator[Rule]:
    for heads in scene.book.heads:
        if pads:
            yield Rule(
                f"tp is at most the {heads} heads",
                ("tp",),
                constraints.within(plan.tp, float(heads)),
                lambda h=heads: f"--tp {plan.tp:.0f} exceeds the {h} attention heads of {scene.spec.name}; use fewer",  # type: ignore[misc]
            )
            continue
        yield Rule(
            f"tp divides the {heads} heads",
            ("tp",),
            constraints.divides(plan.tp, float(heads)),
            lambda h=heads: (  # type: ignore[misc]
                f"--tp {plan.tp:.0f} does not divide the {h} attention heads of {scene.spec.name}; use a divisor of {h}"
            ),
        )


def stages(scene: Scene, plan: Plan) -> Iterator[Rule]:
    layers, name = float(scene.book.n_layers), scene.spec.name
    yield Rule(
        f"pp is at most the {layers:.0f} layers",
        ("pp",),
        constraints.within(plan.pp, layers),
        lambda: f"--pp {plan.pp:.0f} exceeds the {layers:.0f} layers of {name}; use fewer stages",
    )


def experts(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    counts, name, copies = scene.book.experts, scene.spec.name, plan.redundant_experts
    more = f" and {num.value(copies):.0f} redundant ones" if num.plain(copies) and num.value(copies) else ""
    for experts in counts:
        yield Rule(
            f"ep divides the {experts} experts{more}",
            ("ep",),
            constraints.divides(plan.ep, float(experts) + copies),
            lambda e=experts: f"--ep {plan.ep:.0f} does not divide the {e} experts{more} of {name}; use a divisor",  # type: ignore[misc]
        )
    if not counts:
        yield Rule(
            "a dense model has no experts to split",
            ("ep",),
            constraints.within(plan.ep, 1.0),
            lambda: f"--ep {plan.ep:.0f}: {name} has no experts; leave --ep out",
        )


def whole(plan: Plan) -> Rule:
    return Rule(
        "the axes multiply to the devices",
        ("dp",),
        constraints.divides(1.0, plan.dp) & constraints.within(1.0, plan.dp),
        lambda: f"{plan.dp:g} replicas: the axes do not multiply to the devices; change one of them",
    )


def network(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    """The widest group with anything to exchange is joined by the chip's network; serving replicas exchange nothing.

    No group is wider than all devices, so no rule can be broken where the network joins those.
    """
    levels, devices = scene.chip.levels, plan.devices
    reach = levels[-1].size if levels else 1.0
    if devices.__class__ is float and devices <= reach:
        return
    widest: Number = 1.0
    stride = plan.stride
    for axis in AXES if phase == "train" else ("tp", "pp", "ep"):
        n = getattr(plan, axis)
        if axis == "ep" and phase != "train":
            n, stride["ep"] = plan.expert_replicas, plan.tp * plan.cp
        widest = num.maximum(widest, num.where(n > 1, n * stride[axis], 1.0))
    chip = scene.chip.spec.name
    yield Rule(
        f"the network joins {reach:.0f} device{'s' * (reach != 1)}",
        AXES,
        constraints.within(widest, reach),
        lambda: (
            f"{num.value(widest):.0f} devices: {chip} describes a network of {reach:.0f}; use fewer, or add an outer level to its file"
            if levels
            else f"{chip}: its file describes no network, so a plan has one device; add `network:` to it"
        ),
    )


def lengths(scene: Scene, phase: str) -> Iterator[Rule]:
    """Learned positions end where they end; only lengths that someone gave are held against them."""
    r, limit = scene.request, scene.spec.max_context
    if scene.spec.positions.kind != "learned" or not limit:
        return
    flag, length = ("--seq", scene.seq) if phase == "train" else ("--prompt plus --output", scene.prompt + scene.output)
    if (r.seq if phase == "train" else r.prompt if r.prompt is not None else r.output) is None:
        return
    yield Rule(
        f"{limit} learned positions",
        (),
        constraints.within(length, float(limit)),
        lambda: f"{flag} {num.value(length):g} exceeds the {limit} learned positions of {scene.spec.name}; shorten it",
        "seq" if phase == "train" else "prompt",
    )
