"""Serving search: instances, their layout and batch under latency limits, together or with prefill and decode pools apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.record import MISSING, at, entries
from rooflinecli.core.text import percent, plural
from rooflinecli.core.units import duration, si
from rooflinecli.engine import legality, option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.interval_bound import interval_bound
from rooflinecli.formulas import capacity
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.search import disaggregated, instances
from rooflinecli.questions.search.objective import Objective
from rooflinecli.questions.search.ranking import frontier
from rooflinecli.questions.search.serving_question import ServingSearchQuestion, asked
from rooflinecli.specs.quantities import COST

SCHEMA = "roofline/search/2"
SAME = 1e-4  # a share by which two rows differ that says nothing


def search(
    options: dict[str, Any], goal: str | None, where: list[str], limits: dict[str, str | None], top: int
) -> dict[str, Any]:
    """The report of a serving search, SI, the unit in the key."""
    question = asked(options, goal, where, limits)
    ctx = EstimateContext(question.request)
    option_conflicts.require_decode(
        ctx,
        "a serving search has nothing to rank; `roofline sweep` varies --tp and --batch, and --phase train searches",
    )
    option_conflicts.check(ctx)
    legality.check(ctx)
    most = int(min(question.devices or instances.LARGEST_INSTANCE, instances.LARGEST_INSTANCE))
    found = instances.layouts(ctx, question.open, most)
    if not found:
        raise UsageError("no instance has the sizes given; free --tp, --pp or --ep, or raise -n")
    batches = np.array(question.batches, dtype=np.float64)
    grid = instances.evaluate(question.request, found, batches, apart=False)
    serve = fleet(ctx, question, grid)
    keep, rejected, worst = weigh(question, grid, serve)
    rows = _best(question, grid, serve, keep, top)
    request = question.request
    apart = disaggregated.ranked(question, [disaggregated.offered(options, ctx, question, found, batches)], top)
    return {
        "schema": SCHEMA,
        "model": request.model.name,
        "hardware": request.hardware.name,
        "phase": "serve",
        "pareto": len(question.objectives) == 2 and question.qps is None,
        "objective": [o.quantity for o in question.objectives],
        "hold": request.hold,
        "where": [c.text for c in question.conditions],
        "devices": question.devices,
        "qps": question.qps,
        "layouts": int(grid.legal.sum()),
        "fit": int((grid.legal & grid.fits).sum()),
        "meet": int(keep.sum()),
        "rejected": rejected,
        "results": rows,
        "feasible": bool(rows),
        "pools": apart[0] if apart else None,
        "pool_rows": apart,
        "nearest_miss": None if rows else nearest(question, grid, serve, worst),
    }


def fleet(ctx: EstimateContext, question: ServingSearchQuestion, grid: instances.InstanceGrid) -> dict[str, np.ndarray]:
    """What all instances offer together, for every instance layout and batch."""
    one = grid.serve
    with np.errstate(all="ignore"):
        if question.qps is not None:
            count = capacity.instances_for_rate(question.qps, one["decode_requests_per_s"])
        elif question.devices is not None:
            count = capacity.whole_instances(question.devices, one["instance_devices"])
        else:
            count = grid.whole(1.0)
        result = together(one, count, grid.batches)
        result |= instances.costs(ctx, result["devices"], result["tokens_per_s"])
    return {k: grid.whole(v) for k, v in result.items()}


def together(one: Mapping[str, Number], count: Number, batch: Number) -> dict[str, Number]:
    """What `count` instances offer, and each of them."""
    devices, tokens = count * one["instance_devices"], count * one["instance_tokens_per_s"]
    return {
        **one,
        "instances": count,
        "devices": devices,
        "tokens_per_s": tokens,
        "requests_per_s": count * one["decode_requests_per_s"],
        "tokens_per_s_per_device": tokens / devices,
        "tokens_per_s_per_user": 1 / one["itl_s"],
        "batch_in_all": capacity.batch_in_all(batch, one["instance_replicas"], count),
    }


def weigh(
    question: ServingSearchQuestion, grid: instances.InstanceGrid, serve: dict[str, np.ndarray]
) -> tuple[np.ndarray, list[dict[str, Any]], np.ndarray]:
    """Where everything holds, what each constraint rejects, and how far each point is from holding."""
    keep = grid.legal & grid.fits
    rejected = {"memory": int((grid.legal & ~grid.fits).sum())}
    base, worst = keep, np.zeros(grid.shape)
    if question.devices is not None:
        room = (serve["devices"] <= question.devices) & (serve["instances"] >= 1)
        rejected[f"at most {plural(question.devices, 'device')}"] = int((base & ~room).sum())
        keep = keep & room
    for c in question.conditions:
        value = value_of(grid, serve, c.quantity)
        holds = c.holds(value)
        rejected[c.text] = int((base & ~holds).sum())
        keep = keep & holds
        if isinstance(c.value, float):
            worst = np.maximum(worst, np.where(holds, 0.0, c.shortfall(value)))
    return (
        keep,
        [{"constraint": k, "layouts": v} for k, v in sorted(rejected.items(), key=lambda kv: -kv[1]) if v],
        np.where(base, worst, np.inf),
    )


def value_of(grid: instances.InstanceGrid, serve: dict[str, np.ndarray], name: str) -> np.ndarray:
    """A quantity over the grid. Raises UsageError when there is none."""
    head, _, rest = name.partition(".")
    value: Any = at(serve if head == "serve" else grid.phases.get(head), rest)
    if value is MISSING and rest == COST["decode"]:
        raise UsageError("no price is known for this chip; give --price, or --objective throughput")
    if value is MISSING or value is None or isinstance(value, str) or entries(value) is not None:
        raise UsageError(
            f"no quantity '{name}' in a serving search; name serve.{', serve.'.join(serve)}, or prefill.… and decode.…",
            "where",
        )
    return grid.whole(value)


def held_of(
    question: ServingSearchQuestion, grid: instances.InstanceGrid, serve: dict[str, np.ndarray], goal: Objective
) -> np.ndarray:
    """An objective over the grid at the end of the interval that ranks."""
    head, _, rest = goal.quantity.partition(".")
    own = {"ttft_s": ("prefill", "time_s"), "itl_s": ("decode", "time_s")}.get(
        rest, ("decode" if head == "serve" else head, rest)
    )
    value = value_of(grid, serve, goal.quantity)
    with np.errstate(all="ignore"):
        return grid.whole(interval_bound(value, own[1], grid.phases.get(own[0]), question.request.hold, goal.sign > 0))


def _best(
    question: ServingSearchQuestion,
    grid: instances.InstanceGrid,
    serve: dict[str, np.ndarray],
    keep: np.ndarray,
    top: int,
) -> list[dict[str, Any]]:
    """The best batch of every instance layout, best first, each with why it trails; or the Pareto front of two objectives."""
    keys = [np.where(keep, o.key(held_of(question, grid, serve, o)), np.inf) for o in question.objectives]
    if len(keys) == 2 and question.qps is None:
        places = np.argwhere(keep)
        return [_row(question, grid, serve, *map(int, places[i])) for i in frontier(keys[0][keep], keys[1][keep])[:top]]
    columns = [np.lexsort([grid.batches, *(k[i] for k in reversed(keys))])[0] for i in range(grid.shape[0])]
    alive = [i for i in range(grid.shape[0]) if keep[i, columns[i]]]
    alive.sort(
        key=lambda i: (*(k[i, columns[i]] for k in keys), grid.serve["instance_devices"][i, 0], grid.layouts[i]["pp"])
    )
    rows = [_row(question, grid, serve, i, int(columns[i])) for i in alive[:top]]
    for row in rows[1:]:
        row["why"] = _why(question, rows[0], row)
    return rows


def _row(
    question: ServingSearchQuestion, grid: instances.InstanceGrid, serve: dict[str, np.ndarray], i: int, j: int
) -> dict[str, Any]:
    layout = {
        **grid.layouts[i],
        "devices": int(serve["instance_devices"][i, j]),
        "batch": float(grid.batches[j]),
    }
    count = float(serve["instances"][i, j])
    found, used = _alone(question, layout, count)
    return {
        "layout": layout,
        "score": {
            o.quantity: _said(o.quantity, found, used, value_of(grid, serve, o.quantity)[i, j])
            for o in question.objectives
        },
        "held": {o.quantity: float(held_of(question, grid, serve, o)[i, j]) for o in question.objectives},
        "serve": used,
        "memory": {k: float(v) for k, v in found.phases["decode"].memory.entries()},
        "command": command(layout),
    }


def _alone(
    question: ServingSearchQuestion, layout: dict[str, Any], count: float
) -> tuple[EstimateAnswer, dict[str, float]]:
    """An instance as its command prices it, and what `count` of them offer: a number of an array may differ from a scalar's in the last digit."""
    sizes: dict[str, Any] = {name: float(layout[name]) for name in ("tp", "pp", "dp", "ep", "devices")}
    found = estimate(replace(question.request, concurrency=layout["batch"], **sizes))
    one = instances.offered(found.phases, layout["devices"], layout["dp"], found.workload.prompt, found.workload.output)
    used = together(one, count, layout["batch"])
    for name, path in ((COST["decode"], f"cost.{COST['decode']}"), ("joules_per_token", "decode.joules_per_token")):
        value = at(found if path.startswith("cost.") else found.phases, path)
        used |= {} if value is MISSING or value is None else {name: value}
    return found, {name: float(value) for name, value in used.items()}


def _said(quantity: str, found: EstimateAnswer, used: dict[str, float], otherwise: Any) -> float:
    """A quantity as the row's command prints it."""
    head, _, rest = quantity.partition(".")
    value = used.get(rest, MISSING) if head == "serve" else at(found.phases, quantity)
    return float(otherwise if value is MISSING else value)


def command(layout: dict[str, Any]) -> str:
    """The `roofline estimate` options that reproduce one instance under its load."""
    ep = f" --ep {layout['ep']}" if layout["ep"] > 1 else ""
    return f"-n {layout['devices']} --tp {layout['tp']} --pp {layout['pp']} --dp {layout['dp']}{ep} --concurrency {layout['batch']:g}"


def _why(question: ServingSearchQuestion, best: dict[str, Any], other: dict[str, Any]) -> str:
    a, b = best["serve"], other["serve"]
    gaps = [
        (o.quantity, abs(other["held"][o.quantity] / best["held"][o.quantity] - 1))
        for o in question.objectives
        if best["held"][o.quantity]
    ]
    name, gap = next(((n, g) for n, g in gaps if g > SAME), ("", 0.0))
    second = f" in {name}" if gap and name != question.objectives[0].quantity else ""
    return (
        f"{f'{percent(gap)} behind{second}' if gap else 'as good'}: batch {other['layout']['batch']:g} against {best['layout']['batch']:g}, "
        f"{si(b['tokens_per_s_per_device'], 'tokens/s')} per device against {si(a['tokens_per_s_per_device'], 'tokens/s')}, "
        f"inter-token {duration(b['itl_s'])} against {duration(a['itl_s'])}, first token {duration(b['ttft_s'])} against {duration(a['ttft_s'])}"
    )


def nearest(
    question: ServingSearchQuestion, grid: instances.InstanceGrid, serve: dict[str, np.ndarray], worst: np.ndarray
) -> dict[str, Any] | None:
    """The point that misses its limits by least, or the one that needs least memory."""
    if np.isfinite(worst).any():
        i, j = np.unravel_index(int(np.argmin(worst)), worst.shape)
        row = _row(question, grid, serve, int(i), int(j))
        lacks = [
            c.missed(float(v)) for c in question.conditions if not c.holds(v := value_of(grid, serve, c.quantity)[i, j])
        ]
        return {
            "layout": row["layout"],
            "command": row["command"],
            "lacks": "; ".join(lacks) or f"room on {plural(question.devices or 0, 'device')}",
        }
    needed = np.where(grid.legal, grid.whole(grid.phases["decode"].memory.total_bytes), np.inf)
    i, j = np.unravel_index(int(np.argmin(needed)), needed.shape)
    row = _row(question, grid, serve, int(i), int(j))
    needs = f"memory: it needs {si(row['memory']['total_bytes'], 'B')} of {si(row['memory']['capacity_bytes'], 'B')}"
    return {"layout": row["layout"], "command": row["command"], "lacks": needs}
