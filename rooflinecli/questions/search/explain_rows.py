"""What a search says: the winner and runners-up with why they differ, what was rejected by what, and the nearest miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflinecli.core.record import plain
from rooflinecli.core.text import percent
from rooflinecli.core.units import duration, si
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.interval_bound import interval_bound
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search import ties
from rooflinecli.questions.search.ranking import RankedLayout
from rooflinecli.questions.search.training import TrainingSearchResult
from rooflinecli.questions.search.training_question import TrainingSearchQuestion
from rooflinecli.questions.sweep.conditions import quantity_of
from rooflinecli.specs.layout import SIZES
from rooflinecli.specs.quantities import COST

SCHEMA = "roofline/search/2"
_FLAGS = (
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "zero",
    "shard",
    "micro_batch",
    "virtual_stages",
    "sequence_parallel",
    "recompute",
)


def request_of(question: TrainingSearchQuestion, layout: dict[str, Any]) -> Any:
    """The question with its layout filled in: what `estimate` is asked about a winner."""
    sizes: dict[str, Any] = {k: float(layout[k]) for k in SIZES}
    devices = float(layout["tp"] * layout["pp"] * layout["cp"] * layout["dp"])
    return replace(
        question.request,
        devices=devices,
        zero=layout["zero"],
        recompute=layout["recompute"],
        sequence_parallel=layout["sequence_parallel"],
        shard=question.request.shard if layout["shard"] is None else float(layout["shard"]),
        **sizes,
    )


def report(question: TrainingSearchQuestion, found: TrainingSearchResult, top: int = 5) -> dict[str, Any]:
    """The answer as one object, SI, the unit in the key."""
    pareto = len(question.objectives) == 2
    entries = found.front.top(top) if pareto else found.ranking.top(top)
    rows = [_row(question, e) for e in entries]
    tied = [] if pareto or question.every else ties.indistinguishable(found.ranking.top(None))
    if rows and not pareto:
        for row in rows[1:]:
            row["why"] = why(rows[0], row, question)
    request = question.request
    return {
        "schema": SCHEMA,
        "model": request.model.name,
        "hardware": request.hardware.name,
        "phase": question.phase,
        "devices": list(question.devices),
        "objective": [o.quantity for o in question.objectives],
        "pareto": pareto,
        "hold": request.hold,
        "where": [c.text for c in question.conditions],
        "layouts": found.layouts,
        "fit": found.fitting,
        "meet": found.meeting,
        "rejected": [{"constraint": k, "layouts": v} for k, v in sorted(found.rejected.items(), key=lambda kv: -kv[1])],
        "results": rows,
        "tied": _tied(question, tied),
        "feasible": bool(rows),
        "nearest_miss": None if rows else nearest(question, found),
    }


def _row(question: TrainingSearchQuestion, entry: RankedLayout) -> dict[str, Any]:
    result = estimate(request_of(question, entry.layout))
    phase = plain(result.phases["train"])
    scores, ends = {}, {}
    for o, key, value in zip(question.objectives, entry.keys, entry.expected, strict=True):
        one = quantity_of(result, o.quantity)  # the scalar's last digit, which is what the command prints
        scores[o.quantity] = one if isinstance(one, float) else value
        end = interval_bound(one, o.quantity, result.phases["train"], question.request.hold, o.sign > 0)
        ends[o.quantity] = float(end) if isinstance(one, float) else o.sign * key
    kept = (
        "time_s",
        "floor_s",
        "interval_s",
        "tokens_per_s",
        "mfu",
        "hfu",
        "bubble_fraction",
        "breakdown_s",
        "communication_s",
        "memory",
    )
    return {
        "layout": {"devices": result.layout.devices, **entry.layout},
        "score": scores,
        "held": ends,
        "command": command(question, entry.layout),
        **{k: phase[k] for k in kept},
        "bound": phase["bottleneck"],
        "unsupported": phase.get("extrapolations", []),
        COST["train"]: result.cost.usd_per_million_training_tokens,
    }


def _tied(question: TrainingSearchQuestion, alike: list[RankedLayout]) -> dict[str, Any] | None:
    """Layouts that cannot be told from the first: how many, the simplest of them, what would settle it. None where it stands alone."""
    if len(alike) < 2:
        return None
    plainest = min(alike, key=ties.simplicity)
    first, simple = (estimate(request_of(question, entry.layout)) for entry in (alike[0], plainest))
    devices = int(simple.layout.devices)
    return {
        "layouts": len(alike),
        "simplest": {"devices": devices, **plainest.layout},
        "command": command(question, plainest.layout),
        "separates": ties.separating_measurement(first.phases["train"], simple.phases["train"], plainest is alike[0]),
    }


def command(question: TrainingSearchQuestion, layout: dict[str, Any]) -> str:
    """The `roofline estimate` options that reproduce a layout."""
    devices = layout["tp"] * layout["pp"] * layout["cp"] * layout["dp"]
    words = [f"-n {devices}"]
    mixture = any(group.moe for group in EstimateContext(question.request).ledger.layers)
    chosen = ("tp", "pp", "dp", "zero", "micro_batch", *(("ep",) if mixture else ()))  # by the estimate where left out
    for name in _FLAGS:
        value = layout[name]
        if name == "sequence_parallel":
            words.append("--sequence-parallel" if value else "--no-sequence-parallel")
        elif value is not None and (value != 1 or name in chosen):
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


def why(best: dict[str, Any], other: dict[str, Any], question: TrainingSearchQuestion) -> str:
    """One sentence: how far behind, and which parts of the step make the difference."""
    name = question.objectives[0].quantity
    gap = abs(other["held"][name] / best["held"][name] - 1) if best["held"][name] else 0.0
    parts = {
        k: other["breakdown_s"].get(k, 0.0) - best["breakdown_s"].get(k, 0.0)
        for k in {**best["breakdown_s"], **other["breakdown_s"]}
    }
    moved = sorted(((k, v) for k, v in parts.items() if abs(v) > 1e-3 * best["time_s"]), key=lambda kv: -abs(kv[1]))[:3]
    says = (
        ", ".join(f"{'+' if v > 0 else '-'}{duration(abs(v))} {k}" for k, v in moved)
        or "the same parts within 0.1 % of the step"
    )
    memory = other["memory"]["total_bytes"] - best["memory"]["total_bytes"]
    room = (
        f"; {si(abs(memory), 'B')} {'more' if memory > 0 else 'less'} memory"
        if abs(memory) > 0.02 * best["memory"]["capacity_bytes"]
        else ""
    )
    end = {"pessimistic": " at the pessimistic end", "expected": "", "floor": " at the floor"}[question.request.hold]
    return f"{percent(gap)} behind{end}: {says}{room}" if gap > 1e-4 else f"as good: {says}{room}"


def nearest(question: TrainingSearchQuestion, found: TrainingSearchResult) -> dict[str, Any] | None:
    """The layout that comes closest, and what it lacks."""
    if found.limit_miss is not None:
        layout = found.limit_miss.layout
        result = estimate(request_of(question, layout))
        lacks = [
            c.missed(value)
            for c in question.conditions
            if isinstance(value := quantity_of(result, c.quantity), float)
            and isinstance(c.value, float)
            and not c.holds(value)
        ]
        return {"layout": layout, "command": command(question, layout), "lacks": "; ".join(lacks)}
    if found.memory_miss is not None:
        needed, capacity = found.memory_miss.keys[0], found.memory_miss.order[0]
        layout = found.memory_miss.layout
        return {
            "layout": layout,
            "command": command(question, layout),
            "lacks": f"{si(needed - capacity, 'B')} of memory per device: it needs {si(needed, 'B')} of {si(capacity, 'B')}",
        }
    return None
