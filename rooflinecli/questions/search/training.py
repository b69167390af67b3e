"""Exact search over training layouts: structure loops, sizes are arrays, memory first, time for what fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import cast

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.engine import explicit_layout, extrapolation, legality, option_conflicts, residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as engine_answer
from rooflinecli.engine.interval_bound import interval_bound
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.estimate.answer import cost
from rooflinecli.questions.search import layout_space
from rooflinecli.questions.search.question import TrainingLayout
from rooflinecli.questions.search.ranking import ParetoFront, RankedLayout, Ranking, frontier
from rooflinecli.questions.search.search_request import TrainingSearchQuestion
from rooflinecli.questions.sweep.evaluate_block import SweepBlock
from rooflinecli.questions.sweep.run import pick
from rooflinecli.specs.layout import AXES, Layout
from rooflinecli.specs.request import Request

CHUNK = 16384
MOST_ROWS = 1000  # that are kept where each layout is a row of its own
_TIES = ("pp", "tp", "cp", "ep", "virtual_stages", "micro_batch")
_ties, _axes = attrgetter(*_TIES), attrgetter(*AXES)
_all = attrgetter(*TrainingLayout.__dataclass_fields__)


@dataclass
class TrainingSearchResult:
    """What the search saw: counts, the ranking, and the nearest miss of each kind."""

    layouts: int = 0
    fitting: int = 0
    meeting: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    ranking: Ranking = field(default_factory=Ranking)
    front: ParetoFront = field(default_factory=ParetoFront)
    memory_miss: RankedLayout | None = None
    limit_miss: RankedLayout | None = None

    def reject(self, why: str, count: int) -> None:
        if count:
            self.rejected[why] = self.rejected.get(why, 0) + count

    def merge(self, part: TrainingSearchResult) -> None:
        """Take in what was seen elsewhere; parts in their order give what one search would have seen."""
        self.layouts += part.layouts
        self.fitting += part.fitting
        self.meeting += part.meeting
        for why, count in part.rejected.items():
            self.reject(why, count)
        for split, entry in part.ranking.entries.items():
            self.ranking.offer(split, entry)
        for entry in part.front.entries:
            self.front.offer(entry)
        for name in ("memory_miss", "limit_miss"):
            mine, other = getattr(self, name), getattr(part, name)
            if other is not None and (mine is None or other.keys < mine.keys):
                setattr(self, name, other)


def search(
    question: TrainingSearchQuestion, tell: Callable[[int, int], None] | None = None, over: Spread | None = None
) -> TrainingSearchResult:
    """Look at every legal layout on every device count asked for. `tell(done, total)` hears of progress; `over` spreads the work."""
    ctx, found = EstimateContext(question.request), TrainingSearchResult()
    option_conflicts.check(EstimateContext(question.pinned))
    legality.check(ctx)
    if not question.devices:
        raise UsageError("a training search requires -n (one or several counts, for example -n 512,1024)")
    per_device = {n: layout_space.layouts(ctx, question, n) for n in question.devices}
    structures = list(layout_space.structures(question))
    work = [(n, s, layout_space.affected_axes(ctx, per_device[n], question, s)) for n in per_device for s in structures]
    total = sum(len(chosen) for _, _, chosen in work)
    for offered in per_device.values():
        for why, count in offered.rejected.items():
            found.reject(why, count * sum(not s.domains for s in structures))
    if not total and not found.rejected:
        counts = " or ".join(f"{n:,}" for n in question.devices)
        raise UsageError(f"no split of {counts} devices has the sizes given; free one of them, or change -n", "n")
    items = (
        (n, structure, per_device[n].take(chosen[start : start + CHUNK]).laid(ctx, structure))
        for n, structure, chosen in work
        for start in range(0, len(chosen), CHUNK)
    )
    if over is not None:
        for part, count in over(partial(_searched, question), items):
            found.merge(part)
            if tell:
                tell(count, total)
        return found
    for n, structure, layouts in items:
        _chunk(ctx, question, found, n, layouts, structure)
        if tell:
            tell(len(layouts), total)
    return found


def _searched(
    question: TrainingSearchQuestion, item: tuple[int, layout_space.DeviceSplit, layout_space.LayoutArrays]
) -> tuple[TrainingSearchResult, int]:
    """What one run of layouts comes to, by itself."""
    n, structure, layouts = item
    found = TrainingSearchResult()
    _chunk(EstimateContext(question.request), question, found, n, layouts, structure)
    return found, len(layouts)


def plan_of(layouts: layout_space.LayoutArrays, structure: layout_space.DeviceSplit, request: Request) -> Layout:
    """The layouts of one structure as one plan of arrays."""
    given = explicit_layout.layout_fields(request, "train") | (
        {} if layouts.shard is None else {"shard": layouts.shard}
    )
    if structure.placement is not None:
        given["placement"] = structure.placement
    return Layout(
        zero=structure.zero,
        recompute=structure.recompute,
        sequence_parallel=structure.parallel,
        flash=request.flash,
        **(given | layouts.sizes),
    )


def _chunk(
    ctx: EstimateContext,
    question: TrainingSearchQuestion,
    found: TrainingSearchResult,
    n: int,
    layouts: layout_space.LayoutArrays,
    structure: layout_space.DeviceSplit,
) -> None:
    """Weigh up one run of layouts."""
    found.layouts += len(layouts)
    with np.errstate(all="ignore"):
        needed = needs(ctx, layouts, structure)
        fits = needed <= ctx.chip.capacity
        if not fits.all():
            found.reject("memory", int(len(fits) - fits.sum()))
            _miss(found, layouts, structure, needed, float(ctx.chip.capacity))
        fitting = layouts.take(np.flatnonzero(fits))
        if not len(fitting):
            return
        found.fitting += len(fitting)
        answer = answer_of(ctx, fitting, structure)
        keep = _meet(found, question, answer, fitting, structure)
        if question.has_precedent:
            train = cast(TrainAnswer, answer.phases["train"])
            plan = plan_of(fitting, structure, ctx.request)
            alike = answer.flat(extrapolation.has_precedent(ctx, plan, train))
            found.reject("precedent (--precedent-only)", int(len(alike) - alike.sum()))
            keep = keep & alike
        found.meeting += int(keep.sum())
        _rank(found, question, answer, fitting, structure, n, np.flatnonzero(keep))


def needs(ctx: EstimateContext, layouts: layout_space.LayoutArrays, structure: layout_space.DeviceSplit) -> np.ndarray:
    """Bytes on the fullest device of every layout."""
    held = residency.resident_memory(ctx, plan_of(layouts, structure, ctx.request), "train").total_bytes
    return np.broadcast_to(held, (len(layouts),))


def answer_of(
    ctx: EstimateContext, layouts: layout_space.LayoutArrays, structure: layout_space.DeviceSplit
) -> SweepBlock:
    """`estimate` of every layout, as arrays."""
    plan = plan_of(layouts, structure, ctx.request)
    phases = {"train": engine_answer(ctx, plan, "train")}
    bill = cost(ctx, phases, {"train": plan})
    return SweepBlock(phases, {"devices": plan.devices, **layouts.sizes}, bill, [], [], (len(layouts),), (0,), {}, {})


def _meet(
    found: TrainingSearchResult,
    question: TrainingSearchQuestion,
    answer: SweepBlock,
    layouts: layout_space.LayoutArrays,
    structure: layout_space.DeviceSplit,
) -> np.ndarray:
    """Where every condition holds; counts what each one rejects and keeps the nearest miss."""
    keep = np.ones(len(layouts), dtype=bool)
    worst = np.zeros(len(layouts))
    for condition in question.conditions:
        value = pick(answer, condition.quantity)
        if value is np.nan:
            raise UsageError(
                f"--where {condition.written!r}: no quantity '{condition.quantity}' here; `roofline estimate --format json` shows what there is"
            )
        bound = condition.at_bound(value, answer.phases["train"], question.request.hold)
        values = answer.flat(bound)
        holds = condition.holds(values)
        found.reject(condition.written, int(len(holds) - holds.sum()))
        keep &= holds
        if isinstance(condition.limit, float):
            worst = np.maximum(worst, np.where(holds, 0.0, condition.shortfall(values)))
    if question.conditions and not keep.all():
        i = int(np.argmin(np.where(keep, np.inf, worst)))
        entry = RankedLayout(_one(layouts, structure, i), (float(worst[i]),), ())
        if found.limit_miss is None or entry.keys < found.limit_miss.keys:
            found.limit_miss = entry
    return keep


def _miss(
    found: TrainingSearchResult,
    layouts: layout_space.LayoutArrays,
    structure: layout_space.DeviceSplit,
    needed: np.ndarray,
    capacity: float,
) -> None:
    over = np.where(needed > capacity, needed, np.inf)
    i = int(np.argmin(over))
    if found.memory_miss is None or over[i] < found.memory_miss.keys[0]:
        found.memory_miss = RankedLayout(_one(layouts, structure, i), (float(over[i]),), (capacity,))


def _rank(
    found: TrainingSearchResult,
    question: TrainingSearchQuestion,
    answer: SweepBlock,
    layouts: layout_space.LayoutArrays,
    structure: layout_space.DeviceSplit,
    n: int,
    kept: np.ndarray,
) -> None:
    """Offer the best of each split to the ranking, and the front's points to the front."""
    if not len(kept):
        return
    values = [pick(answer, o.quantity) for o in question.objectives]
    for o, value in zip(question.objectives, values, strict=True):
        if value is np.nan:
            raise UsageError(
                f"--objective {o.name}: no quantity '{o.quantity}' here; `roofline estimate --format json` shows what there is"
            )
    phase, hold = answer.phases["train"], question.request.hold
    ends = [
        interval_bound(v, o.quantity, phase, hold, o.sign > 0) for o, v in zip(question.objectives, values, strict=True)
    ]
    keys = [o.key(answer.flat(v))[kept] for o, v in zip(question.objectives, ends, strict=True)]
    figures = [answer.flat(v)[kept] for v in (cast(TrainAnswer, phase).communication_error_fraction, *values)]
    ties = [layouts.sizes[name][kept] for name in _TIES]
    if len(keys) == 2:
        for entry in _entries(layouts, structure, kept, keys, figures, frontier(keys[0], keys[1])):
            found.front.offer(entry)
    order = np.lexsort([*reversed(ties), *reversed(keys)])
    if question.every:
        for entry in _entries(layouts, structure, kept, keys, figures, order[:MOST_ROWS]):
            found.ranking.offer((n, *_all(entry.layout)), entry)
        found.ranking.keep(MOST_ROWS)
        return
    split = (layouts.split + 1e9 * layouts.sizes["ep"])[kept][order]
    _, first = np.unique(split, return_index=True)
    for entry in _entries(layouts, structure, kept, keys, figures, order[first]):
        found.ranking.offer((n, *_axes(entry.layout)), entry)


def _entries(
    layouts: layout_space.LayoutArrays,
    structure: layout_space.DeviceSplit,
    kept: np.ndarray,
    keys: list[np.ndarray],
    figures: list[np.ndarray],
    chosen: np.ndarray,
) -> Iterator[RankedLayout]:
    """The `chosen` of the layouts `kept`, a column at a time: element by element numpy is slow, and a search offers thousands."""
    columns = layouts.sizes if layouts.shard is None else layouts.sizes | {"shard": layouts.shard}
    sizes = zip(*(size[kept[chosen]].astype(int).tolist() for size in columns.values()), strict=True)
    ranked = zip(*(key[chosen].astype(float).tolist() for key in keys), strict=True)
    shown = zip(*(column[chosen].astype(float).tolist() for column in figures), strict=True)
    for row, own, (error, *expected) in zip(sizes, ranked, shown, strict=True):
        layout = _layout(structure, dict(zip(columns, row, strict=True)))
        yield RankedLayout(layout, own, _ties(layout), tuple(expected), error)


def _layout(structure: layout_space.DeviceSplit, sizes: dict[str, int]) -> TrainingLayout:
    return TrainingLayout(
        shard=sizes.pop("shard", None),
        zero=structure.zero,
        recompute=structure.recompute,
        sequence_parallel=structure.parallel,
        placement=structure.placement,
        **sizes,
    )


def _one(layouts: layout_space.LayoutArrays, structure: layout_space.DeviceSplit, i: int) -> TrainingLayout:
    sizes = {k: int(v[i]) for k, v in layouts.sizes.items()}
    return _layout(structure, sizes if layouts.shard is None else sizes | {"shard": int(layouts.shard[i])})
