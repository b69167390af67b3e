"""The nearest alternative where a layout does not fit: the same load on the same devices laid out otherwise, or more devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, divisors
from rooflinecli.core.text import plural
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.choose import choose
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.residency import resident_memory
from rooflinecli.specs.layout import Layout

# Given sizes that are freed on the devices given, one group after the other: the split, then what training holds with it.
_SPLIT = ("tp", "pp", "dp", "cp", "ep", "virtual_stages")
_FREED = (_SPLIT, (*_SPLIT, "micro_batch", "zero", "recompute"))


@dataclass(frozen=True, eq=False, repr=False)
class FeasibleAlternative:
    """A layout that fits, why, and the sequences per replica where those change with it."""

    layout: Layout
    reason: str
    batch: Number | None = None


def nearest_feasible(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """On the devices given: another split, or the sequences spread over replicas; else on more devices. None where nothing fits."""
    nearest = _other_split(ctx, phases) or (None if phases == ("train",) else _as_replicas(ctx, phases))
    if nearest is not None:
        return nearest
    free = EstimateContext(replace(ctx.request, devices=None, tp=None, pp=None, dp=None, cp=None, ep=None))
    try:
        choice = choose(free, phases, fastest=False)
    except (UsageError, Infeasible):
        return None
    return FeasibleAlternative(choice.layout, choice.reason)


def _other_split(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """Another layout of the devices given for the same load; None where the layout was open to begin with."""
    r = ctx.request
    if r.devices is None and None in (r.tp, r.pp, r.dp):
        return None
    product, _ = explicit_layout.product_of_explicit_sizes(r)
    devices = r.devices if r.devices is not None else float(product)
    for names in _FREED if phases == ("train",) else _FREED[:1]:
        if all(getattr(r, name) is None for name in names):
            continue
        freed: dict[str, Any] = dict.fromkeys(names)
        try:
            choice = choose(EstimateContext(replace(r, devices=devices, **freed)), phases)
        except (UsageError, Infeasible):
            continue
        if choice.fits:
            return FeasibleAlternative(choice.layout, f"the same {plural(devices, 'device')} laid out otherwise")
    return None


def _as_replicas(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """The sequences of one replica spread over the fewest replicas that fit, experts over all of them (attention data parallelism)."""
    r = ctx.request
    if r.devices is None or r.concurrency is not None or r.qps is not None or (r.dp or 1) > 1:
        return None
    fields = explicit_layout.layout_fields(r, "decode")
    moe = ctx.is_moe
    devices = int(r.devices)
    for dp in divisors(devices)[1:]:
        if dp > ctx.batch:
            break
        ep = float(dp if moe else 1)
        layout = Layout(tp=float(devices // dp), dp=float(dp), ep=ep, zero=0, flash=r.flash, **fields)
        batch = num.ceil(ctx.batch / layout.dp)
        smaller = EstimateContext(replace(r, batch=batch))
        legal = legality.first_violation(smaller, layout, phases[-1]) is None
        if legal and all(resident_memory(smaller, layout, phase).fits for phase in phases):
            reason = f"the same {ctx.batch:g} sequences as {layout.dp:.0f} replicas of {batch:.0f}"
            return FeasibleAlternative(layout, reason, batch)
    return None
