"""The fewest replicas that keep to a promise, and one fewer, which do not."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.simulate.run import Run, Tell, run
from rooflinecli.simulate.failures import max_concurrent_failures


def min_replicas(question: Simulate, most: int = 4096, tell: Tell | None = None) -> tuple[Run, Run | None]:
    """The fewest replicas whose requests keep to the SLO, with the run of one fewer, which does not (None for one replica).

    Found by doubling and halving, since more replicas never serve fewer requests inside the limits but for the draw of
    who goes where; the last step is run, so that what is printed was seen. Raises UsageError without an SLO, Infeasible
    when no count keeps to it.
    """
    limits = question.limits
    if limits is None:
        raise UsageError("--replicas min requires --slo, such as --slo ttft=2s,itl=50ms@99", "slo")
    if question.autoscale:
        raise UsageError("--replicas min and --autoscale are mutually exclusive; give one of them", "replicas")
    if question.concurrency or question.prefill_replicas:
        raise UsageError("--replicas min requires an open loop on one pool: --qps or --trace", "replicas")
    seen: dict[int, Run] = {}

    def keeps(count: int) -> bool:
        if count not in seen:
            seen[count] = run(question.replace(replicas=count), tell)
        return not seen[count].cut and seen[count].kept

    low = max_concurrent_failures(question.replica_failures)  # at least one is there
    high = low + 1
    while not keeps(high):
        if seen[high].cut:
            return replace(seen[high], sought=True), None
        if high >= most or _alone_misses(seen, high):
            share = seen[high].values["slo_attainment"]
            raise Infeasible(
                f"{high} replicas still serve only {share:.1%} of requests inside {limits.text}; the limits are out of reach of this plan, "
                "so relax --slo or change the plan"
            )
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
        if seen[middle].cut:  # fewer might do as well
            return replace(seen[high], cut=True, sought=True), None
    return seen[high], seen.get(high - 1)


def _alone_misses(seen: dict[int, Run], high: int) -> bool:
    """Whether twice the replicas no longer help: the share has not moved, and nearly nobody queues or shares a step."""
    before = seen.get(high // 2)
    return (
        before is not None
        and seen[high].values["slo_attainment_margin"] <= before.values["slo_attainment_margin"] + 1e-9
        and seen[high].values["running_requests_mean"] < 0.5
    )
