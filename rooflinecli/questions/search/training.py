"""Exact search over training layouts: structure loops, sizes are arrays, memory first, time for what fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import cast

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Spread
from rooflinecli.core.units import duration
from rooflinecli.engine import extrapolation, layout_space, legality, option_conflicts, residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as engine_answer
from rooflinecli.engine.evaluate import interval_bound
from rooflinecli.engine.layout_space import LayoutArrays
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.estimate.answer import cost
from rooflinecli.questions.search.question import TrainingLayout
from rooflinecli.questions.search.search_request import TrainingSearchQuestion
from rooflinecli.questions.sweep.run import SweepBlock, pick
from rooflinecli.specs.layout import AXES

_AXES = ("tp", "dp", "ep", "cp", "pp")


@dataclass
class RankedLayout:
    """A layout, its objectives at the bound that ranks (less is better), and the order between equals.

    expected: the objectives' expected values; error: the relative error of its communication, which other layouts do not share.
    """

    layout: TrainingLayout
    keys: tuple[float, ...]
    order: tuple[float, ...]
    expected: tuple[float, ...] = ()
    error: float = 0.0

    @property
    def simplicity(self) -> tuple[object, ...]:
        """Fewer techniques first, then smaller groups, then the order of the ranking."""
        layout = self.layout
        axes = (layout.tp, layout.pp, layout.cp, layout.virtual_stages)
        techniques = (layout.zero > 1, layout.shard is not None, layout.recompute != "none")
        return sum(size > 1 for size in axes) + sum(techniques), math.prod(axes), layout.ep, self.keys


@dataclass
class Ranking:
    """The best layout per device split; ties go to the smaller `order`."""

    entries: dict[tuple[object, ...], RankedLayout] = field(default_factory=dict)

    def offer(self, split: tuple[object, ...], entry: RankedLayout) -> None:
        """Take a layout in where it is the best of its split."""
        best = self.entries.get(split)
        if best is None or (entry.keys, entry.order) < (best.keys, best.order):
            self.entries[split] = entry

    def top(self, count: int | None) -> list[RankedLayout]:
        """The best `most`, all of them for None."""
        return sorted(self.entries.values(), key=lambda e: (e.keys, e.order))[:count]

    def keep(self, count: int) -> None:
        """Forget all but the best `most`."""
        if len(self.entries) > count:
            order = sorted(self.entries.items(), key=lambda item: (item[1].keys, item[1].order))
            self.entries = dict(order[:count])


def frontier(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Indices of points not dominated (both minimized), by rising `first`."""
    order = np.lexsort([second, first])
    best = np.minimum.accumulate(np.concatenate([[np.inf], second[order][:-1]]))
    return order[second[order] < best]


def indistinguishable(ranked: list[RankedLayout]) -> list[RankedLayout]:
    """The best and those within model uncertainty of it, in their order.

    Layouts of one model on one chip share most of their error, which cancels between them; that of their communication,
    exposed or not, does not. Two are within it when the bounds that rank differ by no more than that, so one that no published
    run supports is among them only where it is good enough in spite of it.
    """

    def same(other: RankedLayout) -> bool:
        a, b = abs(ranked[0].keys[0]), abs(other.keys[0])
        if a <= 0 or b <= 0 or not math.isfinite(a * b):
            return a == b
        return abs(math.log(b / a)) <= math.hypot(ranked[0].error, other.error)

    return [entry for entry in ranked if entry is ranked[0] or same(entry)]


def separating_measurement(best: TrainAnswer, simplest: TrainAnswer, same: bool) -> str:
    """What to measure, since the model cannot say which is faster."""
    if same:
        return "one measured step of each; the difference is below the model's uncertainty"

    def spent(answer: TrainAnswer, axis: str) -> float:
        return float(answer.communication_s.get(axis, 0.0) + answer.hidden_s.get(axis, 0.0))

    axis = max(_AXES, key=lambda axis: abs(spent(best, axis) - spent(simplest, axis)))
    one, other = spent(best, axis), spent(simplest, axis)
    return (
        f"they differ most in {axis} communication ({duration(one)} vs {duration(other)}, exposed or not); "
        f"`roofline measure collectives` on these links, or one measured step of each, would resolve it"
    )


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
    front: list[RankedLayout] = field(default_factory=list)  # of two objectives: those that none beats in both
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
        if part.front:
            both = [*self.front, *part.front]
            self.front = [both[i] for i in frontier(*np.array([entry.keys for entry in both]).T)]
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
    work = [
        (one, s, layout_space.affected_axes(ctx, one, question, s)) for one in per_device.values() for s in structures
    ]
    total = sum(len(chosen) for *_, chosen in work)
    for offered in per_device.values():
        for why, count in offered.rejected.items():
            found.reject(why, count * sum(not s.domains for s in structures))
    if not total and not found.rejected:
        counts = " or ".join(f"{n:,}" for n in question.devices)
        raise UsageError(f"no split of {counts} devices has the sizes given; free one of them, or change -n", "n")
    items = (
        offered.take(chosen[start : start + CHUNK]).laid(ctx, structure)
        for offered, structure, chosen in work
        for start in range(0, len(chosen), CHUNK)
    )
    # another process makes its own context
    parts = (
        map(partial(_searched, question, ctx), items)
        if over is None
        else over(partial(_searched, question, None), items)
    )
    for part in parts:
        found.merge(part)
        if question.every:
            found.ranking.keep(MOST_ROWS)
        if tell:
            tell(part.layouts, total)
    return found


def _searched(
    question: TrainingSearchQuestion, ctx: EstimateContext | None, layouts: LayoutArrays
) -> TrainingSearchResult:
    """What one run of layouts comes to, by itself."""
    ctx = ctx or EstimateContext(question.request)
    found = TrainingSearchResult(layouts=len(layouts))
    with np.errstate(all="ignore"):
        needed, capacity = needs(ctx, layouts), ctx.chip.capacity
        fits = needed <= capacity
        if not fits.all():
            found.reject("memory", int(len(fits) - fits.sum()))
            found.memory_miss = _least(layouts, np.where(needed > capacity, needed, np.inf), float(capacity))
        fitting = layouts.take(np.flatnonzero(fits))
        if not len(fitting):
            return found
        found.fitting = len(fitting)
        answer = answer_of(ctx, fitting)
        keep = _meet(found, question, answer, fitting)
        if question.has_precedent:
            train = cast(TrainAnswer, answer.phases["train"])
            alike = answer.flat(extrapolation.has_precedent(ctx, fitting.plan(ctx.request), train))
            found.reject("precedent (--precedent-only)", int(len(alike) - alike.sum()))
            keep = keep & alike
        found.meeting = int(keep.sum())
        if found.meeting:
            _rank(found, question, answer, fitting, np.flatnonzero(keep))
    return found


def _least(layouts: LayoutArrays, by: np.ndarray, *order: float) -> RankedLayout:
    """The layout that has the least of something."""
    i = int(np.argmin(by))
    return RankedLayout(TrainingLayout(**next(layouts.rows(np.array([i])))), (float(by[i]),), order)


def needs(ctx: EstimateContext, layouts: LayoutArrays) -> np.ndarray:
    """Bytes on the fullest device of every layout."""
    held = residency.resident_memory(ctx, layouts.plan(ctx.request), "train").total_bytes
    return np.broadcast_to(held, (len(layouts),))


def answer_of(ctx: EstimateContext, layouts: LayoutArrays) -> SweepBlock:
    """`estimate` of every layout, as arrays."""
    plan = layouts.plan(ctx.request)
    phases = {"train": engine_answer(ctx, plan, "train")}
    bill = cost(ctx, phases, {"train": plan})
    return SweepBlock(phases, {"devices": plan.devices, **layouts.sizes}, bill, [], [], (len(layouts),), (0,), {}, {})


def _meet(
    found: TrainingSearchResult, question: TrainingSearchQuestion, answer: SweepBlock, layouts: LayoutArrays
) -> np.ndarray:
    """Where every condition holds; counts what each one rejects and keeps the nearest miss."""
    keep = np.ones(len(layouts), dtype=bool)
    worst = np.zeros(len(layouts))
    for condition in question.conditions:
        value = picked(answer, condition.quantity, f"--where {condition.written!r}")
        values = answer.flat(condition.at_bound(value, answer.phases["train"], question.request.bound))
        holds = condition.holds(values)
        found.reject(condition.written, int(len(holds) - holds.sum()))
        keep &= holds
        if isinstance(condition.limit, float):
            worst = np.maximum(worst, np.where(holds, 0.0, condition.shortfall(values)))
    if question.conditions and not keep.all():
        i = int(np.argmin(np.where(keep, np.inf, worst)))
        found.limit_miss = _least(layouts.take(np.array([i])), worst[[i]])
    return keep


def picked(answer: SweepBlock, quantity: str, flag: str) -> Number:
    """A quantity of every layout. Raises UsageError where there is none."""
    value = pick(answer, quantity)
    if value is np.nan:
        why = f"no quantity '{quantity}' here; `roofline estimate --format json` shows what there is"
        raise UsageError(f"{flag}: {why}")
    return value


def _rank(
    found: TrainingSearchResult,
    question: TrainingSearchQuestion,
    answer: SweepBlock,
    layouts: LayoutArrays,
    kept: np.ndarray,
) -> None:
    """Offer the best of each split to the ranking, and the front's points to the front."""
    phase, hold, objectives = answer.phases["train"], question.request.bound, question.objectives
    values = [picked(answer, o.quantity, f"--objective {o.name}") for o in objectives]
    ends = [interval_bound(v, o.quantity, phase, hold, o.sign > 0) for o, v in zip(objectives, values, strict=True)]
    keys = [o.key(answer.flat(v))[kept] for o, v in zip(objectives, ends, strict=True)]
    figures = [answer.flat(v)[kept] for v in (cast(TrainAnswer, phase).communication_error_fraction, *values)]

    def entries(chosen: np.ndarray) -> Iterator[RankedLayout]:
        ranked = zip(*(key[chosen].astype(float).tolist() for key in keys), strict=True)
        shown = zip(*(column[chosen].astype(float).tolist() for column in figures), strict=True)
        for row, own, (error, *expected) in zip(layouts.rows(kept[chosen]), ranked, shown, strict=True):
            layout = TrainingLayout(**row)
            yield RankedLayout(layout, own, _ties(layout), tuple(expected), error)

    if len(keys) == 2:
        found.front = list(entries(frontier(keys[0], keys[1])))
    order = np.lexsort([*(layouts.sizes[name][kept] for name in reversed(_TIES)), *reversed(keys)])
    if question.every:
        for entry in entries(order[:MOST_ROWS]):
            found.ranking.offer(_all(entry.layout), entry)
        return
    split = (layouts.split + 1e9 * layouts.sizes["ep"])[kept][order]
    _, first = np.unique(split, return_index=True)
    for entry in entries(order[first]):
        found.ranking.offer(_axes(entry.layout), entry)
