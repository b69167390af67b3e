"""How firmly the first of a search or a comparison stands: the rows shown, priced again with every figure and constant moved."""

from __future__ import annotations

from typing import Any

from rooflinecli.engine import build_request
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.questions import multi_chip
from rooflinecli.questions.check.interval_bounds import phase_of
from rooflinecli.questions.estimate.answer import choose_plans, scene_of
from rooflinecli.questions.sensitivity.elasticities import with_layout
from rooflinecli.questions.sensitivity.tornado import RankedCandidate, break_even, tornado
from rooflinecli.specs.quantities import COST, scales_with_time

MOST = 5  # rows that are weighed, and the best of every chip
_BY = {"serve.itl_s": 1}


def robust(result: dict[str, Any], options: dict[str, Any], hold: str = "pessimistic") -> dict[str, Any] | None:
    """The tornado of a search's report; None where one row is shown, or the rows are a front.

    What is compared is the first objective that follows a time; where none does (devices, memory), the cost of a token, else the throughput
    of a device. Plans and batches stay as they are.
    """
    rows = [row for place, row in enumerate(result["results"]) if place < MOST or row.get("best_of_chip")]
    if len(rows) < 2 or result["pareto"]:
        return None
    quantity = _compared(result, rows)
    each = multi_chip.each(options)
    found = [_contender(row, place, each, result["phase"], quantity, hold) for place, row in enumerate(rows, 1)]
    return _report(quantity, found)


def between(
    rows: list[dict[str, Any]], options: dict[str, dict[str, Any]], rank: str, hold: str = "pessimistic"
) -> dict[str, Any]:
    """The tornado of a comparison: ranked rows, by chip the options of its estimate, and the quantity they are ranked by."""
    phase, found = phase_of(rank), []
    for row in rows:
        ctx = scene_of(build_request.request(options[row["chip"]]))
        plan = ctx.lifted(choose_plans(ctx)[0][phase].layout)
        contender = RankedCandidate(str(row["rank"]), row["chip"], ctx.request, phase, plan, hold=hold)
        found.append(_weighed(contender, float(row["value"]), scales_with_time(rank)))
    return _report(rank, found)


def _report(quantity: str, found: list[RankedCandidate]) -> dict[str, Any]:
    found.sort(key=lambda c: c.score)  # the winner by what is compared, at the end that is held
    prices = [pair for other in found[1:] if (pair := break_even(found[0], other)) is not None]
    return {
        "compared": quantity,
        "first": found[0].label,
        **tornado(found),
        "break_even": prices[0] if prices else None,
    }


def _weighed(contender: RankedCandidate, score: float, sign: int) -> RankedCandidate:
    """The contender with its price, and the weight by which its time is its score as it is now; a rate counts by its inverse."""
    seconds = float(PHASES[contender.phase](contender.ctx, contender.layout).time_s)
    contender.weight = score / seconds if sign > 0 else 1 / (score * seconds)
    contender.price = None if contender.ctx.price is None else float(contender.ctx.price)
    return contender


def _compared(result: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The quantity that the contenders are compared by."""
    for name in result["objective"]:
        if _sign(name):
            return str(name)
    if result["phase"] != "serve":
        return "train.time_s"
    cost = f"serve.{COST['decode']}"
    return cost if all(COST["decode"] in row["serve"] for row in rows) else "serve.tokens_per_s_per_device"


def _sign(name: str) -> int:
    return _BY.get(name) or scales_with_time(name)


def _contender(
    row: dict[str, Any], place: int, each: dict[str, dict[str, Any]], work: str, quantity: str, hold: str
) -> RankedCandidate:
    """A row as a contender: its score is as many times its time as it is now."""
    chip = row.get("chip") or next(iter(each))
    request, phase, plan = with_layout(each[chip], row["layout"], work)
    score = row["serve"][quantity.partition(".")[2]] if work == "serve" else _score(row, quantity)
    return _weighed(
        RankedCandidate(str(row.get("rank", place)), chip, request, phase, plan, hold=hold),
        float(score),
        _sign(quantity),
    )


def _score(row: dict[str, Any], quantity: str) -> float:
    """A quantity of a training row: what it was ranked by, else the time."""
    return float(row["score"].get(quantity, row["time_s"]))
