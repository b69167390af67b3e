"""The answer of a search: training layouts or serving instances, on one chip or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions import multi_chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.answer_types import SearchAnswer, ServingSearch, TrainingSearch
from rooflinecli.questions.search.question import Search
from rooflinecli.questions.search.search_request import estimate_command, joined

Tell = Callable[[int, int], None]
S = TypeVar("S", TrainingSearch, ServingSearch)


def answer(asked: Search, tell: Tell | None = None, over: Spread | None = None) -> SearchAnswer:
    """Search each chip, and rank the rows of several together. `tell(done, total)` hears of the progress of a training
    search; `over` spreads its work.

    Raises UsageError for options that contradict each other.
    """
    options = asked.options()
    given = {"ttft": asked.ttft, "itl": asked.itl, "qps": asked.qps}
    limits = joined({name: value for name, value in given.items() if value is not None}, asked.slo)
    chips = multi_chip.each(options)
    if not asked.training:
        from rooflinecli.questions.search.serving import search as search_serving

        def serving(own: Options, objective: str | None) -> ServingSearch:
            found = search_serving(own, objective, list(asked.where), limits, asked.top)
            if asked.simulate_top and found.results:
                from rooflinecli.questions.search.simulate_top import simulate

                simulate(own, found.results[: asked.simulate_top], limits, over)
            return _with_commands(found, own)

        if len(chips) == 1:
            found: SearchAnswer = serving(next(iter(chips.values())), asked.objective)
        else:
            from rooflinecli.questions.search.multi_chip import serving_across

            found = serving_across(chips, asked.objective, list(asked.where), limits, asked.top, serving)
    else:

        def training(own: Options, objective: str | None) -> TrainingSearch:
            from rooflinecli.questions.search.explain_rows import report
            from rooflinecli.questions.search.search_request import question
            from rooflinecli.questions.search.training import search

            open_ = question(
                {**own, "phase": "train"},
                objective or "throughput",
                list(asked.where),
                asked.precedent_only,
                asked.all_layouts,
            )
            for n in open_.devices:
                if why := open_.request.hardware.not_rented(n):
                    raise UsageError(f"-n {n}: {why}", "n")
            return _with_commands(report(open_, search(open_, tell, over), asked.top), own)

        if len(chips) == 1:
            found = training(next(iter(chips.values())), asked.objective)
        else:
            from rooflinecli.questions.search.multi_chip import across

            found = across(chips, asked.objective, asked.top, training)
    if asked.sensitivity and found.feasible:
        from rooflinecli.questions.sensitivity.elasticities import elasticities, with_layout
        from rooflinecli.questions.sensitivity.tornado import of_search

        best = found.results[0]
        found.sensitivity = elasticities(*with_layout(chips[best.chip or next(iter(chips))], best.layout))
        found.tornado = of_search(found, options)
    return found


def _with_commands(found: S, options: Options) -> S:
    """The answer with the whole command line of each row."""
    serving = isinstance(found, ServingSearch)
    for row in found.results:
        row.estimate = estimate_command(options, row.command, serving)
    if found.nearest_miss is not None:
        found.nearest_miss.estimate = estimate_command(options, found.nearest_miss.command, serving)
    return found
