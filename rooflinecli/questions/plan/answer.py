"""The answer of `plan`: how many devices of which chip, how long, at what cost."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.engine import build_request
from rooflinecli.questions import multi_chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.plan.question import PlanAnswer, PlannedChip, ServingPlan, TrainingPlan
from rooflinecli.questions.plan.serving import plan_chip
from rooflinecli.questions.plan.targets import asked, serving
from rooflinecli.questions.plan.training import ChipPlan
from rooflinecli.questions.search.search_request import joined
from rooflinecli.specs.model import load_model

Tell = Callable[[str], None]


def plan(
    options: Options,
    deadline: str | None = None,
    budget: str | None = None,
    hold: str = "pessimistic",
    where: list[str] | None = None,
    qps: str | None = None,
    slo: str | None = None,
    over: Spread | None = None,
    tell: Tell | None = None,
) -> PlanAnswer:
    """The plan of a training run, or of a service, on every chip of `options["hw"]`, the best first.

    Ranked by cost at the bound `hold`, by time where only a budget is given; chips without a price come after those with one,
    infeasible ones last. `tell(chip)` hears of each chip. Raises UsageError for what is wrong with the question.
    """
    where, tell = where or [], tell or (lambda chip: None)
    served = qps is not None or slo is not None or build_request.implied(options) == "serve"
    if "train" not in (str(options.get("phase") or ("decode" if served else "train"))):
        return _service(options, deadline, budget, hold, where, qps, slo, tell)
    for name, written in (("qps", qps), ("slo", slo)):
        if written is not None:
            raise UsageError(f"--{name} {written}: applies to serving; remove it, or add --phase decode", name)
    question = asked(options, deadline, budget, hold, where)
    chips, rows = [ChipPlan(question, name, over) for name in question.each], list[PlannedChip]()
    for chip in chips:
        rows.append(chip.answer())
        tell(chip.name)
    request = chips[0].request
    return TrainingPlan(
        model=request.model.name,
        phase="train",
        tokens=request.tokens,
        deadline_s=question.deadline,
        budget_usd=question.budget,
        hold=hold,
        way=question.way,
        where=where,
        layouts=sum(chip.layouts for chip in chips),
        rows=_ranked(rows, by_time=question.deadline is None),
        unpriced=multi_chip.unpriced(question.each),
        feasible=any(row.feasible for row in rows),
    )


def _service(
    options: Options,
    deadline: str | None,
    budget: str | None,
    hold: str,
    where: list[str],
    qps: str | None,
    slo: str | None,
    tell: Tell,
) -> ServingPlan:
    question = serving(options, qps, joined({"ttft": None, "itl": None}, slo), deadline, budget, hold, where)
    rows, layouts = list[PlannedChip](), 0
    for name in question.each:
        row, count = plan_chip(question, name)
        rows.append(row)
        layouts += count
        tell(name)
    return ServingPlan(
        model=load_model(str(options["model"])).name,
        phase="serve",
        qps=question.qps,
        limits_s=question.limits,
        period_s=question.period,
        budget_usd=question.budget,
        hold=hold,
        way="smallest device count that sustains the request rate",
        where=where,
        layouts=layouts,
        rows=_ranked(rows, by_time=False),
        unpriced=multi_chip.unpriced(question.each),
        feasible=any(row.feasible for row in rows),
    )


def _ranked(rows: list[PlannedChip], by_time: bool) -> list[PlannedChip]:
    """Feasible first, numbered."""
    found = sorted(rows, key=lambda row: (not row.feasible, *(row.order[-1:] if by_time else row.order)))
    for place, row in enumerate(found, 1):
        row.rank = place if row.feasible else None
    return found
