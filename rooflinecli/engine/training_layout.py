"""The choice of a training layout on a number of devices: the best of a coarse part of what `roofline search` tries, priced as arrays as
it does (on few devices the best of the plain candidates), from which one size after another moves to where the step is fastest.

Moves keep the device count: they shift a factor between two parallel axes, or change the micro-batch, the virtual stages, the ZeRO stage,
recomputation, sequence parallelism or the order of the axes. The score is the search's, the step at the bound of its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from operator import attrgetter

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import extrapolation, layout_space, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import priced, time_at_bound
from rooflinecli.engine.layout_space import few_layouts, micro_batch_sizes, shard_group, without_effect_removed
from rooflinecli.engine.residency import resident_memory, state_exceeds_memory
from rooflinecli.specs.layout import Layout

FEW = 16  # devices, whose splits are few
STARTS = 6  # splits of the devices from which it goes on
MAX_PRICED = 1000  # layouts, one by one: some tenths of a second
AXES = ("tp", "pp", "dp", "cp")
EXCHANGES = ((2, 1), (3, 1), (5, 1), (7, 1), (3, 2), (2, 3), (4, 3), (3, 4))  # factors that an axis gives and takes
# whether it exceeds the memory, then what is less the better: bytes, or seconds at the bound, of equals the expected ones
Score = tuple[bool, float, float]
_HELD = 7  # of what varies: what weights, gradients and optimizer depend on
_varied = attrgetter(
    *AXES, "ep", "zero", "shard", "micro_batch", "virtual_stages", "recompute", "sequence_parallel", "placement"
)


def coarse(ctx: EstimateContext, devices: int) -> tuple[list[tuple[Score, Layout]], int]:
    """The best of the coarse part by their split of the devices, and how many layouts it has."""
    import numpy as np

    space, found, count = layout_space.CoarseSpace(ctx.request), list[tuple[Score, Layout]](), 0
    every = layout_space.layouts(ctx, space, devices)
    with np.errstate(all="ignore"):
        for structure in layout_space.structures(space, layout_space.is_sparse(ctx, devices)):
            part = every.take(layout_space.affected_axes(ctx, every, space, structure)).laid(ctx, structure)
            count += len(part)
            if not len(part):
                continue
            needed = resident_memory(ctx, part.plan(ctx.request), "train").total_bytes
            value = expected = np.broadcast_to(needed, (len(part),))
            fits = np.flatnonzero(value <= ctx.chip.capacity)
            if len(fits):
                part = part.take(fits)
                answer = priced(ctx, part.plan(ctx.request), "train")
                times = num.single(time_at_bound(answer, ctx.request.bound)), answer.time_s
                value, expected = (np.broadcast_to(time, (len(part),)) for time in times)
            order = np.lexsort((expected, value))
            _, first = np.unique(part.split[order], return_index=True)
            best = order[np.sort(first)[:STARTS]]
            for i, row in zip(best, part.rows(best), strict=True):
                sizes = {name: float(row[name]) for name in layout_space.ORDER}
                shard = {} if row["shard"] is None else {"shard": float(row["shard"])}
                layout = part.structure.layout(ctx.request, sizes | shard)
                score = not len(fits), float(value[i]), float(expected[i])
                found.append((score, without_effect_removed(ctx.request, layout)))
    return _by_split(found), count


def _by_split(found: list[tuple[Score, Layout]]) -> list[tuple[Score, Layout]]:
    """The best of each split of the devices, of the best splits."""
    found.sort(key=lambda pair: pair[0])
    splits = dict[tuple[Number, ...], tuple[Score, Layout]]()
    for score, layout in found:
        splits.setdefault((layout.tp, layout.pp, layout.cp, layout.ep), (score, layout))
    return list(splits.values())[:STARTS]


def refined(ctx: EstimateContext, devices: int, few: list[Layout] | None = None) -> tuple[Layout, bool, int] | None:
    """The fastest layout reached from the best of the coarse part, whether it fits, and how many layouts were looked at on the way.

    Where none fits it is the one that needs least memory; None where none is legal. few: of a few devices all plain candidates, if known.
    """
    # where replicas cannot take all devices the plain candidates are too few
    if devices > FEW or ctx.train_batch % devices:
        starts, count = coarse(ctx, devices)
    else:
        few = list(few_layouts(ctx, devices)) if few is None else few
        starts, count = _by_split([(found, one) for one in few if (found := _score(ctx, one)) is not None]), len(few)
    scores, looked, large = dict[object, Score | None](), set[object](), dict[object, bool]()
    whole = layout_space.chooses_whole_batches(ctx, layout_space.CoarseSpace(ctx.request), devices)

    def score(layout: Layout, fits: bool) -> Score | None:
        """`fits`: whether a layout that does not fit is of no interest, as most do not by their weights and optimizer alone."""
        key = _varied(layout)
        looked.add(key)
        if fits and (held := key[:_HELD]) not in large:
            large[held] = state_exceeds_memory(ctx, layout)
        if fits and large[held]:
            return None
        if key not in scores:
            legal = not whole or layout_space.divides_batch(ctx, layout).holds
            scores[key] = _score(ctx, layout) if legal else None
        return scores[key]

    def descent(least: Score, layout: Layout, moves: Callable[[Layout], Iterator[Layout]]) -> tuple[Score, Layout]:
        """The layout where no move leads to a better one."""
        while len(looked) < MAX_PRICED:
            scored = ((score(near, not least[0]), near) for near in moves(layout))
            found = [(other, near) for other, near in scored if other is not None and other < least]
            if not found:
                break
            least, layout = min(found, key=lambda pair: pair[0])
        return least, layout

    if not starts:
        return None
    single = partial(neighbors, ctx)
    least, layout = min((descent(*start, single) for start in starts), key=lambda pair: pair[0])
    if len(starts) > 1:  # of one split the coarse part has nearly all
        far = descent(least, layout, lambda one: (other for near in single(one) for other in single(near)))
        least, layout = descent(*far, single)
    return layout, not least[0], count + len(looked)


def _score(ctx: EstimateContext, layout: Layout) -> Score | None:
    """None where the layout is illegal."""
    given = layout_space.CoarseSpace(ctx.request).open
    if legality.first_violation(ctx, layout, "train") or not all(
        one.holds for one in legality.launched(ctx, layout, given)
    ):
        return None
    try:
        memory = resident_memory(ctx, layout, "train")
        if not memory.fits:
            return True, float(memory.total_bytes), 0.0
        answer = priced(ctx, layout, "train")
        return False, num.single(float(time_at_bound(answer, ctx.request.bound))), float(answer.time_s)
    except Infeasible:
        return None


def neighbors(ctx: EstimateContext, layout: Layout) -> Iterator[Layout]:
    """Layouts one move away, in what the question leaves open."""
    r = ctx.request
    sizes = micro_batch_sizes(ctx, layout.dp)
    smaller, larger = ([float(size) for size in sizes if (size - layout.micro_batch) * sign > 0] for sign in (-1, 1))
    yield from _shifted(ctx, layout)
    if r.micro_batch is None:
        # an odd batch has few divisors: the next ones count as near however far they are
        near = [size for size in sizes if layout.micro_batch / 4 <= size <= layout.micro_batch * 4]
        yield from (
            layout.with_changes(micro_batch=float(size))
            for size in sorted({*near, *smaller[-1:], *larger[:1]})
            if size != layout.micro_batch
        )
    if r.virtual_stages is None and layout.pp > 1:
        legal, v = layout_space.virtual_stages(ctx, layout.pp), int(layout.virtual_stages)
        if ctx.ledger.n_layers % layout.pp:
            # those that split a stage's layers nearly evenly, the most, the most of published runs, beyond which the interval is wider, and
            # one more or less
            even = divisors(max(round(ctx.ledger.n_layers / layout.pp), 1))
            legal = sorted({*even, legal[-1], int(extrapolation.known(ctx, layout).stages), v - 1, v + 1} & {*legal})
        yield from (layout.with_changes(virtual_stages=float(n)) for n in legal if n != v)
    # what sharding and recomputation free pays for a larger micro-batch, and a smaller one for going without recomputation
    batches = [layout.micro_batch, *(larger if r.micro_batch is None else [])]
    if r.zero is None and layout.replicas > 1:
        for zero, size in product((zero for zero in (0, 1, 2, 3) if zero != layout.zero), batches[:2]):
            yield layout.with_changes(zero=zero, micro_batch=size, shard=r.shard)
        if r.shard is None:  # weights sharded inside a network domain, replicated across (HSDP)
            domains = {
                shard_group(ctx, n, int(layout.tp * layout.cp), int(layout.dp)) for n in layout_space.DOMAINS[1:]
            }
            yield from (layout.with_changes(zero=3, shard=float(n)) for n in sorted(domains) if 1 < n < layout.dp)
    if r.recompute is None:
        other = "full" if layout.recompute != "full" else "none"
        batches = batches if other == "full" or r.micro_batch is not None else [*smaller, *batches]
        yield from (layout.with_changes(recompute=other, micro_batch=size) for size in batches)
    orders = layout_space.placements(layout_space.CoarseSpace(r))
    yield from (layout.with_changes(placement=order) for order in orders if order not in (None, layout.placement))
    if r.sequence_parallel is None and layout.tp > 1:
        yield layout.with_changes(sequence_parallel=not layout.sequence_parallel)
    if r.ep is None and ctx.ledger.experts:
        groups = [e for e in divisors(int(layout.dp)) if not any(x % e for x in ctx.ledger.experts)]
        yield from (
            layout.with_changes(ep=float(e)) for e in groups if layout.ep / 4 <= e <= layout.ep * 4 and e != layout.ep
        )


def _shifted(ctx: EstimateContext, layout: Layout) -> Iterator[Layout]:
    """A prime factor moved from one open parallel axis to another, or exchanged for one of the other's (tp 4 dp 48 to tp 3 dp 64)."""
    request = ctx.request
    open_axes = [axis for axis in AXES if getattr(request, axis) is None]
    for source in open_axes:
        size = int(getattr(layout, source))
        others = (axis for axis in open_axes if axis != source)
        for target, (factor, back) in product(others, [pair for pair in EXCHANGES if not size % pair[0]]):
            if getattr(layout, target) % back:
                continue
            moved: dict[str, Number | None] = {
                source: float(size // factor * back),
                target: getattr(layout, target) / back * factor,
            }
            if request.zero is None and layout.replicas == 1:
                moved["zero"] = 1
            if request.shard is None and layout.shard is not None:  # the group fills the same network domain
                changed = {**layout.__dict__, **moved}
                moved["shard"] = layout.shard * layout.tp * layout.cp / (changed["tp"] * changed["cp"])
            shifted = _consistent(ctx, layout.with_changes(**moved))
            yield shifted
            if "pp" not in moved and shifted.virtual_stages != layout.virtual_stages:
                yield shifted.with_changes(virtual_stages=layout.virtual_stages)


def _consistent(ctx: EstimateContext, layout: Layout) -> Layout:
    """The layout with what depends on its axes: sequence parallelism with tp, ZeRO and expert groups within the replicas, no virtual
    stages without pipeline stages, a micro-batch that a replica's part of the batch has."""
    request, changes = ctx.request, dict[str, Number | bool | None]()
    if request.micro_batch is None and (ctx.train_batch / layout.dp) % layout.micro_batch:
        changes["micro_batch"] = float(
            max(size for size in micro_batch_sizes(ctx, layout.dp) if size <= layout.micro_batch)
        )
    if request.sequence_parallel is None:
        changes["sequence_parallel"] = bool(layout.tp > 1)
    if request.zero is None and layout.replicas == 1:
        changes["zero"] = 0
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
