"""What `roofline search` does once its options are read."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.cli.progress import Progress
from rooflinecli.errors import UsageError
from rooflinecli.specs.options import OPTIONS


@dataclass
class Hands:
    """How many layouts to simulate, and who works."""

    simulate: int = 0
    jobs: int = 1
    cluster: str | None = None


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

    phases = ",".join(options.get("phase") or ["train"])
    serving = "train" not in phases
    if not serving and phases != "train":
        raise UsageError("--phase train searches alone; ask for prefill and decode in a second search")
    for name, written in limits.items():
        if written is not None and not serving:
            raise UsageError(f"--{name} {written}: belongs to serving; add --phase decode")
    if hands.simulate and (not serving or limits["qps"] is None):
        raise UsageError("--simulate needs a serving search at a rate; add --phase decode --qps RATE", "simulate")
    if serving:
        result = _serve(options, objective, where, limits, top)
        _simulate(options, result, limits, hands)
    else:
        result = _train(options, objective, where, top, hands)
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


def _simulate(options: dict[str, Any], result: dict[str, Any], limits: dict[str, str | None], hands: Hands) -> None:
    """Note beside the first rows what a simulation at the rate says of them."""
    if not hands.simulate or not result["results"]:
        return
    from rooflinecli.answers.search.simulated import simulated
    from rooflinecli.spread import spread_over

    rows = result["results"][: hands.simulate]
    for row, values in zip(rows, simulated(options, rows, limits, spread_over(hands.jobs, hands.cluster)), strict=True):
        row["simulate"] = values


def _train(options: dict[str, Any], objective: str | None, where: list[str], top: int, hands: Hands) -> dict[str, Any]:
    from rooflinecli.answers.search.question import question
    from rooflinecli.answers.search.report import report
    from rooflinecli.answers.search.train import search

    asked = question({**options, "phase": "train"}, objective or "throughput", where)
    bar: list[Progress] = []

    def tell(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress(total, "layouts"))
        bar[0].add(done)

    over = None
    if hands.jobs > 1 or hands.cluster:
        from rooflinecli.spread import spread_over

        over = spread_over(hands.jobs, hands.cluster)
    found = search(asked, tell, over)
    for progress in bar:
        progress.close()
    return report(asked, found, top)


def _serve(
    options: dict[str, Any], objective: str | None, where: list[str], limits: dict[str, str | None], top: int
) -> dict[str, Any]:
    from rooflinecli.answers.search.serve import search

    return search(options, objective, where, limits, top)


def _sensitivity(result: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    from rooflinecli.answers.sensitivity import of_layout

    return of_layout(options, result["results"][0]["layout"], result["phase"])
