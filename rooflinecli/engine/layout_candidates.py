"""The layouts that the chooser looks at: splits of the devices into the sizes left open, then what training leaves open beside.

Not every legal layout (`roofline search` has those): tensor parallelism stays inside the innermost network domain, context
parallelism and virtual stages are taken as given, experts stay whole or are spread as far as the innermost domain or the replicas
go, microbatches up to 4, ZeRO 1 or 3, recomputation none or full.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.rules import LegalityRule
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.request import Request

MOST = 128  # largest size of one axis that is tried
LARGEST = 65536  # devices


def candidates(
    ctx: EstimateContext, phase: str, devices: int, refused: list[LegalityRule] | None = None
) -> Iterator[Layout]:
    """Legal layouts of the open sizes on so many devices; `refused` collects the rules that the others broke."""
    for split in _splits(ctx, phase, devices):
        for sized in _micro_batches(ctx, split) if phase == "train" else [split]:
            rule = legality.first_violation(ctx, sized, phase)
            if rule is None:
                yield from _training_variants(ctx, sized) if phase == "train" else [sized]
            elif refused is not None:
                refused.append(rule)


def _splits(ctx: EstimateContext, phase: str, devices: int) -> Iterator[Layout]:
    """Sizes of the axes that multiply to `devices`."""
    r, training = ctx.request, phase == "train"
    cp, whole = int(r.cp or 1), _undivided(r, training)
    stages = r.pp if r.stages is None or r.stages in explicit_layout.ENDS else float(str(r.stages).count(",") + 1)
    for tp in _sizes(r.tp, devices):
        if r.tp is None and not _divides_heads(ctx, tp):
            continue
        if r.tp is None and tp > scale_up_domain(ctx):
            continue
        for pp in _sizes(stages, devices // max(tp * cp, 1)):
            dp, rest = divmod(devices, tp * cp * pp)
            if rest or dp < 1 or (r.dp is not None and dp != int(r.dp)):
                continue
            if not training and not _worth_serving(ctx, devices, tp, pp, dp):
                continue
            if training:
                for ep in _expert_groups(ctx, tp, dp):
                    yield whole.with_changes(tp=float(tp), pp=float(pp), dp=float(dp), ep=ep)
            elif not r.attention_dp:
                yield whole.with_changes(tp=float(tp), pp=float(pp), dp=float(dp))
            else:
                ranks = explicit_layout.attention_dp_sizes(
                    r, float(tp), float(dp), float(r.ep) if r.ep is not None else None
                )
                yield whole.with_changes(tp=ranks[0], pp=float(pp), dp=ranks[1], ep=ranks[2])


def _expert_groups(ctx: EstimateContext, tp: int, dp: int) -> list[float]:
    """Expert groups of training: as given; else experts whole, spread over the replicas of the innermost domain, or over all that share them."""
    r, experts = ctx.request, ctx.ledger.experts
    if r.ep is not None or not experts:
        return [float(r.ep or 1)]
    groups = [e for e in divisors(dp) if not any(x % e for x in experts)]
    inside = [e for e in groups if e * tp <= scale_up_domain(ctx)]
    return [float(e) for e in sorted({1, max(inside, default=1), groups[-1]})]


def untried_dimensions(ctx: EstimateContext) -> str:
    """What of training layouts the candidates leave out, of the sizes that are open."""
    r = ctx.request
    lacks = {
        "tp beyond the fast domain": r.tp is None
        and ctx.request.devices is not None
        and ctx.request.devices > scale_up_domain(ctx),
        "cp": r.cp is None,
        "other ep": r.ep is None and bool(ctx.ledger.experts),
        "virtual stages": r.virtual_stages is None,
        "micro-batches above 4": r.micro_batch is None,
        "ZeRO-2": r.zero is None,
        "shard groups": r.shard is None and r.zero in (None, 3),
        "selective recomputation": r.recompute is None,
    }
    return ", ".join(name for name, out in lacks.items() if out) or "nothing else"


def _undivided(r: Request, training: bool) -> Layout:
    """What every split has in common."""
    return WHOLE.with_changes(
        cp=float(r.cp or 1),
        ep=float(r.ep or 1),
        micro_batch=float(r.micro_batch or 1),
        virtual_stages=float(r.virtual_stages or 1),
        sequence_parallel=bool(r.sequence_parallel),
        zero=1 if training else 0,
        flash=r.flash,
        **explicit_layout.layout(r, "train" if training else "serve"),
    )


def _worth_serving(ctx: EstimateContext, devices: int, tp: int, pp: int, dp: int) -> bool:
    """One replica where the count is open; and stages only where tensor parallelism cannot fill the inner domain."""
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
    """Larger microbatches are tried on a given device count only: the fewest devices that hold a model hold it with one sequence."""
    given = ctx.request.micro_batch is not None or ctx.request.devices is None
    for size in [split.micro_batch] if given else [1.0, 2.0, 4.0]:
        yield split if size == split.micro_batch else split.with_changes(micro_batch=size)


def _training_variants(ctx: EstimateContext, base: Layout) -> Iterator[Layout]:
    """ZeRO stages and recomputation left open: no rule speaks of them."""
    r = ctx.request
    parallel = base.tp > 1 if r.sequence_parallel is None else r.sequence_parallel
    for zero in [r.zero] if r.zero is not None else ([1, 3] if base.dp > 1 else [0]):
        for recompute in [r.recompute] if r.recompute else ["none", "full"]:
            yield base.with_changes(zero=zero, recompute=recompute, sequence_parallel=parallel)


def _sizes(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def _divides_heads(ctx: EstimateContext, tp: int) -> bool:
    return not any(heads % tp for heads in ctx.ledger.heads)


def scale_up_domain(ctx: EstimateContext) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 16."""
    if not ctx.chip.levels:
        return 1
    return int(min(ctx.chip.levels[0].size, 16 if ctx.chip.levels[0].level.kind == "torus" else 8))


def reach(ctx: EstimateContext) -> int:
    """Most devices that are tried on a chip."""
    return int(min(ctx.chip.levels[-1].size if ctx.chip.levels else 1, LARGEST))
