"""The answer of `plan`: how many devices of which chip, how long, at what cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import rounded_up
from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.text import plural, times
from rooflinecli.engine import build_request, option_conflicts
from rooflinecli.engine.evaluate import interval_bound, token_price_at_qps
from rooflinecli.formulas import cost, serving
from rooflinecli.questions import multi_chip
from rooflinecli.questions.conditions import IntervalBounds, ends
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.plan.question import (
    Plan,
    PlanAnswer,
    PlannedChip,
    ServiceNumbers,
    ServingChip,
    ServingPlan,
    TrainingPlan,
)
from rooflinecli.questions.plan.training import ChipPlan, PlanTarget, no_price, target
from rooflinecli.questions.search import search_request
from rooflinecli.questions.search.question import InstanceLayout
from rooflinecli.questions.search.search_request import estimate_command
from rooflinecli.questions.search.serving import serving_grid
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

PRICE = "cost.usd_per_million_output_tokens"


@dataclass(frozen=True)
class ServingInstance:
    """An instance: its request and estimate at capacity, its command, requests per second with its ends, and up to which of them the limits on
    latencies hold in an open loop at the bound."""

    layout: InstanceLayout
    request: Request
    found: EstimateAnswer
    rate: IntervalBounds
    command: str
    within: float

    def sustained(self, bound: str) -> float:
        """Requests per second at the bound with the latencies inside their limits."""
        return min(float(self.rate.at(bound, less=False)), self.within)

    @property
    def hardware(self) -> str:
        return self.found.hardware.name

    @property
    def price(self) -> float | None:
        return self.found.cost.usd_per_device_hour

    @property
    def devices(self) -> int:
        return self.layout.devices

    def times(self, count: int, devices: int, qps: float) -> ServiceNumbers:
        """What `count` such instances on `devices` offer, and the price of tokens where `qps` requests/s come."""
        work = self.found.workload
        assert work.prompt is not None and work.output is not None  # of every server
        first, other = self.found.phases["prefill"], self.found.phases["decode"]
        tokens = ends(self.found, PRICE) if self.price is not None else None
        loaded = estimate(replace(self.request, concurrency=None, qps=qps / count))
        at_qps = [loaded.phases[name].time_s if loaded.feasible and name in loaded.timed else None for name in ("prefill", "decode")]  # fmt: skip
        return ServiceNumbers(
            instances=count, layout=self.layout, total_batch=float(serving.total_batch(self.layout.batch, self.layout.dp, count)),
            ttft_s=first.time_s, interval_ttft_s=list(first.interval_s),
            itl_s=other.time_s if "decode" in self.found.timed else None,
            interval_itl_s=list(other.interval_s) if "decode" in self.found.timed else None,
            ttft_at_qps_s=at_qps[0], itl_at_qps_s=at_qps[1],
            requests_per_s=count * self.rate.expected, requests_per_s_interval=[count * self.sustained("pessimistic"), count * self.rate.high],
            usd_per_million_input_tokens=self.found.cost.usd_per_million_input_tokens,
            usd_per_million_output_tokens=tokens.expected if tokens else None,
            usd_per_million_output_tokens_interval=[tokens.low, tokens.high] if tokens else None,
            usd_per_million_tokens=self.found.cost.usd_per_million_tokens,
            usd_per_million_tokens_at_qps=None if self.price is None else token_price_at_qps(cost.fleet_price(devices, self.price), qps, work.prompt + work.output),
        )  # fmt: skip


def instance(options: Options, layout: InstanceLayout, within: float) -> ServingInstance:
    """The instance of a layout that a serving search found, as its command asks for it. options: those of the search."""
    sizes = {axis: layout[axis] for axis in ("tp", "pp", "dp", "ep")}
    own = {k: v for k, v in options.items() if k not in ("n", "batch", "cp", *sizes)}
    load = {"n": layout.devices, "concurrency": layout.batch, "phase": ["prefill", "decode"]}
    asked = build_request.request({**own, **sizes, **load})
    found = estimate(asked)
    decode, output = found.phases["decode"], found.workload.output
    expected, low, high = (
        float(serving.request_rate(r, output)) for r in (decode.tokens_per_s, *decode.tokens_per_s_interval)
    )
    floor = float(interval_bound(expected, "requests_per_s", decode, "floor", less=False))
    rate = IntervalBounds(expected, "decode", floor, low, high)
    return ServingInstance(
        layout, asked, found, rate, estimate_command(options, layout.command, ("prefill", "decode")), within
    )


def plan_chip(asked: PlanTarget, name: str) -> tuple[PlannedChip, int]:
    """The chip's row, or why it has none; and how many layouts were looked at.

    It is the first row of a search at the rate: the fewest devices, and the cheapest tokens among those.
    """

    def none(reason: str) -> PlannedChip:
        return PlannedChip(chip=name, hardware=load_hardware(name).name, feasible=False, infeasible_reason=reason)

    assert asked.qps is not None
    options, limits = {**asked.each[name], "bound": asked.bound}, {**asked.limits, "qps": asked.qps}
    try:
        question = search_request.serving_question(options, None, list(asked.plan.where), limits)
        grid = serving_grid(question, "a service answers requests; plan its training with --tokens")
        asked.note_idle(replace(question.request, concurrency=1.0))  # as each row is served
        keep, _, worst = grid.weigh()
    except UsageError as error:
        return none(str(error)), 0
    layouts = int(grid.one.legal.sum())
    if not keep.any():
        return none(f"no instance meets the SLO; the closest misses it: {grid.nearest(worst).shortfall}"), layouts
    best = grid.best(keep, 1)[0].layout
    row = _row(asked, name, best, grid.one.rate_limit(best))
    most = asked.most_devices(name)
    if most is not None and row.devices > most:
        limit = "-n" if most == asked.most else "--power"
        n = row.numbers
        carried = most // n.layout.devices * n.requests_per_s_interval[0] / n.instances
        remedy = f"; {plural(most, 'device')} of this layout carry {carried:.3g} requests/s" if carried else ""
        return none(f"the rate takes {plural(row.devices, 'device')}, and {limit} allows {most:,}{remedy}"), layouts
    if asked.budget is not None and asked.plan.deadline is not None and row.period_cost_usd is None:
        row.feasible, row.infeasible_reason = False, no_price(row.chip)
    elif asked.budget is not None and row.period_cost_usd is not None and row.period_cost_usd > asked.budget:
        ratio, devices = times(row.period_cost_usd / asked.budget), plural(row.devices, "device")
        row.feasible = False
        enough = rounded_up(row.period_cost_usd)
        row.infeasible_reason = f"costs {ratio} times the budget on {devices}, the smallest number that carries the rate; try --budget '{enough:.0f} USD'"
    return row, layouts


def _row(asked: PlanTarget, name: str, layout: InstanceLayout, within: float) -> ServingChip:
    """A layout with as many instances as carry the rate at the bound; each number is what its command prints."""
    assert asked.qps is not None
    one = instance(asked.each[name], layout, within)
    count = int(serving.instances_for_rate(asked.qps, one.sustained(asked.bound)))
    devices = count * one.devices
    numbers = one.times(count, devices, asked.qps)
    hourly = None if one.price is None else float(cost.fleet_price(devices, one.price))
    return ServingChip(
        chip=name, hardware=one.hardware, devices=devices, numbers=numbers, usd_per_hour=hourly,
        period_cost_usd=None if hourly is None or asked.plan.deadline is None else float(cost.run_cost(asked.plan.deadline, hourly)),
        cost_at_bound_usd=hourly, time_at_bound_s=(numbers.interval_itl_s or numbers.interval_ttft_s)[1], usd_per_device_hour=one.price,
        price=None if one.price is None else "given" if "price" in asked.each[name] else "file", command=one.command,
    )  # fmt: skip


CRITERIA = (
    "smallest device count that meets the deadline, in steps of 1/16",
    "shortest run within the budget",
    "smallest device count for the rate",
)


def plan(question: Plan, workers: Workers | None, progress: Callable[[int, int], None]) -> PlanAnswer:
    """The plan of a training run, or of a service, on every chip, the best first. `progress` hears of layouts that were searched since it last did,
    and of all chips that are planned.

    Ranked by cost at the bound, by time where only a budget is given; chips without a price come after those with one,
    infeasible ones last. Raises UsageError for what is wrong with the question.
    """
    asked = target(question)
    rows, layouts = list[PlannedChip](), 0
    chips = [
        ChipPlan(asked, name, workers, lambda done, _: progress(done, len(rows)))
        for name in asked.each
        if asked.qps is None
    ]
    try:
        for place, name in enumerate(asked.each):
            if chips:
                asked.note_idle(chips[place].request)
                row, count = chips[place].answer(), sum(tried.best.legal for tried in chips[place].tried.values())
            else:
                row, count = plan_chip(asked, name)
            rows.append(row)
            layouts += count
            progress(0 if chips else count, len(rows))
    except KeyboardInterrupt:  # the chips that are done are an answer
        if not rows:
            raise
    option_conflicts.warn_of_idle(asked.idle)
    ranked = _ranked(rows, by_time=asked.qps is None and asked.plan.deadline is None)
    unpriced, feasible = multi_chip.unpriced(asked.each), any(row.feasible for row in rows)
    interrupted = len(rows) < len(asked.each)
    if asked.qps is not None:
        model = load_model(str(question.options()["model"])).name
        return ServingPlan(
            model=model, phase="serve", budget_usd=asked.budget, bound=asked.bound, criterion=CRITERIA[2], where=list(asked.plan.where), layouts=layouts,
            rows=ranked, unpriced=unpriced, feasible=feasible, interrupted=interrupted, qps=asked.qps, limits_s=asked.limits, period_s=asked.plan.deadline,
        )  # fmt: skip
    request = chips[0].request
    return TrainingPlan(
        model=request.model.name, phase="train", budget_usd=asked.budget, bound=asked.bound, criterion=CRITERIA[asked.plan.deadline is None],
        where=list(asked.plan.where), layouts=layouts, rows=ranked, unpriced=unpriced, feasible=feasible, tokens=request.tokens,
        deadline_s=asked.plan.deadline, interrupted=interrupted,
    )  # fmt: skip


def _ranked(rows: list[PlannedChip], by_time: bool) -> list[PlannedChip]:
    """Feasible first, numbered."""
    found = sorted(rows, key=lambda row: (not row.feasible, *(row.order[-1:] if by_time else row.order)))
    for place, row in enumerate(found, 1):
        row.rank = place if row.feasible else None
    return found
