"""Exact search over training layouts: structure loops, sizes are arrays, memory first, time for what fits; and its answer: the best layouts
and why they differ, what was rejected by what, and the nearest miss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import cast

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.text import percent
from rooflinecli.core.units import duration, si
from rooflinecli.engine import extrapolation, layout_space, legality, option_conflicts, residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as engine_answer
from rooflinecli.engine.evaluate import interval_bound
from rooflinecli.engine.layout_space import LayoutArrays
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.conditions import quantity_of
from rooflinecli.questions.estimate.answer import cost, estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import search_request
from rooflinecli.questions.search.question import (
    NearestMiss,
    Rejected,
    TrainingLayout,
    TrainingRow,
    TrainingSearch,
    WithinUncertainty,
)
from rooflinecli.questions.search.search_request import TrainingSearchQuestion
from rooflinecli.questions.sweep.run import SweepBlock, pick
from rooflinecli.specs.layout import AXES, SIZES
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import Request

_AXES = ("tp", "dp", "ep", "cp", "pp")
Progress = Callable[[int, int], None]  # layouts that are done, of all


@dataclass
class RankedLayout:
    """A layout, its objectives at the bound that ranks (less is better), and the order between equals: expected values, then sizes.

    expected: the objectives' expected values; error: the relative error of its communication, which other layouts do not share.
    """

    layout: TrainingLayout
    keys: tuple[float, ...]
    order: tuple[float, ...]
    expected: tuple[float, ...] = ()
    error: float = 0.0

    @property
    def rank(self) -> tuple[object, ...]:
        """What it is sorted by: bounds that differ by rounding alone are equal."""
        return *map(num.single, self.keys), *self.order

    @property
    def simplicity(self) -> tuple[object, ...]:
        """Fewer techniques first, then smaller groups, then the order of the ranking."""
        layout = self.layout
        axes = (layout.tp, layout.pp, layout.cp, layout.virtual_stages)
        techniques = (layout.zero > 1, layout.shard is not None, layout.recompute != "none")
        return sum(size > 1 for size in axes) + sum(techniques), math.prod(axes), layout.ep, self.keys


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
    rejected: Counter[str] = field(default_factory=Counter)
    # the best of each split of the devices
    ranking: dict[tuple[object, ...], RankedLayout] = field(default_factory=dict)
    front: list[RankedLayout] = field(default_factory=list)  # of two objectives: those that none beats in both
    memory_miss: RankedLayout | None = None
    limit_miss: RankedLayout | None = None
    interrupted: bool = False

    def offer(self, split: tuple[object, ...], entry: RankedLayout) -> None:
        """Take a layout in where it is the best of its split."""
        best = self.ranking.get(split)
        if best is None or entry.rank < best.rank:
            self.ranking[split] = entry

    def top(self, count: int | None) -> list[RankedLayout]:
        """The best `count`, all of them for None."""
        return sorted(self.ranking.values(), key=attrgetter("rank"))[:count]

    def merge(self, part: TrainingSearchResult) -> None:
        """Take in what was seen elsewhere; parts in their order give what one search would have seen."""
        self.layouts += part.layouts
        self.fitting += part.fitting
        self.meeting += part.meeting
        self.rejected.update(part.rejected)
        for split, entry in part.ranking.items():
            self.offer(split, entry)
        if part.front:
            both = [*self.front, *part.front]
            self.front = [both[i] for i in frontier(*np.array([entry.keys for entry in both]).T)]
        for name in ("memory_miss", "limit_miss"):
            mine, other = getattr(self, name), getattr(part, name)
            if other is not None and (mine is None or other.keys < mine.keys):
                setattr(self, name, other)


def search(question: TrainingSearchQuestion, progress: Progress | None = None, workers: Workers | None = None) -> TrainingSearchResult:  # fmt: skip
    """Look at every legal layout on every device count asked for. `progress(done, total)` is called as they are; `workers` share the work."""
    ctx, found = EstimateContext(question.request), TrainingSearchResult()
    option_conflicts.check(EstimateContext(question.pinned))
    legality.check(ctx)
    if not question.devices:
        raise UsageError("a training search requires -n (one or several counts, for example -n 512,1024)")
    per_device = {n: layout_space.layouts(ctx, question, n) for n in question.devices}
    structures = list(layout_space.structures(question))
    work = [
        (one, s, layout_space.affected_axes(ctx, one, question, s, found.rejected))
        for one in per_device.values()
        for s in structures
    ]
    total = sum(len(chosen) for *_, chosen in work)
    for offered in per_device.values():
        for why, count in offered.rejected.items():
            found.rejected[why] += count * sum(not s.domains for s in structures)
    if not total and not found.rejected.total():
        counts = " or ".join(f"{n:,}" for n in question.devices)
        raise UsageError(f"no split of {counts} devices has the sizes given; free one of them, or change -n", "n")
    items = (
        offered.take(chosen[start : start + CHUNK]).laid(ctx, structure)
        for offered, structure, chosen in work
        for start in range(0, len(chosen), CHUNK)
    )
    one = partial(_searched, question, ctx if workers is None else None)  # another process makes its own context
    try:
        for part in (workers or map)(one, items):
            found.merge(part)
            if question.every:
                found.ranking = {_all(entry.layout): entry for entry in found.top(MOST_ROWS)}
            if progress:
                progress(part.layouts, total)
    except KeyboardInterrupt:  # the best so far is an answer, where there is one
        if not found.meeting:
            raise
        found.interrupted = True
    return found


def _searched(question: TrainingSearchQuestion, ctx: EstimateContext | None, layouts: LayoutArrays) -> TrainingSearchResult:  # fmt: skip
    """What one run of layouts comes to, by itself."""
    ctx = ctx or EstimateContext(question.request)
    found = TrainingSearchResult(layouts=len(layouts))
    with np.errstate(all="ignore"):
        needed, capacity = needs(ctx, layouts), ctx.chip.capacity
        fits = needed <= capacity
        if not fits.all():
            found.rejected["memory"] += int(len(fits) - fits.sum())
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
            found.rejected["precedent (--precedent-only)"] += int(len(alike) - alike.sum())
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


def _meet(found: TrainingSearchResult, question: TrainingSearchQuestion, answer: SweepBlock, layouts: LayoutArrays) -> np.ndarray:  # fmt: skip
    """Where every condition holds; counts what each one rejects and keeps the nearest miss."""
    keep = np.ones(len(layouts), dtype=bool)
    worst = np.zeros(len(layouts))
    for condition in question.conditions:
        value = picked(answer, condition.quantity, f"--where {condition.written!r}")
        values = answer.flat(condition.at_bound(value, answer.phases["train"], question.request.bound))
        holds = condition.holds(values)
        found.rejected[condition.written] += int(len(holds) - holds.sum())
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


def _rank(found: TrainingSearchResult, question: TrainingSearchQuestion, answer: SweepBlock, layouts: LayoutArrays, kept: np.ndarray) -> None:  # fmt: skip
    """Offer the best of each split to the ranking, and the front's points to the front."""
    phase, bound, objectives = answer.phases["train"], question.request.bound, question.objectives
    values = [picked(answer, o.quantity, f"--objective {o.name}") for o in objectives]
    ends = [interval_bound(v, o.quantity, phase, bound, o.sign > 0) for o, v in zip(objectives, values, strict=True)]
    keys = [o.key(answer.flat(v))[kept] for o, v in zip(objectives, ends, strict=True)]
    figures = [answer.flat(v)[kept] for v in (cast(TrainAnswer, phase).communication_error_fraction, *values)]

    def entries(chosen: np.ndarray) -> Iterator[RankedLayout]:
        ranked = zip(*(key[chosen].astype(float).tolist() for key in keys), strict=True)
        shown = zip(*(column[chosen].astype(float).tolist() for column in figures), strict=True)
        for row, own, (error, *expected) in zip(layouts.rows(kept[chosen]), ranked, shown, strict=True):
            layout = TrainingLayout(**row)
            order = (*(o.key(value) for o, value in zip(objectives, expected, strict=True)), *_ties(layout))
            yield RankedLayout(layout, own, order, tuple(expected), error)

    if len(keys) == 2:
        found.front = list(entries(frontier(keys[0], keys[1])))
    equals = [o.key(value) for o, value in zip(objectives, figures[1:], strict=True)]
    equals += [layouts.sizes[name][kept] for name in _TIES]
    order = np.lexsort([*map(num.single, keys), *equals][::-1])
    if question.every:
        for entry in entries(order[:MOST_ROWS]):
            found.offer(_all(entry.layout), entry)
        return
    split = (layouts.split + 1e9 * layouts.sizes["ep"])[kept][order]
    _, first = np.unique(split, return_index=True)
    for entry in entries(order[first]):
        found.offer(_axes(entry.layout), entry)


_FLAGS = ("tp", "pp", "cp", "dp", "ep", "zero", "shard", "micro_batch", "virtual_stages", "sequence_parallel", "recompute", "placement")  # fmt: skip


def request_of(question: TrainingSearchQuestion, layout: TrainingLayout) -> Request:
    """The question with its layout filled in: what `estimate` answers for a row."""
    sizes: dict[str, float] = {k: float(layout[k]) for k in SIZES}
    return replace(
        question.request,
        devices=float(layout.ranks),
        zero=layout.zero,
        recompute=layout.recompute,
        sequence_parallel=layout.sequence_parallel,
        placement=layout.placement or question.request.placement,
        shard=question.request.shard if layout.shard is None else float(layout.shard),
        **sizes,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class FastestLayout:
    """The layout of the fastest step on a number of devices, its estimate, and the options of its command; None where nothing fits.

    legal: layouts that were looked at.
    """

    legal: int = 0
    layout: TrainingLayout | None = None
    estimate: EstimateAnswer | None = None
    command: str = ""


def fastest_layout(
    options: Options, devices: int, bound: str, where: Sequence[str] = (), workers: Workers | None = None, progress: Progress | None = None
) -> FastestLayout:  # fmt: skip
    """The fastest of every layout at the bound. Raises UsageError for sizes that do not split the devices."""
    asks = search_request.question({**options, "n": str(devices), "phase": "train", "bound": bound}, "time", list(where))  # fmt: skip
    found = search(asks, progress, workers)
    best = found.top(1)
    if not best:
        return FastestLayout(found.layouts)
    layout = best[0].layout
    return FastestLayout(found.layouts, layout, estimate(request_of(asks, layout)), command(asks, layout))


def report(question: TrainingSearchQuestion, found: TrainingSearchResult, top: int = 5) -> TrainingSearch:
    """The answer, with the best `top` rows or the whole Pareto front."""
    pareto = len(question.objectives) == 2
    rows = [_row(question, e) for e in (found.front if pareto else found.top(top))]
    for row in rows[1:] if not pareto else ():
        row.why = why(rows[0], row, question)
    request = question.request
    return TrainingSearch(
        model=request.model.name, hardware=request.hardware.name, phase="train", devices=list(question.devices),
        objective=[o.quantity for o in question.objectives], pareto=pareto, bound=request.bound,
        where=[c.written for c in question.conditions], layouts=found.layouts, fit=found.fitting, meet=found.meeting,
        rejected=by_count(found.rejected), results=rows,
        within_uncertainty=None if pareto or question.every else _within_uncertainty(question, found), feasible=bool(rows),
        nearest_miss=None if rows else nearest(question, found), interrupted=found.interrupted,
    )  # fmt: skip


def by_count(rejected: dict[str, int]) -> list[Rejected]:
    """Constraints by how many layouts they reject, most first."""
    return [{"constraint": k, "layouts": v} for k, v in sorted(rejected.items(), key=lambda kv: -kv[1]) if v]


def _row(question: TrainingSearchQuestion, entry: RankedLayout) -> TrainingRow:
    result = estimate(request_of(question, entry.layout))
    phase = result.phases["train"]
    assert isinstance(phase, TrainAnswer)
    scores, bounds = dict[str, float](), dict[str, float]()
    for o, key, value in zip(question.objectives, entry.keys, entry.expected, strict=True):
        one = quantity_of(result, o.quantity)  # the scalar's last digit, which is what the command prints
        known = isinstance(one, float)
        bound = interval_bound(one, o.quantity, phase, question.request.bound, o.sign > 0)
        scores[o.quantity], bounds[o.quantity] = one if known else value, float(bound) if known else o.sign * key
    return TrainingRow.like(
        phase, layout=replace(entry.layout, devices=result.layout.devices), score=scores, score_at_bound=bounds,
        limits_at_bound=limits_at_bound(question, result) or None, command=command(question, entry.layout),
        extrapolations=[*(phase.extrapolations or ()), *extrapolation.size_notes(question.request.hardware.kind, result.layout.devices)],
        usd_per_million_training_tokens=result.cost.usd_per_million_training_tokens,
    )  # fmt: skip


def limits_at_bound(question: TrainingSearchQuestion, result: EstimateAnswer) -> dict[str, float]:
    """What is compared with the limits of the question, by quantity."""
    return {
        c.quantity: float(c.at_bound(value, result.phases["train"], question.request.bound))
        for c in question.conditions
        if isinstance(value := quantity_of(result, c.quantity), (int, float))
    }


def _within_uncertainty(question: TrainingSearchQuestion, found: TrainingSearchResult) -> WithinUncertainty | None:
    """Layouts within model uncertainty of the best; None where it stands alone."""
    alike = indistinguishable(found.top(None))
    if len(alike) < 2:
        return None
    simplest = min(alike, key=lambda entry: entry.simplicity)
    first, simple = (estimate(request_of(question, entry.layout)) for entry in (alike[0], simplest))
    steps = [result.phases["train"] for result in (first, simple)]
    assert isinstance(steps[0], TrainAnswer) and isinstance(steps[1], TrainAnswer)
    return WithinUncertainty(
        layouts=len(alike),
        simplest=replace(simplest.layout, devices=int(simple.layout.devices)),
        command=command(question, simplest.layout),
        separates=separating_measurement(steps[0], steps[1], simplest is alike[0]),
    )


def command(question: TrainingSearchQuestion, layout: TrainingLayout) -> str:
    """The `roofline estimate` options that reproduce a layout."""
    words = [f"-n {layout.ranks}"]
    mixture = any(group.moe for group in EstimateContext(question.request).ledger.layers)
    chosen = ("tp", "pp", "dp", "zero", "micro_batch", *(("ep",) if mixture else ()))  # by the estimate where left out
    for name in _FLAGS:
        value = getattr(layout, name)
        shown = layout.tp > 1 or value if name == "sequence_parallel" else value is not None and value != 1
        if shown or name in chosen:
            words += OPTIONS[name.replace("_", "-")].words(value)
    return " ".join(words)


def why(best: TrainingRow, other: TrainingRow, question: TrainingSearchQuestion) -> str:
    """One sentence: how much worse, and which parts of the step make the difference."""
    name = question.objectives[0].quantity
    own, first = other.score_at_bound[name], best.score_at_bound[name]
    gap = abs(own / first - 1) if first else 0.0
    moved = {k: other.breakdown_s.get(k, 0.0) - best.breakdown_s.get(k, 0.0) for k in {**best.breakdown_s, **other.breakdown_s}}  # fmt: skip
    largest = sorted((kv for kv in moved.items() if abs(kv[1]) > 1e-3 * best.time_s), key=lambda kv: -abs(kv[1]))[:3]
    parts = (
        ", ".join(f"{'+' if v > 0 else '-'}{duration(abs(v))} {k}" for k, v in largest)
        or "breakdowns equal within 0.1% of the step"
    )
    memory = other.memory.total_bytes - best.memory.total_bytes
    if abs(memory) > 0.02 * best.memory.capacity_bytes:
        parts += f"; {si(abs(memory), 'B')} {'more' if memory > 0 else 'less'} memory"
    bound = {"pessimistic": " at the pessimistic bound", "expected": "", "floor": " at the floor"}[question.request.bound]  # fmt: skip
    return f"{percent(gap)} worse{bound}: {parts}" if gap > 1e-4 else f"equal: {parts}"


def nearest(question: TrainingSearchQuestion, found: TrainingSearchResult) -> NearestMiss | None:
    """The layout that comes closest, and what it lacks."""
    if found.limit_miss is not None:
        layout = found.limit_miss.layout
        values = limits_at_bound(question, estimate(request_of(question, layout)))
        lacks = [
            c.missed(value)
            for c in question.conditions
            if isinstance(c.limit, float) and (value := values.get(c.quantity)) is not None and not c.holds(value)
        ]
        return NearestMiss(layout=layout, command=command(question, layout), shortfall="; ".join(lacks))
    if found.memory_miss is not None:
        (needed,), (capacity,) = found.memory_miss.keys, found.memory_miss.order
        layout = found.memory_miss.layout
        short = f"memory: it needs {si(needed, 'B')} per device of {si(capacity, 'B')}"
        return NearestMiss(layout=layout, command=command(question, layout), shortfall=short)
    return None
