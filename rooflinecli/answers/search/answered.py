"""A search whichever work it is for: training by itself, or serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.errors import UsageError
from rooflinecli.spread import Spread


def answered(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    tell: Callable[[int, int], None] | None = None,
    over: Spread | None = None,
    simulate: int = 0,
    practised: bool = False,
    every: bool = False,
) -> dict[str, Any]:
    """The report. `limits` are ttft, itl and qps of serving; `tell` hears how far a search for training has come;
    `over` spreads its work. The first `simulate` layouts of a serving search at a rate are simulated. `practised` keeps a search for
    training to layouts like published ones, `every` makes each layout a row of its own.

    Raises UsageError for options that do not go together.
    """
    phases = ",".join(options.get("phase") or ["train"])
    if simulate and ("train" in phases or limits["qps"] is None):
        raise UsageError("--simulate needs a serving search at a rate; add --phase decode --qps RATE", "simulate")
    if "train" not in phases:
        if practised or every:
            raise UsageError(
                f"--{'practised' if practised else 'all'} belongs to training; leave it out, or add --phase train"
            )
        from rooflinecli.answers.search.serve import search as serving

        found = serving(options, objective, where, limits, top)
        if simulate and found["results"]:
            from rooflinecli.answers.search.simulated import note

            note(options, found["results"][:simulate], limits, over)
        return found
    if phases != "train":
        raise UsageError("--phase train searches alone; ask for prefill and decode in a second search")
    for name, written in limits.items():
        if written is not None:
            raise UsageError(f"--{name} {written}: belongs to serving; add --phase decode")
    from rooflinecli.answers.search.question import question
    from rooflinecli.answers.search.report import report
    from rooflinecli.answers.search.train import search

    asked = question({**options, "phase": "train"}, objective or "throughput", where, practised, every)
    return report(asked, search(asked, tell, over), top)
