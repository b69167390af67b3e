"""A search whichever work it is for: training by itself, or serving."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions import multi_chip
from rooflinecli.questions.search.command_line import estimate_command
from rooflinecli.questions.search.mean_slo import joined
from rooflinecli.questions.search.row_filter import EVERYTHING, RowFilter

_RATE = "--simulate needs a serving search at a rate; add --phase decode --qps RATE"


def answered(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    tell: Callable[[int, int], None] | None = None,
    over: Spread | None = None,
    simulate: int = 0,
    slo: str | None = None,
    kept: RowFilter = EVERYTHING,
) -> dict[str, Any]:
    """The report. `limits` are ttft, itl and qps of serving; `tell` hears how far a search for training has come;
    `over` spreads its work. The first `simulate` layouts of a serving search at a rate are simulated. `kept` says which layouts of
    a search for training are rows.

    `slo` says ttft and itl at once; several chips in `options["hw"]` are searched beside each other.

    Raises UsageError for options that do not go together.
    """
    if slo is not None and _trains(options):
        raise UsageError(f"--slo {slo}: belongs to serving; add --phase decode", "slo")
    limits, each = joined(limits, slo), multi_chip.each(options)
    one = partial(on_one, where=where, limits=limits, top=top, tell=tell, over=over, simulate=simulate, kept=kept)
    if len(each) > 1:
        from rooflinecli.questions.search.multi_chip import across

        return across(each, objective, where, limits, top, one)
    return one(next(iter(each.values())), objective)


def _trains(options: dict[str, Any]) -> bool:
    return "train" in ",".join(options.get("phase") or ["train"])


def on_one(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    tell: Callable[[int, int], None] | None,
    over: Spread | None,
    simulate: int,
    kept: RowFilter = EVERYTHING,
) -> dict[str, Any]:
    """The report of one chip; each row with the command that prints its numbers."""
    serving = not _trains(options)
    if serving:
        kept.refuse()
        found = _serving(options, objective, where, limits, top, over, simulate)
    else:
        found = _training(options, objective, where, limits, top, tell, over, simulate, kept)
    for row in filter(None, [*found["results"], found["nearest_miss"]]):
        row["estimate"] = estimate_command(options, row["command"], serving)
    return found


def _serving(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    over: Spread | None,
    simulate: int,
) -> dict[str, Any]:
    from rooflinecli.questions.search.serving import search

    if simulate and limits["qps"] is None:
        raise UsageError(_RATE, "simulate")
    found = search(options, objective, where, limits, top)
    if simulate and found["results"]:
        from rooflinecli.questions.search.simulate_top import note

        note(options, found["results"][:simulate], limits, over)
    return found


def _training(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    tell: Callable[[int, int], None] | None,
    over: Spread | None,
    simulate: int,
    kept: RowFilter,
) -> dict[str, Any]:
    if simulate:
        raise UsageError(_RATE, "simulate")
    if ",".join(options.get("phase") or ["train"]) != "train":
        raise UsageError("--phase train searches alone; ask for prefill and decode in a second search")
    for name, written in limits.items():
        if written is not None:
            raise UsageError(f"--{name} {written}: belongs to serving; add --phase decode")
    from rooflinecli.questions.search.explain_rows import report
    from rooflinecli.questions.search.training import search
    from rooflinecli.questions.search.training_question import question

    asked = question({**options, "phase": "train"}, objective or "throughput", where, kept.has_precedent, kept.every)
    return report(asked, search(asked, tell, over), top)
