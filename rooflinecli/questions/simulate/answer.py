"""A run as one object: what was asked, every number, and how sure it is."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.parallel_map import Spread
from rooflinecli.engine.build_request import warn
from rooflinecli.questions.simulate import repeat_seeds as repeated
from rooflinecli.questions.simulate.run import Run, figures, recorded
from rooflinecli.simulate import slo_attainment

SCHEMA = "roofline/simulate/1"
NOTES = (
    "four of five measured runs are inside such an interval, first tokens by an error of their own; what a scheduler of another version does is not in it",
)


def simulate(
    found: Run, fewer: Run | None, seeds: int | None, interval: bool | None, over: Spread | None = None
) -> dict[str, Any]:
    """The answer as one object: what was asked, every number, and how sure it is where repeats were asked for or are quick."""
    question, limits = found.question, found.question.limits
    quick = len(found.times.arrival) <= repeated.QUICK
    values: dict[str, Any] = {}
    cut = found.cut
    if not cut and (interval or (interval is None and (quick or seeds))):
        others = repeated.repeats(question, (repeated.SEEDS if quick else 1) if seeds is None else seeds)
        try:
            values = repeated.intervals(found.values, (over or map)(figures, others), found.first_token_error)
        except KeyboardInterrupt:  # the run itself is known; a range of some of its repeats would look surer than it is
            cut = True
    trace = recorded(question)
    _long(found)
    return {
        "schema": SCHEMA,
        **found.about,
        "load": {
            "kind": question.load,
            "trace": question.trace or None,
            "format": trace.format if trace else None,
            "skipped_rows": trace.skipped if trace else 0,
            "failed_rows": trace.failed if trace else 0,
            "qps": question.qps or None,
            "concurrency": question.concurrency or None,
            "warmup_s": question.warmup or None,
            "lose": question.lose or None,
            "autoscale": question.autoscale or None,
            "seed": question.seed,
        },
        "simulate": found.values,
        "interval": values,
        "slo": None
        if limits is None
        else {
            "limits": dict(limits.main.seconds),
            "share": limits.main.share,
            "kept": found.kept,
            "promises": slo_attainment.held(found.times, limits),
            "one_fewer_share": fewer.values["slo_share"] if fewer is not None else None,
            "one_fewer_margin_share": fewer.values["slo_margin_share"] if fewer is not None else None,
        },
        "classes": slo_attainment.classes(found.times, limits),
        "interrupted": cut,
        "search_interrupted": found.sought,
        "notes": list(NOTES),
    }


def _long(found: Run) -> None:
    """Warn of requests that the model was not made for, where the mean of them all, which an estimate looks at, is not."""
    most = found.about["max_context"]
    tokens = found.every.prompt + found.every.output
    beyond = int((tokens > most).sum()) if most else 0
    if beyond > 0 and float(tokens.mean()) <= float(most or 0):
        warn(
            f"{beyond:,} of {len(tokens):,} requests come to more than the {most:,} tokens of {found.about['model']}; an engine refuses them"
        )
