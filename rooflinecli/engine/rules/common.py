"""What must hold in any phase: heads, layers and experts divide, the axes multiply, the network joins, positions suffice."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.rules import LegalityRule
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import AXES, Layout


def tensor(ctx: EstimateContext, layout: Layout, pads: bool) -> Iterator[LegalityRule]:
    for heads in ctx.ledger.heads:
        if pads:
            yield LegalityRule(
                f"tp is at most the {heads} heads",
                ("tp",),
                constraints.within(layout.tp, float(heads)),
                lambda h=heads: f"--tp {layout.tp:.0f} exceeds the {h} attention heads of {ctx.spec.name}; use fewer",  # type: ignore[misc]
            )
            continue
        yield LegalityRule(
            f"tp divides the {heads} heads",
            ("tp",),
            constraints.divides(layout.tp, float(heads)),
            lambda h=heads: (  # type: ignore[misc]
                f"--tp {layout.tp:.0f} does not divide the {h} attention heads of {ctx.spec.name}; use a divisor of {h}"
            ),
        )


def stages(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    layers, name = float(ctx.ledger.n_layers), ctx.spec.name
    yield LegalityRule(
        f"pp is at most the {layers:.0f} layers",
        ("pp",),
        constraints.within(layout.pp, layers),
        lambda: f"--pp {layout.pp:.0f} exceeds the {layers:.0f} layers of {name}; use fewer stages",
    )


def experts(ctx: EstimateContext, layout: Layout, phase: str) -> Iterator[LegalityRule]:
    counts, name, copies = ctx.ledger.experts, ctx.spec.name, layout.redundant_experts
    more = f" and {num.value(copies):.0f} redundant ones" if num.plain(copies) and num.value(copies) else ""
    for experts in counts:
        yield LegalityRule(
            f"ep divides the {experts} experts{more}",
            ("ep",),
            constraints.divides(layout.ep, float(experts) + copies),
            lambda e=experts: f"--ep {layout.ep:.0f} does not divide the {e} experts{more} of {name}; use a divisor",  # type: ignore[misc]
        )
    if not counts:
        yield LegalityRule(
            "a dense model has no experts to split",
            ("ep",),
            constraints.within(layout.ep, 1.0),
            lambda: f"--ep {layout.ep:.0f}: {name} has no experts; leave --ep out",
        )


def whole(layout: Layout) -> LegalityRule:
    return LegalityRule(
        "the axes multiply to the devices",
        ("dp",),
        constraints.divides(1.0, layout.dp) & constraints.within(1.0, layout.dp),
        lambda: f"{layout.dp:g} replicas: the axes do not multiply to the devices; change one of them",
    )


def network(ctx: EstimateContext, layout: Layout, phase: str) -> Iterator[LegalityRule]:
    """The widest group with anything to exchange is joined by the chip's network; serving replicas exchange nothing.

    No group is wider than all devices, so no rule can be broken where the network joins those.
    """
    levels, devices = ctx.chip.levels, layout.devices
    reach = levels[-1].size if levels else 1.0
    if devices.__class__ is float and devices <= reach:
        return
    widest: Number = 1.0
    stride = layout.stride
    for axis in AXES if phase == "train" else ("tp", "pp", "ep"):
        n = getattr(layout, axis)
        if axis == "ep" and phase != "train":
            n, stride["ep"] = layout.expert_replicas, layout.tp * layout.cp
        widest = num.maximum(widest, num.where(n > 1, n * stride[axis], 1.0))
    chip = ctx.chip.spec.name
    yield LegalityRule(
        f"the network joins {reach:.0f} device{'s' * (reach != 1)}",
        AXES,
        constraints.within(widest, reach),
        lambda: (
            f"{num.value(widest):.0f} devices: {chip} describes a network of {reach:.0f}; use fewer, or add an outer level to its file"
            if levels
            else f"{chip}: its file describes no network, so a plan has one device; add `network:` to it"
        ),
    )


def lengths(ctx: EstimateContext, phase: str) -> Iterator[LegalityRule]:
    """Learned positions end where they end; only lengths that someone gave are held against them."""
    r, limit = ctx.request, ctx.spec.max_context
    if ctx.spec.positions.kind != "learned" or not limit:
        return
    flag, length = ("--seq", ctx.seq) if phase == "train" else ("--prompt plus --output", ctx.prompt + ctx.output)
    if (r.seq if phase == "train" else r.prompt if r.prompt is not None else r.output) is None:
        return
    yield LegalityRule(
        f"{limit} learned positions",
        (),
        constraints.within(length, float(limit)),
        lambda: f"{flag} {num.value(length):g} exceeds the {limit} learned positions of {ctx.spec.name}; shorten it",
        "seq" if phase == "train" else "prompt",
    )
