"""Published deployments of experts over many devices: predicted and measured throughput."""

from __future__ import annotations

from typing import Any

from rooflinecli.engine import build_request
from rooflinecli.formulas import serving
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.published_runs import published
from rooflinecli.validate.stats import Points

PHASES = {"output_tokens_per_s": "decode", "input_tokens_per_s": "prefill"}


def rows() -> tuple[dict[str, Any], ...]:
    """The rows of published_runs/deployments.yaml."""
    return tuple(published("deployments")["rows"])


def points(row: dict[str, Any]) -> Points:
    """Measured and expected tokens per second of one row; the floor of the time is a ceiling of the rate."""
    quantity, phase = next((q, p) for q, p in PHASES.items() if q in row)
    options = {"model": row["model"], "hw": row["hw"], "engine": "sglang", "phase": phase, **row["plan"], **row["load"]}
    answer = estimate(build_request.request(options))
    found: Any = answer.phases[phase]
    # a static load's rate is in proportion to one over its time, so the ends of the interval follow
    low, high = found.interval_s
    ceiling, least, most = (serving.rate_at(found.tokens_per_s, found.time_s, t) for t in (found.floor_s, high, low))
    return Points.of(row["id"], [(row[quantity], found.tokens_per_s, ceiling, least, most)], higher=True)
