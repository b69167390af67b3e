"""What would work where a plan does not fit: the same load as more replicas on the same devices, or the fewest devices that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, divisors
from rooflinecli.core.text import plural
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.choose import choose
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.residency import resident_memory
from rooflinecli.formulas import serving
from rooflinecli.specs.layout import Layout


@dataclass(frozen=True, eq=False, repr=False)
class FeasibleAlternative:
    """A plan that works, why, and the sequences per replica where those change with it."""

    layout: Layout
    reason: str
    batch: Number | None = None


def nearest_feasible(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """The remedy that asks for least: the devices given laid out otherwise or with their sequences spread over replicas, else more devices."""
    kept = _otherwise(ctx, phases) or (None if phases == ("train",) else _as_replicas(ctx, phases))
    if kept is not None:
        return kept
    free = EstimateContext(replace(ctx.request, devices=None, tp=None, pp=None, dp=None, cp=None, ep=None))
    try:
        found = choose(free, phases, fastest=False)
    except (UsageError, Infeasible):
        return None
    return FeasibleAlternative(found.layout, found.reason)


# What is let go on the devices given, a step at a time: the split, then what training holds beside it.
_LET_GO: tuple[tuple[str, ...], ...] = (
    ("tp", "pp", "dp", "cp", "ep", "virtual_stages"),
    ("tp", "pp", "dp", "cp", "ep", "virtual_stages", "micro_batch", "zero", "recompute"),
)


def _otherwise(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """Another layout of the devices given that holds the same load; none where the layout was open to begin with."""
    r = ctx.request
    if r.devices is None and None in (r.tp, r.pp, r.dp):
        return None
    product, _ = explicit_layout.product_of_explicit_sizes(r)
    devices = r.devices if r.devices is not None else float(product)
    for names in _LET_GO if phases == ("train",) else _LET_GO[:1]:
        if all(getattr(r, name) is None for name in names):
            continue
        try:
            open_: dict[str, Any] = dict.fromkeys(names)
            found = choose(EstimateContext(replace(r, devices=devices, **open_)), phases)
        except (UsageError, Infeasible):
            continue
        if found.fits:
            return FeasibleAlternative(found.layout, f"the same {plural(devices, 'device')} laid out otherwise")
    return None


def _as_replicas(ctx: EstimateContext, phases: tuple[str, ...]) -> FeasibleAlternative | None:
    """The sequences of one replica spread over several on the devices given, experts over all of them (attention data parallelism)."""
    r = ctx.request
    if r.devices is None or r.concurrency is not None or r.qps is not None or (r.dp or 1) > 1:
        return None
    for layout in _replicated(ctx, int(r.devices)):
        each = serving.sequences_per_replica(ctx.batch, layout.dp)
        asked = EstimateContext(replace(r, batch=each))
        if legality.first_violation(asked, layout, phases[-1]) is None and all(
            resident_memory(asked, layout, p).fits for p in phases
        ):
            return FeasibleAlternative(
                layout, f"the same {ctx.batch:g} sequences as {layout.dp:.0f} replicas of {each:.0f}", each
            )
    return None


def _replicated(ctx: EstimateContext, devices: int) -> Iterator[Layout]:
    """Fewest replicas first."""
    moe = any(group.moe for group in ctx.ledger.layers)
    for dp in divisors(devices)[1:]:
        if dp <= ctx.batch:
            tp, ep = float(devices // dp), float(dp if moe else 1)
            yield Layout(
                tp=tp,
                dp=float(dp),
                ep=ep,
                zero=0,
                flash=ctx.request.flash,
                **explicit_layout.layout(ctx.request, "decode"),
            )
