"""A search whichever work it is for: training by itself, or serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.errors import UsageError


def answered(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The report. `limits` are ttft, itl and qps of serving; `tell` hears how far a search for training has come.

    Raises UsageError for options that do not go together.
    """
    phases = ",".join(options.get("phase") or ["train"])
    if "train" not in phases:
        from rooflinecli.answers.search.serve import search as serving

        return serving(options, objective, where, limits, top)
    if phases != "train":
        raise UsageError("--phase train searches alone; ask for prefill and decode in a second search")
    for name, written in limits.items():
        if written is not None:
            raise UsageError(f"--{name} {written}: belongs to serving; add --phase decode")
    from rooflinecli.answers.search.question import question
    from rooflinecli.answers.search.report import report
    from rooflinecli.answers.search.train import search

    asked = question({**options, "phase": "train"}, objective or "throughput", where)
    return report(asked, search(asked, tell), top)
