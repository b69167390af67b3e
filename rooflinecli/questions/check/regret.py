"""Regret: how far a plan is behind the best layout of the same devices, batch and formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rooflinecli.core.errors import RooflineError, UsageError, unknown
from rooflinecli.core.num import divisors
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.interval_bound import time_at_bound
from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST

if TYPE_CHECKING:
    from rooflinecli.questions.check.cases import CheckCase
    from rooflinecli.questions.check.run import Estimator

REGRET, FORMER_REGRET = "regret_fraction", "within_of_best"
# what a search may choose for itself; the rest of the question stays
LAYOUT = (
    "n",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "zero",
    "shard",
    "micro-batch",
    "virtual-stages",
    "recompute",
    "sequence-parallel",
)
_UNSEARCHED = ("stages", "recompute-modules", "recompute-layers")


def ends(case: CheckCase, result: EstimateAnswer, name: str, answer: Estimator) -> IntervalBounds:
    """The fraction by which the plan's time exceeds that of the best layout, both at the bound of the check.

    Below zero where the plan has what no search tries. Raises UsageError for another name, and for a load that depends on the layout.
    """
    if name not in (REGRET, FORMER_REGRET):
        raise unknown("quantity of a layout", name, [REGRET])
    phase = "train" if "train" in result.phases else "decode"
    own = float(time_at_bound(result.phases[phase], case.hold))
    best, words = (_training if phase == "train" else _serving)(case, result, answer)
    return IntervalBounds(own / best - 1, phase, note=f"best found: {words}")


def _training(case: CheckCase, result: EstimateAnswer, answer: Estimator) -> tuple[float, str]:
    """The best of every layout by search."""
    from rooflinecli.questions.search.explain_rows import command, request_of
    from rooflinecli.questions.search.search_request import question
    from rooflinecli.questions.search.training import search

    open_ = {k: v for k, v in case.options.items() if k not in (*LAYOUT, *_UNSEARCHED)}
    devices = result.phases["train"].layout_of_phase.devices
    asks = question({**open_, "n": str(devices), "phase": "train", "hold": case.hold}, "time", [])
    found = search(asks).ranking.top(1)
    if not found:
        raise UsageError(
            f"layout.{REGRET}: no layout of {devices:,} devices fits; there is no best layout to compare with", "n"
        )
    from rooflinecli.questions.estimate.answer import estimate

    best = estimate(request_of(asks, found[0].layout)).phases["train"]
    return float(time_at_bound(best, case.hold)), command(asks, found[0].layout)


def _serving(case: CheckCase, result: EstimateAnswer, answer: Estimator) -> tuple[float, str]:
    """The shortest inter-token latency of the same sequences on the same devices, over every split into replicas."""
    load = next((k for k in ("concurrency", "batch") if k in case.options), "batch")
    if "qps" in case.options or result.workload.concurrency == "max" or case.options.get("concurrency") == MOST:
        raise UsageError(
            f"layout.{REGRET}: not defined with qps or concurrency max, where the load depends on the layout; give batch or concurrency",
            load,
        )
    plan, rest = (
        result.phases["decode"].layout_of_phase,
        {k: v for k, v in case.options.items() if k not in (*LAYOUT, load)},
    )
    each = (
        float(build_request.value(OPTIONS[load], case.options[load]))
        if load in case.options
        else float(result.workload.batch or 1)
    )
    found = []
    for sizes in _splits(EstimateContext(build_request.request(case.options)), plan, int(each) * plan.dp):
        share = {load: int(each) * plan.dp // sizes["dp"]}
        try:
            other = answer({**rest, **sizes, **share, "n": plan.devices})
        except RooflineError:
            continue
        if other.feasible:
            words = " ".join(f"--{k} {v}" for k, v in {**sizes, **share}.items())
            found.append((float(time_at_bound(other.phases["decode"], case.hold)), f"-n {plan.devices} {words}"))
    if not found:
        raise UsageError(
            f"layout.{REGRET}: no layout of {plan.devices:,} devices fits; there is no best layout to compare with", "n"
        )
    return min(found)


def _splits(ctx: EstimateContext, plan: LayoutAnswer, sequences: int) -> Iterator[dict[str, int]]:
    """TP, PP, DP and EP over the plan's devices, so that every replica takes as many whole sequences."""
    experts = ctx.ledger.experts
    for tp in divisors(plan.devices):
        for pp in divisors(plan.devices // tp):
            dp = plan.devices // tp // pp
            if any(h % tp for h in ctx.ledger.heads) or ctx.ledger.n_layers % pp or sequences % dp:
                continue
            for ep in divisors(dp) if experts else (1,):
                if all(x % ep == 0 for x in experts):
                    yield {"tp": tp, "pp": pp, "dp": dp, "ep": ep}
