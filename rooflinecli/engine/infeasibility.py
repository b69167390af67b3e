"""Why nothing can be laid out on the devices given, or why no count of devices holds it."""

from __future__ import annotations

import math

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import plural
from rooflinecli.core.units import si
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.layout_candidates import reach
from rooflinecli.engine.rules import LegalityRule


def no_layout_error(ctx: EstimateContext, devices: int, refused: list[LegalityRule]) -> UsageError:
    """Why nothing can be laid out on the devices given. Raises UsageError where a size given could not be laid out on any."""
    legality.check(ctx)
    r = ctx.request
    product, asked = explicit_layout.product_of_explicit_sizes(r)
    first = asked.partition(" ")[0].removeprefix("--") or "n"
    if devices % product:
        return UsageError(
            f"{asked} {_makes(asked, product)}, which does not divide -n {devices}; change one of them", first
        )
    if None not in (r.tp, r.pp, r.dp) and product != devices:
        return UsageError(f"{asked} {_makes(asked, product)}, not -n {devices}; change one of them", first)
    if refused:
        return legality.most_violated_rule(refused).refusal
    return UsageError(
        f"no layout of {ctx.spec.name} on -n {devices} with {asked or 'the sizes given'}; change -n or free a size",
        "n",
    )


def _makes(asked: str, product: int) -> str:
    return f"multiply to {product}" if asked.count("--") > 1 else f"takes {plural(product, 'device')}"


def does_not_fit_error(ctx: EstimateContext, least: float | None) -> str:
    """Why no device count will do; `least` is what the leanest layout of the largest count takes of each device, in bytes."""
    r, chip = ctx.request, ctx.chip.spec.name
    if not ctx.chip.levels:
        return (
            f"{ctx.spec.name} does not fit on 1 x {chip}, whose file describes no network, so that a plan has one device; "
            "add `network:` to it, or lower --batch or the lengths"
        )
    product, asked = explicit_layout.product_of_explicit_sizes(r)
    most = product if None not in (r.tp, r.pp, r.dp) else reach(ctx)
    needs = (
        ""
        if least is None or math.isinf(least)
        else f": {si(least, 'B')} of {si(float(ctx.chip.capacity), 'B')} on each at the least"
    )
    stored = "" if tuple(r.phases) == ("train",) else "store weights in fewer bits (--weight-dtype), "
    freed = f"free {asked}" if asked else "take chips that hold more"
    return f"{ctx.spec.name} does not fit on {most} x {chip}{needs}; lower --batch or the lengths, {stored}or {freed}"
