"""Candidate layouts of a server, and what the candidates of training (engine/layout_space) share with them.

The server takes the best of them: not every legal layout (`roofline search` has those), since tensor parallelism stays inside the scale-up domain.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core.num import Number
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.specs.layout import WHOLE, Layout

MOST = 128  # largest size of one axis that is tried
LARGEST = 65536  # devices


def candidates(
    ctx: EstimateContext, phase: str, devices: int, broken: list[LegalityRule] | None = None
) -> Iterator[Layout]:
    """Legal layouts of the open sizes on a number of devices; `broken` collects the rules that the others break."""
    if phase == "train":
        from rooflinecli.engine import layout_space  # not loaded by an estimate of serving

        yield from layout_space.few_layouts(ctx, devices, broken)
        return
    for layout in _splits(ctx, devices):
        rule = legality.first_violation(ctx, layout, phase)
        if rule is None:
            yield layout
        elif broken is not None:
            broken.append(rule)


def _splits(ctx: EstimateContext, devices: int) -> Iterator[Layout]:
    """Layouts of a server whose axes multiply to `devices`."""
    r, cp = ctx.request, int(ctx.request.cp or 1)
    common = WHOLE.with_changes(
        cp=float(cp),
        ep=float(r.ep or 1),
        sequence_parallel=bool(r.sequence_parallel),
        zero=0,
        flash=r.flash,
        **explicit_layout.layout_fields(r, "serve"),
    )
    for tp in _sizes(r.tp, devices):
        if r.tp is None and (not divides_heads(ctx, tp) or tp > scale_up_domain(ctx)):
            continue
        for pp in _sizes(explicit_layout.stage_count(r), devices // max(tp * cp, 1)):
            dp, rest = divmod(devices, tp * cp * pp)
            if rest or dp < 1 or (r.dp is not None and dp != int(r.dp)) or not _worth_serving(ctx, devices, tp, pp, dp):
                continue
            split = common.with_changes(tp=float(tp), pp=float(pp), dp=float(dp))
            if r.attention_dp:
                given = None if r.ep is None else float(r.ep)
                sizes = explicit_layout.attention_dp_sizes(r, float(tp), float(dp), given)
                split = split.with_changes(tp=sizes[0], dp=sizes[1], ep=sizes[2])
            yield split


def _worth_serving(ctx: EstimateContext, devices: int, tp: int, pp: int, dp: int) -> bool:
    """One replica where the count is open; and stages only where tensor parallelism cannot fill the scale-up domain."""
    r = ctx.request
    if ctx.engine.splits_layers and r.tp is None:
        return tp == 1 and (r.dp is not None or dp == 1)
    if r.attention_dp:
        return r.tp is not None or tp == 1
    if r.dp is None and dp > int(r.ep or 1) and r.devices is None:
        return False
    if r.tp is not None:
        return True
    widest = min(scale_up_domain(ctx), devices)
    return not (r.pp is None and pp > 1 and tp < widest and divides_heads(ctx, widest))


def _sizes(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def divides_heads(ctx: EstimateContext, tp: int) -> bool:
    """Whether a tensor-parallel group divides the heads of every attention."""
    return not any(heads % tp for heads in ctx.ledger.heads)


def scale_up_domain(ctx: EstimateContext) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 8, or 16 in a torus."""
    if not ctx.chip.levels:
        return 1
    return int(min(ctx.chip.levels[0].size, 16 if ctx.chip.levels[0].level.kind == "torus" else 8))


def reach(ctx: EstimateContext) -> int:
    """Most devices that are tried on a chip."""
    return int(min(ctx.chip.levels[-1].size if ctx.chip.levels else 1, LARGEST))
