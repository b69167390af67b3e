"""What a legal layout is: one list of rules, read by estimate, the chooser, sweep, search and check alike."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.explicit_layout import attention_dp_sizes, layout
from rooflinecli.engine.rules import LegalityRule, common, encoders, one
from rooflinecli.engine.rules.serving import serving
from rooflinecli.engine.rules.training import training
from rooflinecli.specs.layout import SIZES, Layout


def rules(ctx: EstimateContext, layout: Layout, phase: str) -> Iterator[LegalityRule]:
    """Every rule for a layout of `phase` besides memory; sizes are scalars or arrays.

    Nothing is split by the scalar 1, so no rule of it can be broken.
    """
    if not one(layout.tp):
        yield from common.tensor(ctx, layout, ctx.pads_heads(layout, phase))
        yield from encoders.heads(ctx, layout)
    if not one(layout.pp):
        yield from common.stages(ctx, layout)
    if not one(layout.ep):
        yield from common.experts(ctx, layout, phase)
    if not one(layout.dp):
        yield common.whole(layout)
    yield from common.network(ctx, layout, phase)
    yield from (training if phase == "train" else serving)(ctx, layout)
    yield from encoders.sources(ctx)
    yield from common.lengths(ctx, phase)


def first_violation(ctx: EstimateContext, layout: Layout, phase: str) -> LegalityRule | None:
    """The first rule that a layout breaks, None where it is legal."""
    return next((rule for rule in rules(ctx, layout, phase) if not num.value(rule.holds)), None)


def all_hold(found: list[LegalityRule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for rule in found:
        ok = rule.holds & ok
    return num.value(ok)


def check(ctx: EstimateContext) -> None:
    """Refuse the sizes that were given, whatever the open ones become. Raises UsageError with the flag and the remedy."""
    r = ctx.request
    given = {name: float(value) for name in SIZES if (value := getattr(r, name)) is not None}
    if r.attention_dp and r.phases != ("train",):
        given = {
            **given,
            **dict(zip(("tp", "dp", "ep"), attention_dp_sizes(r, r.tp or 1, r.dp or 1, r.ep), strict=True)),
        }
        given = {name: float(size) for name, size in given.items() if name != "ep" or r.ep is not None}
    for phase in r.phases if "decode" not in r.phases else (p for p in r.phases if p != "prefill"):
        plan = Layout(**{**given, **layout(r, phase)})
        for rule in rules(ctx, plan, phase):
            if set(rule.sizes) <= set(given) and not num.value(rule.holds):
                raise rule.refusal


def most_violated_rule(found: list[LegalityRule]) -> LegalityRule:
    """Of the rules that candidates broke, the one that most of them did; the first of equals."""
    counts: dict[str, int] = {}
    for rule in found:
        counts[rule.name] = counts.get(rule.name, 0) + 1
    return max(found, key=lambda rule: counts[rule.name])
