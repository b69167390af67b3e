"""Candidate layouts: splits of the devices into the sizes left open, then what training leaves open.

A server takes the best of them; a training run the first device count on which one fits, and a layout by engine/training_layout. Not every legal layout (`roofline search` has those): tensor parallelism stays inside the scale-up domain, context parallelism has
one size for long sequences, virtual stages are taken as given, experts stay whole or are spread as far as the scale-up domain or the replicas go, micro-batches
up to 4, ZeRO 1 or 3, recomputation none or full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.specs.layout import WHOLE, Layout

MOST = 128  # largest size of one axis that is tried
LARGEST = 65536  # devices
CONTEXT = 8192  # tokens of a long sequence on a context rank, where cp is open


def candidates(
    ctx: EstimateContext, phase: str, devices: int, broken: list[LegalityRule] | None = None
) -> Iterator[Layout]:
    """Legal layouts of the open sizes on a number of devices; `broken` collects the rules that the others break."""
    training = phase == "train"
    for split in chain.from_iterable(_splits(ctx, training, devices, cp) for cp in _context_groups(ctx, training)):
        for layout in _micro_batches(ctx, split) if training else [split]:
            rule = legality.first_violation(ctx, layout, phase)
            if rule is None:
                yield from _zero_and_recompute(ctx, layout) if training else [layout]
            elif broken is not None:
                broken.append(rule)


def _context_groups(ctx: EstimateContext, training: bool) -> list[int]:
    """cp as given; else 1, and for long sequences of training on a given device count as many as leave a rank 8,192 tokens."""
    r = ctx.request
    if r.cp is not None or not training or r.devices is None or ctx.seq < 2 * CONTEXT:
        return [int(r.cp or 1)]
    return [1, 2 ** int(math.log2(ctx.seq / CONTEXT))]


def _splits(ctx: EstimateContext, training: bool, devices: int, cp: int) -> Iterator[Layout]:
    """Layouts whose axes multiply to `devices`."""
    r = ctx.request
    common = WHOLE.with_changes(
        cp=float(cp),
        ep=float(r.ep or 1),
        micro_batch=float(r.micro_batch or 1),
        virtual_stages=float(r.virtual_stages or 1),
        sequence_parallel=bool(r.sequence_parallel),
        zero=(1 if r.zero is None else r.zero) if training else 0,
        flash=r.flash,
        **explicit_layout.layout_fields(r, "train" if training else "serve"),
    )
    stages = explicit_layout.stage_count(r)
    for tp in _sizes(r.tp, devices):
        if r.tp is None and (not _divides_heads(ctx, tp) or tp > scale_up_domain(ctx)):
            continue
        for pp in _sizes(stages, devices // max(tp * cp, 1)):
            dp, rest = divmod(devices, tp * cp * pp)
            if rest or dp < 1 or (r.dp is not None and dp != int(r.dp)):
                continue
            split = common.with_changes(tp=float(tp), pp=float(pp), dp=float(dp))
            if training:
                for ep in _expert_groups(ctx, tp, dp):
                    yield split.with_changes(ep=ep)
            elif _worth_serving(ctx, devices, tp, pp, dp):
                if not r.attention_dp:
                    yield split
                    continue
                given = None if r.ep is None else float(r.ep)
                sizes = explicit_layout.attention_dp_sizes(r, float(tp), float(dp), given)
                yield split.with_changes(tp=sizes[0], dp=sizes[1], ep=sizes[2])


def _expert_groups(ctx: EstimateContext, tp: int, dp: int) -> list[float]:
    """ep in training: as given; else experts whole, spread over the replicas of the scale-up domain, or over all that share them."""
    r, experts = ctx.request, ctx.ledger.experts
    if r.ep is not None or not experts:
        return [float(r.ep or 1)]
    groups = [e for e in divisors(dp) if not any(x % e for x in experts)]
    inside = [e for e in groups if e * tp <= scale_up_domain(ctx)]
    return [float(e) for e in sorted({1, max(inside, default=1), groups[-1]})]


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
    return not (r.pp is None and pp > 1 and tp < widest and _divides_heads(ctx, widest))


def _micro_batches(ctx: EstimateContext, split: Layout) -> Iterator[Layout]:
    """Larger micro-batches only on a given device count: the fewest devices that fit a model fit it with one sequence."""
    fixed = ctx.request.micro_batch is not None or ctx.request.devices is None
    for size in [split.micro_batch] if fixed else [1.0, 2.0, 4.0]:
        yield split if size == split.micro_batch else split.with_changes(micro_batch=size)


def _zero_and_recompute(ctx: EstimateContext, layout: Layout) -> Iterator[Layout]:
    """ZeRO stages, of those that the framework has, and recomputation left open."""
    r = ctx.request
    parallel = layout.tp > 1 if r.sequence_parallel is None else r.sequence_parallel
    stages = [1, 3] if legality.most_zero(ctx, layout) > 1 else [1]
    for zero in [r.zero] if r.zero is not None else (stages if layout.dp > 1 else [0]):
        for recompute in [r.recompute] if r.recompute else ["none", "full"]:
            yield layout.with_changes(zero=zero, recompute=recompute, sequence_parallel=parallel)


def _sizes(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def _divides_heads(ctx: EstimateContext, tp: int) -> bool:
    return not any(heads % tp for heads in ctx.ledger.heads)


def scale_up_domain(ctx: EstimateContext) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 8, or 16 in a torus."""
    if not ctx.chip.levels:
        return 1
    return int(min(ctx.chip.levels[0].size, 16 if ctx.chip.levels[0].level.kind == "torus" else 8))


def reach(ctx: EstimateContext) -> int:
    """Most devices that are tried on a chip."""
    return int(min(ctx.chip.levels[-1].size if ctx.chip.levels else 1, LARGEST))
