"""How firmly the best row of a search or a comparison stands: the rows shown, priced again with every spec value and constant moved."""

from __future__ import annotations

from collections.abc import Iterable

from rooflinecli.engine import build_request
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.questions import multi_chip
from rooflinecli.questions.check.interval_bounds import phase_of
from rooflinecli.questions.estimate.answer import choose_plans, scene_of
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.answer_types import SearchAnswer, ServingRow, TrainingRow
from rooflinecli.questions.sensitivity.answer_types import Tornado
from rooflinecli.questions.sensitivity.elasticities import with_layout
from rooflinecli.questions.sensitivity.tornado import RankedCandidate, tornado
from rooflinecli.specs.quantities import BLENDED, scales_with_time

MOST = 5  # rows that are weighed, and the best of every chip


def of_search(answer: SearchAnswer, options: Options) -> Tornado | None:
    """The tornado of a search; None where one row is shown, or the rows are a Pareto front. Layouts and batches stay as they are.

    Rows are compared by the first objective that follows a time; where none does (devices, memory), by the cost of a token, else
    by the throughput of a device.
    """
    every: list[TrainingRow | ServingRow] = [*answer.results]
    rows = [row for place, row in enumerate(every) if place < MOST or row.best_of_chip]
    if len(rows) < 2 or answer.pareto:
        return None
    quantity = next((name for name in answer.objective if _direction(name)), None)
    if quantity is None and answer.phase == "train":
        quantity = "train.time_s"
    elif quantity is None:
        priced = all(isinstance(row, ServingRow) and BLENDED in row.serve for row in rows)
        quantity = f"serve.{BLENDED}" if priced else "serve.tokens_per_s_per_device"
    chips, found = multi_chip.each(options), []
    for place, row in enumerate(rows, 1):
        chip = row.chip or next(iter(chips))
        request, phase, layout = with_layout(chips[chip], row.layout)
        if isinstance(row, ServingRow):
            score = row.serve[quantity.partition(".")[2]]
        else:
            score = row.score.get(quantity, row.time_s)
        candidate = RankedCandidate(str(row.rank or place), chip, request, phase, layout, hold=answer.bound)
        found.append(_weighed(candidate, score, _direction(quantity)))
    return tornado(quantity, found)


def of_comparison(
    ranked: Iterable[tuple[int, str, float]], options: dict[str, Options], by: str, bound: str
) -> Tornado:
    """The tornado of a comparison: place, chip and value of the ranked rows, by chip the options of its estimate."""
    phase, found = phase_of(by), []
    for place, chip, value in ranked:
        ctx = scene_of(build_request.request(options[chip]))
        layout = ctx.lifted(choose_plans(ctx)[0][phase].layout)
        candidate = RankedCandidate(str(place), chip, ctx.request, phase, layout, hold=bound)
        found.append(_weighed(candidate, value, scales_with_time(by)))
    return tornado(by, found)


def _weighed(candidate: RankedCandidate, score: float, direction: int) -> RankedCandidate:
    """The candidate with its price, and the weight by which its time is its present score; a rate counts by its inverse."""
    seconds = float(PHASES[candidate.phase](candidate.ctx, candidate.layout).time_s)
    candidate.weight = score / seconds if direction > 0 else 1 / (score * seconds)
    candidate.price = None if candidate.ctx.price is None else float(candidate.ctx.price)
    return candidate


def _direction(quantity: str) -> int:
    """1 where a quantity grows with its time, -1 where it falls, 0 where it does not follow."""
    return 1 if quantity == "serve.itl_s" else scales_with_time(quantity)
