"""The answer of a training search: the best layouts and why they differ, what was rejected by what, and the nearest miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rooflinecli.core.parallel_map import Spread
from rooflinecli.core.text import percent
from rooflinecli.core.units import duration, si
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import interval_bound
from rooflinecli.engine.extrapolation import size_notes
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.conditions import quantity_of
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.question import (
    NearestMiss,
    Rejected,
    TrainingLayout,
    TrainingRow,
    TrainingSearch,
    WithinUncertainty,
)
from rooflinecli.questions.search.search_request import TrainingSearchQuestion, question
from rooflinecli.questions.search.training import (
    RankedLayout,
    TrainingSearchResult,
    indistinguishable,
    search,
    separating_measurement,
)
from rooflinecli.specs.layout import SIZES
from rooflinecli.specs.request import Request

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
    options: Options, devices: int, bound: str, where: Sequence[str] = (), over: Spread | None = None
) -> FastestLayout:
    """The fastest of every layout at the bound. Raises UsageError for sizes that do not split the devices."""
    asks = question({**options, "n": str(devices), "phase": "train", "hold": bound}, "time", list(where))
    found = search(asks, None, over)
    best = found.ranking.top(1)
    if not best:
        return FastestLayout(found.layouts)
    layout = best[0].layout
    return FastestLayout(found.layouts, layout, estimate(request_of(asks, layout)), command(asks, layout))


def report(question: TrainingSearchQuestion, found: TrainingSearchResult, top: int = 5) -> TrainingSearch:
    """The answer, with the best `top` rows or the whole Pareto front."""
    pareto = len(question.objectives) == 2
    rows = [_row(question, e) for e in (found.front if pareto else found.ranking.top(top))]
    for row in rows[1:] if not pareto else ():
        row.why = why(rows[0], row, question)
    request = question.request
    return TrainingSearch(
        model=request.model.name,
        hardware=request.hardware.name,
        phase="train",
        devices=list(question.devices),
        objective=[o.quantity for o in question.objectives],
        pareto=pareto,
        bound=request.bound,
        where=[c.written for c in question.conditions],
        layouts=found.layouts,
        fit=found.fitting,
        meet=found.meeting,
        rejected=by_count(found.rejected),
        results=rows,
        within_uncertainty=None if pareto or question.every else _within_uncertainty(question, found),
        feasible=bool(rows),
        nearest_miss=None if rows else nearest(question, found),
    )


def by_count(rejected: dict[str, int]) -> list[Rejected]:
    """Constraints by how many layouts they reject, most first."""
    return [{"constraint": k, "layouts": v} for k, v in sorted(rejected.items(), key=lambda kv: -kv[1])]


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
        phase,
        layout=replace(entry.layout, devices=result.layout.devices),
        score=scores,
        score_at_bound=bounds,
        limits_at_bound=limits_at_bound(question, result) or None,
        command=command(question, entry.layout),
        extrapolations=[
            *(phase.extrapolations or ()),
            *size_notes(question.request.hardware.kind, result.layout.devices),
        ],
        usd_per_million_training_tokens=result.cost.usd_per_million_training_tokens,
    )


def limits_at_bound(question: TrainingSearchQuestion, result: EstimateAnswer) -> dict[str, float]:
    """What is compared with the limits of the question, by quantity."""
    return {
        c.quantity: float(c.at_bound(value, result.phases["train"], question.request.bound))
        for c in question.conditions
        if isinstance(value := quantity_of(result, c.quantity), (int, float))
    }


def _within_uncertainty(question: TrainingSearchQuestion, found: TrainingSearchResult) -> WithinUncertainty | None:
    """Layouts within model uncertainty of the best; None where it stands alone."""
    alike = indistinguishable(found.ranking.top(None))
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
        if name == "sequence_parallel":
            words.append("--sequence-parallel" if value else "--no-sequence-parallel")
        elif value is not None and (value != 1 or name in chosen):
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


def why(best: TrainingRow, other: TrainingRow, question: TrainingSearchQuestion) -> str:
    """One sentence: how much worse, and which parts of the step make the difference."""
    name = question.objectives[0].quantity
    own, first = other.score_at_bound[name], best.score_at_bound[name]
    gap = abs(own / first - 1) if first else 0.0
    moved = {
        k: other.breakdown_s.get(k, 0.0) - best.breakdown_s.get(k, 0.0)
        for k in {**best.breakdown_s, **other.breakdown_s}
    }
    largest = sorted((kv for kv in moved.items() if abs(kv[1]) > 1e-3 * best.time_s), key=lambda kv: -abs(kv[1]))[:3]
    parts = (
        ", ".join(f"{'+' if v > 0 else '-'}{duration(abs(v))} {k}" for k, v in largest)
        or "breakdowns equal within 0.1% of the step"
    )
    memory = other.memory.total_bytes - best.memory.total_bytes
    if abs(memory) > 0.02 * best.memory.capacity_bytes:
        parts += f"; {si(abs(memory), 'B')} {'more' if memory > 0 else 'less'} memory"
    bound = {"pessimistic": " at the pessimistic bound", "expected": "", "floor": " at the floor"}[
        question.request.bound
    ]
    return f"{percent(gap)} worse{bound}: {parts}" if gap > 1e-4 else f"equal: {parts}"


def nearest(question: TrainingSearchQuestion, found: TrainingSearchResult) -> NearestMiss | None:
    """The layout that comes closest, and what it lacks."""
    if found.limit_miss is not None:
        layout = found.limit_miss.layout
        result = estimate(request_of(question, layout))
        values = limits_at_bound(question, result)
        lacks = [
            c.missed(value)
            for c in question.conditions
            if isinstance(c.limit, float) and (value := values.get(c.quantity)) is not None and not c.holds(value)
        ]
        return NearestMiss(layout=layout, command=command(question, layout), lacks="; ".join(lacks))
    if found.memory_miss is not None:
        (needed,), (capacity,) = found.memory_miss.keys, found.memory_miss.order
        layout = found.memory_miss.layout
        return NearestMiss(
            layout=layout,
            command=command(question, layout),
            lacks=f"{si(needed - capacity, 'B')} of memory per device: it needs {si(needed, 'B')} of {si(capacity, 'B')}",
        )
    return None
