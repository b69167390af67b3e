"""The answer of a search: training layouts or serving instances, on one chip or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.text import percent
from rooflinecli.engine import option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions import multi_chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.question import (
    ChipOutcome,
    ChipSearch,
    Search,
    SearchAnswer,
    ServingRow,
    ServingSearch,
    TrainingRow,
    TrainingSearch,
)
from rooflinecli.questions.search.search_request import (
    LIMITS,
    Limits,
    estimate_command,
    merge_limits,
    objective,
    question,
    serving_question,
)
from rooflinecli.questions.search.training import by_count, frontier
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import Request

_SIMULATED = (
    "replicas", "devices", "ttft_p50_s", "ttft_p99_s", "itl_p99_s", "tpot_p99_s", "e2e_p99_s", "slo_attainment", "feasible", "violation",
)  # fmt: skip
_OF_LAYOUT = ("prompts-per-slot", "n", "tp", "pp", "dp", "cp", "ep", "prompt", "output")
Progress = Callable[[int, int], None]
S = TypeVar("S", TrainingSearch, ServingSearch)


def answer(asked: Search, progress: Progress | None = None, workers: Workers | None = None) -> SearchAnswer:
    """Search each chip, and rank the rows of several together. `progress(done, total)` hears of the progress of a training
    search; `over` spreads its work.

    Raises UsageError for options that contradict each other.
    """
    options = asked.options()
    given = {"ttft": asked.ttft, "itl": asked.itl, "qps": asked.qps}
    limits = merge_limits({name: value for name, value in given.items() if value is not None}, asked.slo)
    chips, where, idle = multi_chip.each(options), list(asked.where), list[dict[str, str]]()

    def note(request: Request) -> None:
        idle.append(option_conflicts.idle(EstimateContext(request), options.keys() - option_conflicts.RANKING))

    def serving(own: Options, objective: str | None) -> ServingSearch:
        from rooflinecli.questions.search.serving import search

        found = search(own, objective, where, limits, asked.top)
        note(replace(serving_question(own, objective, where, limits).request, concurrency=1.0))  # as each row is served
        if asked.simulate_top and found.results:
            try:
                _simulate(own, found.results[: asked.simulate_top], limits, workers)
            except KeyboardInterrupt:  # the layouts are ranked
                found.interrupted = True
        return _with_commands(found, own)

    def training(own: Options, objective: str | None) -> TrainingSearch:
        from rooflinecli.questions.search.training import report, search

        open_ = question(own, objective or "throughput", where, asked.precedent_only, asked.all_layouts)
        note(replace(open_.pinned, devices=float(max(open_.devices, default=0)) or None))
        for n in open_.devices:
            if why := open_.request.hardware.not_rented(n):
                raise UsageError(f"-n {n}: {why}", "n")
        return _with_commands(report(open_, search(open_, progress, workers), asked.top), own)

    found: SearchAnswer
    if len(chips) == 1:
        found = (training if asked.training else serving)(next(iter(chips.values())), asked.objective)
    elif asked.training:
        found = across(chips, asked.objective, asked.top, training)
    else:
        found = serving_across(chips, asked, limits, serving)
    option_conflicts.warn_of_idle(idle)
    if asked.sensitivity and found.feasible and not found.interrupted:
        from rooflinecli.questions.sensitivity.answer import elasticities, of_search, with_layout

        best = found.results[0]
        found.sensitivity = elasticities(*with_layout(chips[best.chip or next(iter(chips))], best.layout))
        found.tornado = of_search(found, options)
    return found


def _simulate(options: Options, rows: list[ServingRow], limits: Limits, workers: Workers | None) -> None:
    """Set the numbers of each row under Poisson arrivals at the rate; the limits of the search are its SLO."""
    from rooflinecli.questions.simulate.answer import Cell, cell_values
    from rooflinecli.questions.simulate.question import Simulate

    known = Simulate.fields()
    own = {k: v for k, v in options.items() if k not in _OF_LAYOUT and OPTIONS[k].parameter in known}
    own |= {k: str(options[k]) for k in ("prompt", "output") if k in options}
    own |= {"qps": limits["qps"], "interval": False}
    if slo := ",".join(f"{name}={limits[name]!r}s" for name in LIMITS if name in limits):
        own["slo"] = slo
    cells = list[Cell]()
    for row in rows:
        sizes = {"n": row.layout.devices, **{axis: row.layout[axis] for axis in ("tp", "pp", "dp", "ep")}}
        cells.append((Simulate.read({**own, **sizes, "replicas": str(int(row.serve["instances"]))}), {}))
    for row, values in zip(rows, (workers or map)(cell_values, cells), strict=True):
        row.simulate = {k: values[k] for k in _SIMULATED if k in values}


def _with_commands(found: S, options: Options) -> S:
    """The answer with the whole command line of each row."""
    phases = ("prefill", "decode") if isinstance(found, ServingSearch) else ("train",)
    for row in (*found.results, found.nearest_miss):
        if row is not None:
            row.estimate = estimate_command(options, row.command, phases)
    return found


R = TypeVar("R", TrainingRow, ServingRow)


def serving_across(
    each: dict[str, Options], asked: Search, limits: Limits, search: Callable[[Options, str | None], ServingSearch]
) -> ServingSearch:
    """A serving search on every chip: by cost where nothing is asked, since devices of several chips compare in nothing else."""
    goal = asked.objective
    if goal is None and not multi_chip.unpriced(each):
        goal = "cost"
    elif goal is None:
        goal = "devices,throughput" if "qps" in limits else "throughput"
    found = across(each, goal, asked.top, search, "decode")
    candidates, open_ = [], None
    for chip in (c.chip for c in found.chips or () if isinstance(c, ChipSearch)):
        open_ = serving_question(each[chip], goal, list(asked.where), limits)
        ctx = EstimateContext(open_.request)
        layouts = instances.layouts(ctx, open_.open, open_.largest_instance)
        candidates.append(instances.candidates(each[chip], ctx, open_, layouts))
    pairs = instances.ranked(open_, candidates, asked.top) if open_ is not None else []
    return replace(found, pools=pairs[0] if pairs else None, pool_rows=pairs)


def across(
    each: dict[str, Options],
    goal: str | None,
    top: int,
    search: Callable[[Options, str | None], S],
    phase: str = "train",
) -> S:
    """A search on every chip (by name, its options): rows of all ranked together, the best of each chip among them.

    `search(options, goal)` answers for one chip. A chip that cannot be searched is named with its reason. Raises UsageError when
    none can, and for an objective for which no chip has a price.
    """
    names = [name for name in (goal or "").split(",") if name]
    paid = any("usd" in objective(name, (phase,)).quantity for name in names)
    lacking = multi_chip.unpriced(each) if paid else []
    if len(lacking) == len(each):
        raise UsageError(f"--objective {goal}: {multi_chip.remedy(lacking)}", "price")
    found, refused = dict[str, S](), {name: multi_chip.remedy([name]) for name in lacking}
    for name in (name for name in each if name not in lacking):
        try:
            found[name] = search(each[name], goal)
        except UsageError as error:
            refused[name] = str(error)
        except KeyboardInterrupt:
            if not found:
                raise
            found[next(iter(found))].interrupted = True
        if any(answer.interrupted for answer in found.values()):
            refused |= {chip: "not searched before the interruption" for chip in each if chip not in found}
            break
    if not found:
        raise UsageError("; ".join(f"{name}: {why}" for name, why in refused.items()), "hw")
    return _joined(each, found, refused, top)


def _joined(each: dict[str, Options], found: dict[str, S], refused: dict[str, str], top: int) -> S:
    """One answer of all."""
    first, answers = next(iter(found.values())), found.values()
    rows = [
        replace(row, chip=name, hardware=answer.hardware, best_of_chip=not place)
        for name, answer in found.items()
        for place, row in enumerate(answer.results)
    ]
    misses = [(name, answer.nearest_miss) for name, answer in found.items() if answer.nearest_miss]
    rejected = Counter[str]()
    for answer in answers:
        rejected.update({str(r["constraint"]): int(r["layouts"]) for r in answer.rejected})
    chips = [
        ChipSearch.like(found[name], chip=name, infeasible_reason="")
        if name in found
        else ChipOutcome(chip=name, feasible=False, infeasible_reason=refused[name])
        for name in each
    ]
    joined = replace(
        first, hardware=", ".join(answer.hardware for answer in answers), layouts=sum(answer.layouts for answer in answers),
        fit=sum(answer.fit for answer in answers), meet=sum(answer.meet for answer in answers), rejected=by_count(rejected),
        results=_ranked(rows, first.objective, first.pareto, top), feasible=bool(rows),
        nearest_miss=None if rows or not misses else replace(misses[0][1], chip=misses[0][0]), chips=chips,
        unpriced=multi_chip.unpriced(each), interrupted=any(answer.interrupted for answer in answers),
    )  # fmt: skip
    if isinstance(joined, TrainingSearch):
        joined.within_uncertainty = None  # chips do not share their errors
    return joined


def _ranked(rows: list[R], objectives: list[str], pareto: bool, top: int) -> list[R]:
    """The rows of all chips by their keys; the best of a chip stays, however far down it ranks. Of two objectives, the front."""
    goals = [objective(name, ("train",)) for name in objectives]

    def key(row: R) -> tuple[float, ...]:
        return tuple(goal.key(row.score_at_bound[goal.quantity]) for goal in goals)

    def rank(row: R) -> tuple[float, ...]:
        """Equals at the bound by their expected values."""
        bounds = tuple(num.single(value) for value in key(row))
        return bounds + tuple(float(goal.key(row.score[goal.quantity])) for goal in goals)

    if pareto:
        columns = np.array([key(row) for row in rows]).reshape(-1, 2)
        rows = [rows[i] for i in frontier(columns[:, 0], columns[:, 1])[:top]]
    else:
        rows.sort(key=rank)
    for place, row in enumerate(rows, 1):
        row.rank = place
    if pareto:
        return rows
    name = goals[0].quantity
    kept = [row for row in rows if (row.rank or 0) <= top or row.best_of_chip]
    for row in kept[1:]:
        best, own = kept[0].score_at_bound[name], row.score_at_bound[name]
        gap = abs(own / best - 1) if best else 0.0
        row.why = f"{percent(gap)} worse, on {row.hardware}" if gap > 1e-4 else f"equal, on {row.hardware}"
    return kept
