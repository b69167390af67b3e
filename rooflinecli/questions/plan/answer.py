"""`plan`: how many, which, how long, how much; one object for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions import multi_chip
from rooflinecli.questions.plan import serving as serve
from rooflinecli.questions.plan.targets import asked, serving
from rooflinecli.questions.plan.training import BILL, RUN, ChipPlan
from rooflinecli.questions.search.mean_slo import joined
from rooflinecli.specs.model import load_model

SCHEMA = "roofline/plan/1"
Tell = Callable[[str], None]


def plan(
    options: dict[str, Any],
    deadline: str | None = None,
    budget: str | None = None,
    hold: str = "pessimistic",
    where: Iterable[str] = (),
    qps: str | None = None,
    slo: str | None = None,
    over: Spread | None = None,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """The plan of a training run, or of a service, on every chip of `options["hw"]`, the best first.

    Ranked by what it costs at the end that `hold` names, by the time where only a budget is given; chips without a price come after
    those with one, what cannot do it last. Raises UsageError for what is wrong with the question.
    """
    serves = "train" not in ",".join(options.get("phase") or ["train"])
    if serves:
        return _service(options, deadline, budget, hold, list(where), qps, slo, tell or _silent)
    for name, said in (("qps", qps), ("slo", slo)):
        if said is not None:
            raise UsageError(f"--{name} {said}: belongs to serving; add --phase decode", name)
    return _run(options, deadline, budget, hold, list(where), over, tell or _silent)


def _silent(name: str) -> None:
    """Nobody listens."""


def _run(
    options: dict[str, Any],
    deadline: str | None,
    budget: str | None,
    hold: str,
    where: list[str],
    over: Spread | None,
    tell: Tell,
) -> dict[str, Any]:
    """The plan of a training run."""
    question = asked(options, deadline, budget, hold, where)
    found, rows = [ChipPlan(question, name, over) for name in question.each], []
    for chip in found:
        rows.append(_with_tried(chip))
        tell(chip.name)
    request = found[0].request
    return {
        "schema": SCHEMA,
        "model": request.model.name,
        "phase": "train",
        "tokens": request.tokens,
        "deadline_s": question.deadline,
        "budget_usd": question.budget,
        "hold": hold,
        "way": question.way,
        "where": where,
        "layouts": sum(chip.layouts for chip in found),
        "rows": _ranked(rows, by_time=question.deadline is None),
        "unpriced": multi_chip.unpriced(question.each),
        "feasible": any(row["feasible"] for row in rows),
    }


def _service(
    options: dict[str, Any],
    deadline: str | None,
    budget: str | None,
    hold: str,
    where: list[str],
    qps: str | None,
    slo: str | None,
    tell: Tell,
) -> dict[str, Any]:
    """The plan of a service."""
    question = serving(options, qps, joined({"ttft": None, "itl": None}, slo), deadline, budget, hold, where)
    rows, layouts = [], 0
    for name in question.each:
        row, count = serve.answer(question, name)
        rows.append(row)
        layouts += count
        tell(name)
    return {
        "schema": SCHEMA,
        "model": load_model(str(options["model"])).name,
        "phase": "serve",
        "qps": question.qps,
        "limits_s": question.limits,
        "period_s": question.period,
        "budget_usd": question.budget,
        "hold": hold,
        "way": "fewest devices that carry the rate",
        "where": where,
        "layouts": layouts,
        "rows": _ranked(rows, by_time=False),
        "unpriced": multi_chip.unpriced(question.each),
        "feasible": any(row["feasible"] for row in rows),
    }


def _with_tried(chip: ChipPlan) -> dict[str, Any]:
    """The chip's row, and what every count came to at the end that is held."""
    row, hold = chip.answer(), chip.asked.hold
    tried = [
        {
            "devices": n,
            "legal": found.legal,
            "run_s": found.held(RUN, hold) if found.result else None,
            "training_usd": found.held(BILL, hold) if found.result and chip.priced else None,
        }
        for n, found in sorted(chip.tried.items())
    ]
    return row | {"tried": tried}


def _ranked(rows: list[dict[str, Any]], by_time: bool) -> list[dict[str, Any]]:
    """Feasible first, numbered; a chip without a price after those that have one."""

    def key(row: dict[str, Any]) -> tuple[float, ...]:
        if not row["feasible"]:
            return (2.0,)
        if by_time:
            return (0.0, row["held_s"])
        return (1.0, row["held_s"]) if row["held_usd"] is None else (0.0, row["held_usd"], row["held_s"])

    found = sorted(rows, key=key)
    return [row | {"rank": place if row["feasible"] else None} for place, row in enumerate(found, 1)]
