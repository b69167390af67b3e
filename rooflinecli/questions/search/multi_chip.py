"""A search over several chips: each chip's layouts, ranked as one list, and pools whose halves are on different chips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import percent
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions import multi_chip
from rooflinecli.questions.search import disaggregated, instances
from rooflinecli.questions.search.objective import objective
from rooflinecli.questions.search.ranking import frontier
from rooflinecli.questions.search.serving_question import asked

Search = Callable[[dict[str, Any], str | None], dict[str, Any]]
_ONE = (
    "hardware",
    "layouts",
    "fit",
    "meet",
    "rejected",
    "feasible",
    "nearest_miss",
)  # what is said of each chip by itself
_SUMS = ("layouts", "fit", "meet")


def across(
    each: dict[str, Any], goal: str | None, where: list[str], limits: dict[str, str | None], top: int, search: Search
) -> dict[str, Any]:
    """The report of a search on every chip, by name its options: rows of all ranked together, the best of each chip among them.

    `search(options, goal)` answers for one chip. A chip that cannot be asked is named with its reason. Raises UsageError when
    none can, and for an objective of which no chip knows the price.
    """
    serving = "train" not in ",".join(next(iter(each.values())).get("phase") or ["train"])
    goal = goal or _plain(each, serving, limits)
    lacking = multi_chip.unpriced(each) if _paid(goal, serving) else []
    if len(lacking) == len(each):
        raise UsageError(f"--objective {goal}: {multi_chip.remedy(lacking)}", "price")
    found, refused = dict[str, dict[str, Any]](), {name: multi_chip.remedy([name]) for name in lacking}
    for name, own in each.items():
        if name in lacking:
            continue
        try:
            found[name] = search(own, goal)
        except UsageError as error:
            refused[name] = str(error)
    if not found:
        raise UsageError("; ".join(f"{name}: {why}" for name, why in refused.items()), "hw")
    return _joined(each, found, refused, top, lambda: _apart(each, found, goal, where, limits, top) if serving else [])


def _plain(each: dict[str, Any], serving: bool, limits: dict[str, str | None]) -> str | None:
    """What is best where nothing is said: dollars, since devices of several chips are alike in nothing else; training by time."""
    if not serving:
        return None
    if not multi_chip.unpriced(each):
        return "cost"
    return "devices,throughput" if limits.get("qps") is not None else "throughput"


def _paid(goal: str | None, serving: bool) -> bool:
    """Whether an objective needs a price."""
    phases = ("decode",) if serving else ("train",)
    return any("usd" in objective(name, phases).quantity for name in (goal or "").split(",") if name)


def _joined(
    each: dict[str, Any],
    found: dict[str, dict[str, Any]],
    refused: dict[str, str],
    top: int,
    apart: Callable[[], list[dict[str, Any]]],
) -> dict[str, Any]:
    """One report of all."""
    first = next(iter(found.values()))
    rows = _ranked(found, first, top)
    misses = [(name, r["nearest_miss"]) for name, r in found.items() if r["nearest_miss"]]
    rejected: dict[str, int] = {}
    for report in found.values():
        for item in report["rejected"]:
            rejected[item["constraint"]] = rejected.get(item["constraint"], 0) + item["layouts"]
    pairs = apart()
    return {
        **first,
        "hardware": ", ".join(report["hardware"] for report in found.values()),
        **{k: sum(report[k] for report in found.values()) for k in _SUMS},
        "rejected": [{"constraint": k, "layouts": v} for k, v in sorted(rejected.items(), key=lambda kv: -kv[1])],
        "results": rows,
        "feasible": bool(rows),
        "nearest_miss": None if rows or not misses else {**misses[0][1], "chip": misses[0][0]},
        "chips": [
            {"chip": name, **{k: found[name][k] for k in _ONE}, "why": ""}
            if name in found
            else {"chip": name, "feasible": False, "why": refused[name]}
            for name in each
        ],
        "unpriced": multi_chip.unpriced(each),
        **({"tied": None} if "tied" in first else {}),  # chips do not share their errors
        **({"pools": pairs[0] if pairs else None, "pool_rows": pairs} if "pool_rows" in first else {}),
    }


def _ranked(found: dict[str, dict[str, Any]], first: dict[str, Any], top: int) -> list[dict[str, Any]]:
    """The rows of all chips by their keys; the best of a chip stays, however far down it comes. Of two objectives, the front."""
    rows = [
        {"chip": name, "hardware": report["hardware"], **row, "best_of_chip": not place}
        for name, report in found.items()
        for place, row in enumerate(report["results"])
    ]
    if first["pareto"]:
        columns = np.array([key(row, first) for row in rows]).reshape(-1, 2)
        return [rows[i] | {"rank": place} for place, i in enumerate(frontier(columns[:, 0], columns[:, 1])[:top], 1)]
    rows.sort(key=lambda row: key(row, first))
    placed = [row | {"rank": place} for place, row in enumerate(rows, 1)]
    kept = [row for row in placed if row["rank"] <= top or row["best_of_chip"]]
    for row in kept[1:]:
        row["why"] = _why(kept[0], row, first)
    return kept


def key(row: dict[str, Any], report: dict[str, Any]) -> tuple[float, ...]:
    """What a row is ranked by, less being better: the objectives at the end that is held, where the row says it."""
    values = row.get("held") or row["score"]
    return tuple(objective(name, ("train",)).key(values[name]) for name in report["objective"])


def _why(best: dict[str, Any], other: dict[str, Any], report: dict[str, Any]) -> str:
    """How far behind, and on which chip."""
    name = report["objective"][0]
    a, b = ((row.get("held") or row["score"])[name] for row in (best, other))
    gap = abs(b / a - 1) if a else 0.0
    return f"{percent(gap)} behind, on {other['hardware']}" if gap > 1e-4 else f"as good, on {other['hardware']}"


def _apart(
    each: dict[str, Any],
    found: dict[str, Any],
    goal: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
) -> list[dict[str, Any]]:
    """Pairs of pools over all the chips that could be asked."""
    offers, question = [], None
    for name in found:
        question = asked(each[name], goal, where, limits)
        ctx = EstimateContext(question.request)
        most = int(min(question.devices or instances.LARGEST_INSTANCE, instances.LARGEST_INSTANCE))
        layouts = instances.layouts(ctx, question.open, most)
        offers.append(
            disaggregated.offered(each[name], ctx, question, layouts, np.array(question.batches, dtype=np.float64))
        )
    return disaggregated.ranked(question, offers, top) if question is not None else []
