"""A question -> one run of the fleet, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import decode_step
from rooflinecli.engine.cost import token_prices
from rooflinecli.engine.serving_load import prefill_interference_s
from rooflinecli.formulas import capacity, cost, serving
from rooflinecli.questions.simulate.deployment import (
    Deployment,
    default_lengths,
    describe,
    fleet,
    max_context,
    scheduler_of,
)
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.simulate.run_load import LoadRun
from rooflinecli.simulate import request_load, summary
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import RequestLatencies, SimRequest, times
from rooflinecli.simulate.request_load import Lengths, lengths, spread
from rooflinecli.simulate.trace_replay import Trace

Tell = Callable[[int], None]
VARIATION = (
    0.2  # of a length given as one number: requests of a service are of no one length (an estimate's mean says so too)
)


@dataclass
class Run:
    """A run: the answer in numbers, the times of the requests after the warm-up and of every one, and the replicas as they stopped.

    `paid` says from when on how many replicas cost something; `cut` where it was interrupted; `sought` where that was in a search for the fewest replicas.
    """

    question: Simulate
    values: dict[str, Number]
    about: dict[str, Number]
    times: RequestLatencies
    every: RequestLatencies
    replicas: list[Replica]
    first_token_error: float = 0.0
    paid: tuple[tuple[float, int], ...] = ()
    cut: bool = False
    sought: bool = False

    @property
    def kept(self) -> bool:
        """Whether every promise is."""
        return bool(self.values.get("slo_attainment_margin", 0.0) >= 0)


def run(question: Simulate, tell: Tell | None = None, scale: float = 1.0) -> Run:
    """Simulate, every step taking `scale` times as long. Raises UsageError or Infeasible as an estimate does, and Infeasible for a request larger than the cache."""
    trace = recorded(question)
    prompt, output = drawn(question)
    means = trace.means if trace is not None else (prompt.mean, output.mean)
    one, ready = fleet(question, question.copies, *means, scale)
    count = question.count * (len(ready.replicas) if question.concurrency else 1)
    jobs, follow = (
        _recorded_jobs(question, trace) if trace is not None else (_made(question, count, prompt, output), None)
    )
    _fit(jobs, ready.every)
    _check_classes(question, trace)
    _plain(question, one, follow is not None)
    play = LoadRun(question, ready, tell)
    try:
        play(jobs, follow)
    except KeyboardInterrupt:
        if not play.ended:
            raise
        return replace(_answered(question, one, play), cut=True)
    return _answered(question, one, play)


def drawn(question: Simulate) -> tuple[Lengths, Lengths]:
    """The distributions that lengths are drawn from."""
    usual = ("", "") if question.prompt and question.output else default_lengths(question.estimate_options)
    prompt, output = question.prompt or usual[0], question.output or usual[1]
    if question.length_range or question.fixed_lengths:
        between = spread(question.length_range) if question.length_range else (1.0, 1.0)
        return lengths("prompt", prompt, between), lengths("output", output, between)
    found = lengths("prompt", prompt), lengths("output", output)
    if {each.kind for each in found} != {"fixed"}:
        return found
    room = (max_context(question.estimate_options) or math.inf) / sum(each.mean for each in found)
    wide = max(min(VARIATION, room - 1.0), 0.0)
    prompts, outputs = (replace(each, spread=(1.0 - wide, 1.0 + wide)) for each in found)
    return prompts, outputs


def recorded(question: Simulate) -> Trace | None:
    """The trace asked for, read once."""
    if not question.trace:
        return None
    from rooflinecli.simulate.trace_replay import read

    return read(
        question.trace,
        question.trace_speed,
        question.trace_window or "",
        question.skip_invalid,
        question.num_requests or 0,
    )


def _recorded_jobs(
    question: Simulate, trace: Trace
) -> tuple[list[SimRequest], Callable[[SimRequest], SimRequest | None] | None]:
    """Jobs of a trace: as recorded, at a rate of one's own, or one after the other in a closed loop."""
    if question.concurrency:
        jobs, _ = without_sessions(trace).jobs(lambda count: [0.0] * count)
        return jobs, None
    if (qps := question.qps) is not None:
        every = len(trace.rows)  # a rate of requests: sessions arrive less often, in proportion to their turns
        return trace.jobs(lambda n: request_load.arrival_times(question.arrivals, qps * n / every, n, question.seed))
    if not trace.timed:
        raise UsageError(f"--trace {question.trace}: it records no times; add --qps or --concurrency", "qps")
    return trace.jobs()


def without_sessions(trace: Trace) -> Trace:
    """The trace without its sessions' order: a closed loop takes every turn as a request of its own."""
    return Trace([replace(row, think=None, time=0.0) for row in trace.rows], trace.skipped, trace.format)


def _made(question: Simulate, count: int, prompt: Lengths, output: Lengths) -> list[SimRequest]:
    """Jobs of a load that was not recorded; in a closed loop they come when others end."""
    qps = question.qps
    when = [0.0] * count if qps is None else request_load.arrival_times(question.arrivals, qps, count, question.seed)
    sizes = zip(when, prompt.draw(count, question.seed, 2), output.draw(count, question.seed, 3), strict=True)
    return [SimRequest(i, *each) for i, each in enumerate(sizes)]


def _fit(jobs: list[SimRequest], replicas: list[Replica]) -> None:
    """Raises Infeasible for a request that no replica can ever hold."""
    if not jobs:
        raise UsageError("the load has no requests; widen --trace-window or raise --num-requests")
    pool, pad = replicas[0].limits.pool, replicas[0].pad
    largest = max(jobs, key=lambda job: job.prompt + job.output)
    needs = largest.prompt + largest.output + pad + 1
    if needs > pool:
        raise Infeasible(
            f"a request of {largest.prompt:,} + {largest.output:,} tokens needs more cache than the {pool:,} tokens of a replica; "
            "use more devices per replica (--tp) or a narrower cache (--kv-dtype)"
        )


def _check_classes(question: Simulate, trace: Trace | None) -> None:
    """Raises UsageError for a target of a class of requests that the load does not have."""
    asked = {promise.label for promise in question.limits.promises} - {""} if question.limits else set()
    known = sorted({row.label for row in trace.rows} - {""}) if trace is not None and asked else []
    for label in sorted(asked - set(known)):
        has = (
            f"this one has {', '.join(known)}" if known else "this one has none; a trace with a column class names them"
        )
        raise UsageError(f"--slo {label}: the load has no such class of requests; {has}", "slo")


def _plain(question: Simulate, one: Deployment, sessions: bool) -> None:
    """Raises UsageError where replicas come or go and that is not simulated."""
    for option, given in (("failures", question.failures), ("autoscale", question.autoscale)):
        if given and sessions:
            raise UsageError(
                f"--{option}: {question.trace} has sessions, whose next turns wait for answers; leave it out", option
            )
    if question.autoscale and one.ranks > 1:
        raise UsageError("--autoscale counts whole copies of a plan; leave --dp out", "autoscale")


def _answered(question: Simulate, one: Deployment, play: LoadRun) -> Run:
    copies = question.prefill_replicas + question.decode_replicas or question.copies
    replicas, every = play.fleet.every, times(play.ended)
    found = every.since(question.warmup) if question.warmup else every
    if not len(found.arrival):
        raise UsageError(
            f"--warmup {question.warmup:g}s: no request that ended came after it; make it shorter, or the load longer",
            "warmup",
        )
    paid = play.paid(*summary.steady_window(found))
    devices = one.devices * (copies if paid is None else paid)
    values = summary.summary(found, replicas, question.limits, devices, question.warmup or 0.0, paid)
    values = {
        "replicas": copies,
        "devices": one.devices * copies,
        **values,
        **play.more,
        **_costs(one, devices, values),
    }
    if paid is not None:
        values["replicas_mean"] = paid
    scheduler = scheduler_of(one.ctx, question.scheduler_config)
    about = describe(one, scheduler, replicas[0].limits)
    counts = tuple(play.scaled.paid) if play.scaled is not None else ((0.0, copies),)
    return Run(question, values, about, found, every, replicas, scheduler.first_token_error, counts)


def _costs(one: Deployment, devices: float, values: dict[str, Number]) -> dict[str, Number]:
    """Dollars and joules per token, where the chip's file or --price says what an hour and a device take."""
    rate, price, power = values["output_tokens_per_s"], one.ctx.price, one.ctx.chip.power
    found: dict[str, Number] = {}
    if price is not None and rate:
        hourly, plan = cost.fleet_price(devices, price), one.layout
        batch = max(values["running_requests_mean"], 1.0)
        context = serving.mean_context(one.ctx.prompt, one.ctx.output)
        step = decode_step.token_step(one.ctx, plan, batch, context).seconds
        prefill = prefill_interference_s(one.ctx, plan) / plan.pp
        share = cost.prefill_share(prefill, step, batch, one.ctx.output)
        prices = token_prices(hourly, values["input_tokens_per_s"], rate, share, one.ctx.utilization)
        found |= {name: float(usd) for name, usd in prices.items()}
    if power is not None and rate:
        found["joules_per_output_token"] = float(capacity.joules_per_token(devices, power, rate))
    return found


def figures(repeat: tuple[Simulate, float]) -> dict[str, Number]:
    """The numbers alone, of a question run to its end at a scale of its step times."""
    question, scale = repeat
    found = run(question, scale=scale)
    if found.cut:
        raise KeyboardInterrupt
    return found.values
