"""What `roofline search` does once its options are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.interfaces.cli.progress import Progress
from rooflinecli.specs.request import HOLDS


@dataclass
class SearchRunOptions:
    """How many layouts to simulate, who works, and which layouts are rows."""

    simulate: int = 0
    jobs: int = 1
    cluster: str | None = None
    slo: str | None = None
    has_precedent: bool = False
    every: bool = False


def run(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    sensitivity: bool,
    format: str,
    out: Path | None,
    width: int,
    hands: SearchRunOptions,
) -> bool:
    """Search and print; True when something is feasible."""
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.render.views.search import text

    result = _answered(options, objective, where, limits, top, hands)
    if sensitivity and format == "csv":
        from rooflinecli.engine.build_request import warn

        warn("--sensitivity has no place in csv, which holds the rows alone; table, markdown and json have it")
    elif sensitivity and result["feasible"]:
        from rooflinecli.questions.sensitivity.robustness import robust

        result["sensitivity"] = _sensitivity(result, options)
        result["tornado"] = robust(result, options, options.get("hold") or HOLDS[0])
    write(text(result, format, width), out)
    return bool(result["feasible"])


def _answered(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    hands: SearchRunOptions,
) -> dict[str, Any]:
    from rooflinecli.core.parallel_map import spread_over
    from rooflinecli.questions.search.answer import answered
    from rooflinecli.questions.search.row_filter import RowFilter

    bar: list[Progress] = []

    def tell(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress(total, "layouts"))
        bar[0].add(done)

    over = spread_over(hands.jobs, hands.cluster) if hands.jobs > 1 or hands.cluster else None
    kept = RowFilter(hands.has_precedent, hands.every)
    found = answered(options, objective, where, limits, top, tell, over, hands.simulate, hands.slo, kept)
    for progress in bar:
        progress.close()
    return found


def _sensitivity(result: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    from rooflinecli.questions import multi_chip
    from rooflinecli.questions.sensitivity.elasticities import of_layout

    winner, each = result["results"][0], multi_chip.each(options)
    return of_layout(each[winner.get("chip") or next(iter(each))], winner["layout"], result["phase"])
