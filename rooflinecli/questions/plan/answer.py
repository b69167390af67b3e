"""The answer of `plan`: how many devices of which chip, how long, at what cost."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions import multi_chip
from rooflinecli.questions.plan.question import Plan, PlanAnswer, PlannedChip, ServingPlan, TrainingPlan
from rooflinecli.questions.plan.serving import plan_chip
from rooflinecli.questions.plan.targets import target
from rooflinecli.questions.plan.training import ChipPlan
from rooflinecli.specs.model import load_model

WAYS = (
    "smallest device count that meets the deadline, in steps of 1/16 (TPUs: slices for rent)",
    "shortest run within the budget",
    "smallest device count that sustains the request rate",
)


def plan(question: Plan, over: Spread | None, tell: Callable[[str], None]) -> PlanAnswer:
    """The plan of a training run, or of a service, on every chip, the best first. `tell(chip)` hears of each chip.

    Ranked by cost at the bound, by time where only a budget is given; chips without a price come after those with one,
    infeasible ones last. Raises UsageError for what is wrong with the question.
    """
    asked = target(question)
    chips = [] if asked.qps is not None else [ChipPlan(asked, name, over) for name in asked.each]
    rows, layouts = list[PlannedChip](), 0
    try:
        for place, name in enumerate(asked.each):
            if chips:
                row, count = chips[place].answer(), sum(tried.best.legal for tried in chips[place].tried.values())
            else:
                row, count = plan_chip(asked, name)
            rows.append(row)
            layouts += count
            tell(name)
    except KeyboardInterrupt:  # the chips that are done are an answer
        if not rows:
            raise
    ranked = _ranked(rows, by_time=asked.qps is None and asked.deadline is None)
    unpriced, feasible = multi_chip.unpriced(asked.each), any(row.feasible for row in rows)
    if asked.qps is not None:
        model = load_model(str(question.options()["model"])).name
        return ServingPlan(
            model=model, phase="serve", budget_usd=asked.budget, hold=asked.hold, way=WAYS[2], where=list(asked.where), layouts=layouts,
            rows=ranked, unpriced=unpriced, feasible=feasible, qps=asked.qps, limits_s=asked.limits, period_s=asked.deadline,
        )  # fmt: skip
    request = chips[0].request
    return TrainingPlan(
        model=request.model.name, phase="train", budget_usd=asked.budget, hold=asked.hold, way=WAYS[asked.deadline is None],
        where=list(asked.where), layouts=layouts, rows=ranked, unpriced=unpriced, feasible=feasible, tokens=request.tokens,
        deadline_s=asked.deadline,
    )  # fmt: skip


def _ranked(rows: list[PlannedChip], by_time: bool) -> list[PlannedChip]:
    """Feasible first, numbered."""
    found = sorted(rows, key=lambda row: (not row.feasible, *(row.order[-1:] if by_time else row.order)))
    for place, row in enumerate(found, 1):
        row.rank = place if row.feasible else None
    return found
