"""What `roofline search` does once its options are read."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.cli.progress import Progress
from rooflinecli.specs.options import OPTIONS


@dataclass
class Hands:
    """How many layouts to simulate, who works, and which layouts are rows."""

    simulate: int = 0
    jobs: int = 1
    cluster: str | None = None
    practised: bool = False
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
    hands: Hands,
) -> bool:
    """Search and print; True when something is feasible."""
    from rooflinecli.cli.output import write
    from rooflinecli.render.search import text

    serving = "train" not in ",".join(options.get("phase") or ["train"])
    result = _answered(options, objective, where, limits, top, hands)
    for row in [*result["results"], *([result["nearest_miss"]] if result["nearest_miss"] else [])]:
        row["estimate"] = _estimate(options, row["command"], serving)
    if sensitivity and result["feasible"]:
        result["sensitivity"] = _sensitivity(result, options)
    write(text(result, format, width), out)
    return bool(result["feasible"])


def _estimate(options: dict[str, Any], layout: str, serving: bool) -> str:
    """The whole command line that reproduces a row."""
    from rooflinecli.answers.search.question import OPEN

    layout_says = {"model", "hw", "phase", "n", *OPEN, *(("batch",) if serving else ())}
    words = ["roofline", "estimate", options["model"], "--hw", options["hw"]]
    words += ["--phase", "prefill", "--phase", "decode"] if serving else ["--phase", "train"]
    for name, written in options.items():
        if name not in layout_says:
            words += OPTIONS[name].words(written)
    return f"{shlex.join(words)} {layout}"


def _answered(
    options: dict[str, Any],
    objective: str | None,
    where: list[str],
    limits: dict[str, str | None],
    top: int,
    hands: Hands,
) -> dict[str, Any]:
    from rooflinecli.answers.search.answered import answered
    from rooflinecli.spread import spread_over

    bar: list[Progress] = []

    def tell(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress(total, "layouts"))
        bar[0].add(done)

    over = spread_over(hands.jobs, hands.cluster) if hands.jobs > 1 or hands.cluster else None
    found = answered(options, objective, where, limits, top, tell, over, hands.simulate, hands.practised, hands.every)
    for progress in bar:
        progress.close()
    return found


def _sensitivity(result: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    from rooflinecli.answers.sensitivity import of_layout

    return of_layout(options, result["results"][0]["layout"], result["phase"])
