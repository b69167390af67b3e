"""Candidate layouts of the choice of a layout: splits of the devices into the sizes left open, then what training leaves open.

Not every legal layout (`roofline search` has those): tensor parallelism stays inside the scale-up domain, context parallelism has
one size for long sequences, virtual stages are taken as given, experts stay whole or are spread as far as the scale-up domain or the replicas go, micro-batches
up to 4, ZeRO 1 or 3, recomputation none or full. The best of those for training are refined (`refined`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain, product

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import priced, time_at_bound
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.engine.residency import resident_memory
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
    stages = r.pp if r.stages is None or r.stages in explicit_layout.ENDS else float(str(r.stages).count(",") + 1)
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


# --- refinement of a training layout: from the best of the plain candidates, one size after another moves to where the step is fastest
#
# `roofline search` prices every legal layout; an estimate has the time for some hundred. Moves keep the device count: they shift a
# factor between two parallel axes, or change the micro-batch, the virtual stages, the ZeRO stage, recomputation or sequence
# parallelism. The score is the search's, the step at the bound of its interval.

MAX_PRICED = 800  # layouts: some tenths of a second
AXES = ("tp", "pp", "dp", "cp")


def refined(ctx: EstimateContext, starts: list[Layout]) -> tuple[Layout, int]:
    """The fastest layout reached from `starts` that fits, and how many layouts were priced on the way."""
    scores: dict[tuple[Number | None, ...], float | None] = {}

    def score(layout: Layout) -> float | None:
        key = (
            *(getattr(layout, axis) for axis in (*AXES, "ep", "micro_batch", "virtual_stages", "zero", "shard")),
            layout.recompute == "full",
            layout.sequence_parallel,
        )
        if key not in scores:
            scores[key] = _time(ctx, layout)
        return scores[key]

    best, best_time = starts[0], score(starts[0])
    for start in starts:
        layout, time = _climb(ctx, start, score, lambda: len(scores) >= MAX_PRICED)
        if time is not None and (best_time is None or time < best_time):
            best, best_time = layout, time
    return best, len(scores)


def _climb(
    ctx: EstimateContext, layout: Layout, score: Callable[[Layout], float | None], exhausted: Callable[[], bool]
) -> tuple[Layout, float | None]:
    """Steepest descent of the step time over the neighbors of a layout."""
    time = score(layout)
    while not exhausted():
        found = [(t, near) for near in neighbors(ctx, layout) if (t := score(near)) is not None]
        fastest = min(found, key=lambda pair: pair[0], default=None)
        if fastest is None or (time is not None and fastest[0] >= time):
            break
        time, layout = fastest
    return layout, time


def _time(ctx: EstimateContext, layout: Layout) -> float | None:
    """Seconds of the step at the bound that the question ranks by; None where the layout is illegal or does not fit."""
    if legality.first_violation(ctx, layout, "train") is not None:
        return None
    try:
        if not resident_memory(ctx, layout, "train").fits:
            return None
        return float(time_at_bound(priced(ctx, layout, "train"), ctx.request.bound))
    except Infeasible:
        return None


def neighbors(ctx: EstimateContext, layout: Layout) -> Iterator[Layout]:
    """Layouts one move away, in what the question leaves open."""
    r = ctx.request
    yield from _shifted(ctx, layout)
    if r.micro_batch is None:
        sizes = micro_batch_sizes(ctx, layout)
        smaller = [size for size in sizes if size < layout.micro_batch]
        larger = [size for size in sizes if size > layout.micro_batch]
        yield from (layout.with_changes(micro_batch=size) for size in (*smaller[-2:], *larger[:2]))
        if r.recompute is None and layout.recompute == "none":  # what recomputation frees, larger micro-batches fill
            yield from (layout.with_changes(micro_batch=size, recompute="full") for size in larger[:4])
        if r.zero is None and layout.replicas > 1:  # and what sharding frees
            yield from (
                layout.with_changes(micro_batch=larger[0], zero=zero)
                for zero in (2, 3)
                if larger and zero > layout.zero
            )
    if r.virtual_stages is None and layout.pp > 1:
        neighbors = {layout.virtual_stages - 1, layout.virtual_stages + 1} - {0.0}
        yield from (
            layout.with_changes(virtual_stages=v)
            for v in sorted({*_chunks(ctx, layout), *neighbors})
            if v != layout.virtual_stages
        )
    if r.zero is None and layout.replicas > 1:
        yield from (layout.with_changes(zero=zero, shard=r.shard) for zero in (1, 2, 3) if zero != layout.zero)
        if r.shard is None:  # weights sharded inside a network domain, replicated across (HSDP)
            inside = [float(level.size) / float(layout.tp * layout.cp) for level in ctx.chip.levels[:-1]]
            domains = [size for size in inside if 1 < size < layout.dp and not layout.dp % size]
            yield from (layout.with_changes(zero=3, shard=size) for size in domains)
    if r.recompute is None:
        yield from (layout.with_changes(recompute=kind) for kind in ("none", "full") if kind != layout.recompute)
    if r.sequence_parallel is None and layout.tp > 1:
        yield layout.with_changes(sequence_parallel=not layout.sequence_parallel)
    if r.ep is None and ctx.ledger.experts:
        groups = [e for e in divisors(int(layout.dp)) if not any(x % e for x in ctx.ledger.experts)]
        yield from (
            layout.with_changes(ep=float(e)) for e in groups if layout.ep / 4 <= e <= layout.ep * 4 and e != layout.ep
        )


def micro_batch_sizes(ctx: EstimateContext, layout: Layout) -> list[float]:
    """Sequences of a micro-batch that are tried: divisors of a replica's part of the batch, and powers of two, whose last micro-batch
    is smaller."""
    per_replica = int(ctx.train_batch / layout.dp)
    powers = [2**i for i in range(per_replica.bit_length()) if 2**i <= per_replica]
    return [float(size) for size in sorted({*divisors(max(per_replica, 1)), *powers})]


def _shifted(ctx: EstimateContext, layout: Layout) -> Iterator[Layout]:
    """A prime factor moved from one open parallel axis to another."""
    request = ctx.request
    open_axes = [axis for axis in AXES if getattr(request, axis) is None]
    for source in open_axes:
        size = int(getattr(layout, source))
        others = (axis for axis in open_axes if axis != source)
        for target, factor in product(others, [p for p in (2, 3, 5, 7) if not size % p]):
            moved: dict[str, Number | None] = {source: float(size // factor), target: getattr(layout, target) * factor}
            if request.shard is None and layout.shard is not None:  # the group fills the same network domain
                changed = {**layout.__dict__, **moved}
                moved["shard"] = layout.shard * layout.tp * layout.cp / (changed["tp"] * changed["cp"])
            shifted = [_consistent(ctx, layout.with_changes(**moved))]
            interleaved = layout.virtual_stages > 1 or target == "pp"  # a stage more pays once it is interleaved
            if interleaved and shifted[0].pp > 1 and request.virtual_stages is None:
                shifted.append(shifted[0].with_changes(virtual_stages=_chunks(ctx, shifted[0])[-1]))
            if target == "dp" and request.ep is None and layout.ep > 1:  # as many experts on a device of more replicas
                spread = layout.ep * factor
                if not any(experts % spread for experts in ctx.ledger.experts):
                    shifted += [one.with_changes(ep=spread) for one in shifted]
            if source == "dp" and request.micro_batch is None:  # as many micro-batches of fewer replicas
                shifted.append(shifted[0].with_changes(micro_batch=layout.micro_batch * factor))
            yield from shifted
            if (
                target == "dp" and request.zero is None
            ):  # what fewer model-parallel ranks no longer hold, replicas shard
                yield from (one.with_changes(zero=zero) for one in shifted for zero in (2, 3) if zero > one.zero)


def _chunks(ctx: EstimateContext, layout: Layout) -> list[float]:
    """Virtual stages that split the layers of a pipeline stage evenly, and the most that leave each a layer, the embedding or the loss."""
    layers = ctx.ledger.n_layers
    return [
        float(v) for v in sorted({*divisors(max(round(layers / layout.pp), 1)), max(int((layers + 2) // layout.pp), 1)})
    ]


def _consistent(ctx: EstimateContext, layout: Layout) -> Layout:
    """The layout with what depends on its axes: sequence parallelism with tp, ZeRO and expert groups within the replicas, no virtual
    stages without pipeline stages, a micro-batch that a replica's part of the batch has."""
    request, changes = ctx.request, dict[str, Number | bool | None]()
    if request.micro_batch is None and (ctx.train_batch / layout.dp) % layout.micro_batch:
        changes["micro_batch"] = max(size for size in micro_batch_sizes(ctx, layout) if size <= layout.micro_batch)
    if request.sequence_parallel is None:
        changes["sequence_parallel"] = bool(layout.tp > 1)
    if request.zero is None and layout.replicas == 1:
        changes["zero"] = 0
    elif request.zero is None and layout.zero == 0:
        changes["zero"] = 1
    if request.virtual_stages is None:
        changes["virtual_stages"] = 1.0
    if (
        request.shard is None
        and layout.shard is not None
        and (not 1 < layout.shard < layout.dp or layout.dp % layout.shard)
    ):
        changes["shard"] = None
    if request.ep is None and layout.dp % layout.ep:
        changes["ep"] = float(max(e for e in divisors(int(layout.dp)) if not layout.ep % e))
    return layout.with_changes(**changes)
