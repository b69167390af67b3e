"""A simulation as an answer: what was asked, every number, and its 80% interval; and studies of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Workers
from rooflinecli.engine import evaluate, inference
from rooflinecli.engine.build_request import warn
from rooflinecli.engine.evaluate import prefill_share, token_prices
from rooflinecli.engine.forward_step import variation
from rooflinecli.engine.serving_load import ReplicaLoad, queue_for_cache
from rooflinecli.formulas import cost, energy, serving
from rooflinecli.questions.conditions import IntervalBounds
from rooflinecli.questions.simulate import question as types
from rooflinecli.questions.simulate.deployment import (
    Deployment,
    deployment,
    describe,
    fleet,
    one_request,
    scheduler_of,
    warn_of_idle,
)
from rooflinecli.questions.simulate.question import SCHEMA, STUDY_SCHEMA, Simulate
from rooflinecli.simulate import changing_clusters, request_load, slo, summary
from rooflinecli.simulate import cluster as running
from rooflinecli.simulate.changing_clusters import AutoscaledCluster, DegradedCluster, max_concurrent_failures
from rooflinecli.simulate.cluster import Cluster, Progress
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import RequestLatencies, SimRequest, times
from rooflinecli.simulate.request_load import Lengths, Trace, lengths, read, spread
from rooflinecli.simulate.summary import is_short, is_sustained
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import higher_is_better
from rooflinecli.specs.request import BOUNDS


@dataclass
class Run:
    """A run: the answer in numbers, the times of the requests after the warm-up and of every one, and the replicas as they stopped.

    `paid` says from when on how many replicas cost something; `interval`: least and most of every number over the run and its repeats,
    None before they ran; `search_interrupted`: in a search for the fewest replicas; `fewer`: the run of one replica fewer than those, None for one replica.
    """

    question: Simulate
    values: dict[str, Number]
    about: dict[str, Number]
    times: RequestLatencies
    every: RequestLatencies
    replicas: list[Replica]
    first_token_error: float = 0.0
    paid: tuple[tuple[float, int], ...] = ()
    interval: dict[str, list[float]] | None = None
    interrupted: bool = False
    search_interrupted: bool = False
    fewer: Run | None = None

    @property
    def bound(self) -> str:
        """The bound at which limits hold."""
        return self.question.bound or BOUNDS[0]

    def ends(self, name: str) -> IntervalBounds:
        """A number of the run with the ends of its interval, the better of which is its floor."""
        value, between = self.values[name], (self.interval or {}).get(name)
        low, high = between or (None, None)
        return IntervalBounds(value, "", high if higher_is_better(name) else low, low, high)

    def at_bound(self, name: str) -> float:
        """A number of which more is better at the bound."""
        return float(self.ends(name).at(self.bound, less=False))

    @property
    def meets_slo(self) -> bool:
        """Whether every target of the SLO is met at the bound."""
        return MARGIN not in self.values or self.at_bound(MARGIN) >= 0

    @property
    def sustained(self) -> bool:
        """Whether requests end as fast as they arrive; clients of a closed loop wait for them."""
        return bool(self.question.concurrency) or is_sustained(self.times, recorded=self.question.qps is None)


def run(question: Simulate, progress: Progress | None = None, scale: float = 1.0) -> Run:
    """Simulate, every step taking `scale` times as long; at a rate without --num-requests until the load is steady.

    Raises UsageError or Infeasible as an estimate does, and Infeasible for a request larger than the cache.
    """
    found = _run(question, progress, scale)
    extend = question.qps and not question.trace and not question.num_requests
    while extend and question.count < MAX_DRAWN and not found.interrupted and found.sustained and is_short(found.times):
        question = question.replace(num_requests=2 * question.count)
        found = _run(question, progress, scale)
    return found


def _run(question: Simulate, progress: Progress | None, scale: float) -> Run:
    trace = trace_of(question)
    prompt, output = length_distributions(question)
    served, cluster = fleet(question, question.copies, *mean_lengths(question), scale)
    cluster.progress = progress
    count = question.count * (len(cluster.replicas) if question.concurrency else 1)
    jobs, follow = (
        _trace_requests(question, trace)
        if trace is not None
        else (_drawn_requests(question, count, prompt, output), None)
    )
    _check_cache_holds(jobs, cluster.all_replicas)
    _check_classes(question, trace)
    for option, given in (("failures", question.failures), ("autoscale", question.autoscale)):
        if given and follow is not None:
            raise UsageError(
                f"--{option}: {question.trace} has sessions, whose next turns wait for answers; leave it out", option
            )
    if question.autoscale and served.ranks > 1:
        raise UsageError("--autoscale counts whole copies of a plan; leave --dp out", "autoscale")
    changing: AutoscaledCluster | DegradedCluster | None = None
    if question.scaling is not None:
        changing = AutoscaledCluster(cluster, question.scaling)
    elif question.replica_failures:
        changing = DegradedCluster(cluster, question.replica_failures)
    interrupted = False
    try:
        if changing is not None:
            changing.run_open_loop(jobs)
        elif question.concurrency:
            running.run_closed_loop(cluster, jobs, question.concurrency)
        else:
            running.run_open_loop(cluster, jobs, follow)
    except KeyboardInterrupt:
        interrupted = True
        if not cluster.ended:
            raise
    return replace(_summarized(question, served, cluster, changing), interrupted=interrupted)


def length_distributions(question: Simulate) -> tuple[Lengths, Lengths]:
    """The distributions that lengths are drawn from."""
    ctx = one_request(question.estimate_options)
    prompt, output = question.prompt or f"{float(ctx.prompt):g}", question.output or f"{float(ctx.output):g}"
    if question.length_range or question.fixed_lengths:
        between = spread(question.length_range) if question.length_range else (1.0, 1.0)
        return lengths("prompt", prompt, between), lengths("output", output, between)
    found = lengths("prompt", prompt), lengths("output", output)
    if {each.kind for each in found} != {"fixed"}:
        return found
    wide = variation(sum(each.mean for each in found), ctx.spec.max_context)
    prompts, outputs = (replace(each, spread=(1.0 - wide, 1.0 + wide)) for each in found)
    return prompts, outputs


def mean_lengths(question: Simulate) -> tuple[float, float]:
    """Mean tokens of a prompt and of an output."""
    trace, (prompt, output) = trace_of(question), length_distributions(question)
    return trace.means if trace is not None else (prompt.mean, output.mean)


def trace_of(question: Simulate) -> Trace | None:
    """The trace asked for, read once."""
    if not question.trace:
        return None
    return read(
        question.trace, question.trace_speed, question.trace_window or "", question.skip_invalid, question.num_requests or 0,
    )  # fmt: skip


def _trace_requests(
    question: Simulate, trace: Trace
) -> tuple[list[SimRequest], Callable[[SimRequest], SimRequest | None] | None]:
    """Jobs of a trace: as recorded, at a rate of one's own, or one after the other in a closed loop."""
    if question.concurrency:
        rows = [replace(row, think=None, time=0.0) for row in trace.rows]  # every turn is a request of its own
        return Trace(rows, trace.skipped, trace.format).jobs(lambda count: [0.0] * count)
    if (qps := question.qps) is not None:
        every = len(trace.rows)  # a rate of requests: sessions arrive less often, in proportion to their turns
        return trace.jobs(lambda n: request_load.arrival_times(question.arrivals, qps * n / every, n, question.seed))
    if not trace.timed:
        raise UsageError(f"--trace {question.trace}: it records no times; add --qps or --concurrency", "qps")
    return trace.jobs()


def _drawn_requests(question: Simulate, count: int, prompt: Lengths, output: Lengths) -> list[SimRequest]:
    """Jobs of a load that was not recorded; in a closed loop they come when others end."""
    qps = question.qps
    when = [0.0] * count if qps is None else request_load.arrival_times(question.arrivals, qps, count, question.seed)
    sizes = zip(when, prompt.draw(count, question.seed, 2), output.draw(count, question.seed, 3), strict=True)
    return [SimRequest(i, *each) for i, each in enumerate(sizes)]


def _check_cache_holds(jobs: list[SimRequest], replicas: list[Replica]) -> None:
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
    asked = {slo.label for slo in question.limits.slos} - {""} if question.limits else set()
    known = sorted({row.label for row in trace.rows} - {""}) if trace is not None and asked else []
    for label in sorted(asked - set(known)):
        has = (
            f"this one has {', '.join(known)}" if known else "this one has none; a trace with a column class names them"
        )
        raise UsageError(f"--slo {label}: the load has no such class of requests; {has}", "slo")


def _summarized(
    question: Simulate, served: Deployment, cluster: Cluster, changing: AutoscaledCluster | DegradedCluster | None
) -> Run:
    copies = question.prefill_replicas + question.decode_replicas or question.copies
    replicas, every = cluster.all_replicas, times(cluster.ended)
    found = every.since(question.warmup) if question.warmup else every
    if not len(found.arrival):
        raise UsageError(
            f"--warmup {question.warmup:g}s: no request that ended came after it; make it shorter, or the load longer",
            "warmup",
        )
    scaled = changing.paid if isinstance(changing, AutoscaledCluster) else None
    paid = None if scaled is None else changing_clusters.mean_paid(scaled, *summary.steady_window(found))
    devices = served.devices * (copies if paid is None else paid)
    values = summary.summary(found, replicas, question.limits, devices, question.warmup or 0.0, paid)
    values = {
        "replicas": copies,
        "devices": served.devices * copies,
        **values,
        **(changing.numbers if changing is not None else {}),
        **_costs(question, served, devices, values),
    }
    if paid is not None:
        values["replicas_mean"] = paid
    scheduler = scheduler_of(served.ctx, question.scheduler_config)
    about = describe(served, scheduler, replicas[0].limits)
    counts = ((0.0, copies),) if scaled is None else tuple(scaled)
    return Run(question, values, about, found, every, replicas, scheduler.first_token_error, counts)


def _costs(question: Simulate, served: Deployment, devices: float, values: dict[str, Number]) -> dict[str, Number]:
    """Dollars and joules per token, where the chip's file or --price says what an hour and a device take."""
    ctx, plan, rate = served.ctx, served.layout, values["output_tokens_per_s"]
    price, power = ctx.price, ctx.chip.power
    found: dict[str, Number] = {}
    if not rate or (price is None and power is None):
        return found
    batch = values["running_requests_mean"]
    busy = ReplicaLoad(
        "closed" if question.concurrency else "open", max(batch, 1.0) if question.concurrency else batch, 0.0
    )
    decoded = inference.decode_pass(ctx, plan, busy)
    step, context = decoded.seconds, serving.mean_context(ctx.prompt, ctx.output)
    if power is not None:
        use = evaluate.served_compute_use(ctx, batch, context, rate, devices)
        busy_share = values["engine_utilization"]
        watts = evaluate.mean_power(ctx, decoded.costs.t_memory / step * busy_share, use, decode=True)
        found["joules_per_output_token"] = float(energy.joules_per_token(devices, watts, rate))
    if price is not None:
        hourly = cost.fleet_price(devices, price)
        share = prefill_share(ctx, plan, step, batch, question.concurrency is None)
        prices = token_prices(hourly, values["input_tokens_per_s"], rate, share, ctx.utilization)
        found |= {name: float(usd) for name, usd in prices.items()}
    return found


MARGIN = "slo_attainment_margin"


def values_of(repeat: tuple[Simulate, float]) -> dict[str, Number]:
    """The numbers alone, of a question run to its end at a scale of its step times."""
    question, scale = repeat
    found = run(question, scale=scale)
    if found.interrupted:
        raise KeyboardInterrupt
    return found.values


MAX_DRAWN = 16_000  # requests to which a run without --num-requests is lengthened until its load is steady
MAX_REPEATED = 20_000  # requests up to which a run is repeated for its interval without being asked to
SEEDS = 3
MAX_REPLICAS = 4096  # that a search for the fewest tries


def variants(question: Simulate, seeds: int) -> list[tuple[Simulate, float]]:
    """The same question with further seeds, and with every step as fast and as slow as the interval of a decode step is wide."""
    trace = trace_of(question)
    low, high = deployment(question.estimate_options, *mean_lengths(question), question.load_per_replica).error
    drawn_again = trace is None or question.qps  # a trace at a rate of one's own has its arrivals drawn
    again = [] if not drawn_again else [(question.replace(seed=question.seed + i), 1.0) for i in range(1, seeds)]
    return [*again, *((question, end) for end in (low, high))]


def intervals(
    values: dict[str, Number], others: Iterable[dict[str, Number]], first_token_error: float = 0.0
) -> dict[str, list[float]]:
    """Least and most of every number over a run and its repeats, where they differ; of first tokens wider by their own error.

    With it 78 % of measured first tokens of models left out are inside, without 51 %; of further tokens 86 % are without more.
    """
    rows = [values, *others]
    found = {}
    for name, value in values.items():
        seen = [row[name] for row in rows if isinstance(row.get(name), (int, float))]
        if isinstance(value, float) and min(seen) < max(seen):
            beyond = 1 + first_token_error if name.startswith("ttft_") else 1.0
            found[name] = [min(seen) / beyond, max(seen) * beyond]
    return found


def curves(run: Run, points: int = 200) -> dict[str, list[tuple[float, float]]]:
    """(share of requests, seconds) of each time: the picture of its percentiles."""
    import numpy as np

    shares = np.linspace(0, 1, points + 1)
    return {
        name: [(float(s), float(v)) for s, v in zip(shares, np.quantile(getattr(run.times, name), shares), strict=True)]
        for name in ("ttft", "tpot", "e2e", "queue")
    }


def with_layout(question: Simulate, layout: Layout | types.SimulatedLayout) -> Simulate:
    """The question with its layout given, so that another load is served by the same."""
    sizes = {name: int(getattr(layout, name)) for name in ("tp", "pp", "dp", "cp", "ep")}
    return question.replace(n=int(layout.devices), **sizes)


def simulated(question: Simulate, progress: Progress | None = None, workers: Workers | None = None) -> Run:
    """The run of a question; with --replicas min of the fewest whose requests keep to the SLO at the bound.

    Found by doubling and halving, since more replicas never serve fewer requests inside the limits but for the draw of
    who goes where; the last step is run, so that what is printed was seen. Raises Infeasible when no count keeps to it.
    """
    if question.replicas != "min":
        return run(question, progress)
    question = with_layout(question, deployment(question.estimate_options, *mean_lengths(question)).layout)
    seen: dict[int, Run] = {}

    def meets(count: int) -> bool:
        if count not in seen:
            found = run(question.replace(replicas=count), progress)
            undecided = {"pessimistic": found.meets_slo, "floor": not found.meets_slo}  # until it is repeated
            seen[count] = bounded(found, workers) if undecided.get(found.bound) and found.sustained else found
        return not seen[count].interrupted and seen[count].meets_slo and seen[count].sustained

    low = max_concurrent_failures(question.replica_failures)  # at least one is there
    high = low + 1
    while not meets(high):
        if seen[high].interrupted:
            return replace(seen[high], search_interrupted=True)
        margins = [seen[count].at_bound(MARGIN) for count in (high // 2, high) if count in seen]
        if high >= MAX_REPLICAS or (  # twice the replicas no longer help: almost no request queues or shares a step
            len(margins) == 2 and margins[1] <= margins[0] + 1e-9 and seen[high].values["running_requests_mean"] < 0.5
        ):
            raise Infeasible(
                f"{high} replicas still serve only {seen[high].at_bound('slo_attainment'):.1%} of requests inside {question.slo}; the limits are out of reach of this plan, "
                "so relax --slo or change the plan"
            )
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
        if seen[middle].interrupted:  # fewer might do as well
            return replace(seen[high], interrupted=True, search_interrupted=True)
    return replace(seen[high], fewer=seen.get(high - 1))


@lru_cache(maxsize=256)
def bounded_run(question: Simulate) -> Run:
    """The run of a question with its interval. Raises Infeasible."""
    return bounded(simulated(question))


Cell = tuple[Simulate, dict[str, str]]
NOTES = (
    "four of five measured runs are inside such an interval, first tokens by an error of their own; what a scheduler of another version does is not in it",
)


def answer_and_run(
    question: Simulate, progress: Progress | None = None, workers: Workers | None = None
) -> tuple[types.SimulateAnswer, Run]:
    """The answer with the run that it is of. Raises UsageError or Infeasible as an estimate does."""
    ran = bounded(simulated(question, progress, workers), workers)
    warn_of_idle(ran.question, {"decode": ran.about["layout"]})
    trace = trace_of(ran.question)
    most, tokens = ran.about["max_context"], ran.every.prompt + ran.every.output
    beyond = int((tokens > most).sum()) if most else 0
    if beyond > 0 and float(tokens.mean()) <= float(most or 0):  # a mean beyond it is what an estimate warns of
        warn(
            f"{beyond:,} of {len(tokens):,} requests exceed the {most:,} tokens of {ran.about['model']}; an engine refuses them"
        )
    between = None if trace is not None else list(length_distributions(ran.question)[0].spread)
    notes = [*NOTES]
    if not question.fixed_lengths and not question.length_range and between and between[1] > 1:
        notes.append(
            f"lengths vary from {between[0]:.2g} to {between[1]:.2g} of --prompt and --output; --fixed-lengths: equal"
        )
    held = serving.held_tokens(
        ran.every.prompt.mean(), ran.every.output.mean(), ran.replicas[0].scheduler.reserve_share
    )
    fitting = len(ran.replicas) * int(ran.replicas[0].limits.pool / float(held))
    if question.concurrency and question.concurrency > fitting:
        notes.append(queue_for_cache(fitting, question.concurrency))
    scaling = ran.question.scaling
    if scaling is not None and ran.values["replicas_started"] and ran.values["ttft_p99_s"] > scaling.start / 2:
        notes.append(f"the slowest first tokens wait for replicas that start; give a MIN above {scaling.least}")
    if trace is not None and ran.values["steady_s"] >= ran.values["duration_s"]:
        notes.append("the trace is too short for a steady window: rates are over the whole run")
    if not ran.sustained:
        ends = float(ran.values["requests_per_s"] / ran.values["replicas"])
        more = f"; try --replicas {ceil(question.qps / ends)}" if question.qps is not None else ""
        notes.append(f"{_too_much(ran)}, so the queue grows and the latencies are of this run alone{more}")
    load = types.LoadAnswer.like(
        question, kind=question.load_kind, format=trace.format if trace else None, invalid_rows=trace.skipped if trace else 0,
        failed_requests=trace.failed if trace else 0, length_range=between, warmup_s=question.warmup,
    )  # fmt: skip
    answer = types.SimulateAnswer(
        schema=SCHEMA, **ran.about, load=load, simulate=ran.values, interval=ran.interval or {}, slo=_slo(ran),
        classes=slo.classes(ran.times, question.limits), interrupted=ran.interrupted, search_interrupted=ran.search_interrupted,
        sustained=ran.sustained, notes=notes,
    )  # fmt: skip
    return answer, ran


def _too_much(ran: Run) -> str:
    """What arrives and what ends of a load that cannot be sustained."""
    rate = "requests" if ran.question.qps is None else f"{ran.question.qps:g} requests/s"
    return f"the load cannot be sustained: {rate} arrive and {ran.values['requests_per_s']:.3g}/s end"


def bounded(ran: Run, workers: Workers | None = None) -> Run:
    """The run with its interval where repeats are asked for or are quick; they are not run again."""
    question = ran.question
    quick = len(ran.times.arrival) <= MAX_REPEATED
    asked = question.interval or (question.interval is None and (quick or question.num_seeds))
    if ran.interrupted or ran.interval is not None or not asked:
        return ran
    seeds = question.num_seeds or (SEEDS if quick else 1)
    try:
        others = (workers or map)(values_of, variants(question, seeds))
        return replace(ran, interval=intervals(ran.values, others, ran.first_token_error))
    except KeyboardInterrupt:  # the run itself is known; a range of some of its repeats would look surer than it is
        return replace(ran, interrupted=True)


def _slo(ran: Run) -> types.SloAnswer | None:
    limits, fewer = ran.question.limits, ran.fewer
    if limits is None:
        return None
    targets = [
        types.SloTarget.like(
            target, label=target.label or None, limits=dict(target.seconds), requests=int(target.requests(ran.times).sum()),
            target=target.share, attainment=(share := slo.attainment(ran.times, target)), met=share >= target.share,
        )
        for target in limits.slos
    ]  # fmt: skip
    return types.SloAnswer(
        limits=dict(limits.main.seconds), target=limits.main.share, met=ran.meets_slo, bound=ran.bound if ran.interval else "expected", targets=targets,
        expected_attainment_with_one_fewer_replica=float(fewer.values["slo_attainment"]) if fewer else None,
        attainment_with_one_fewer_replica=fewer.at_bound("slo_attainment") if fewer else None,
        margin_with_one_fewer_replica=fewer.at_bound(MARGIN) if fewer else None,
    )  # fmt: skip


def cell_values(cell: Cell) -> dict[str, Number]:
    """The numbers of one cell of a study; what does not fit has its reason instead."""
    question, apart = cell
    try:
        ran = simulated(question)
        ran = bounded(ran) if question.limits and ran.meets_slo else ran  # the repeats decide, else are not shown
    except Infeasible as error:
        return {**apart, "feasible": False, "violation": str(error)}
    if ran.interrupted:
        raise KeyboardInterrupt  # a part of a cell is no cell
    missed = ran.values.get(MARGIN, 0) >= 0 and not ran.meets_slo
    why = _too_much(ran) if not ran.sustained else f"SLO missed at the {ran.bound} bound" if missed else ""
    return {**apart, **ran.values, "feasible": ran.sustained, "violation": why}


def study(cells: list[Cell], spread: Workers, progress: Callable[[int], None] | None = None) -> types.StudyAnswer:
    """Return a row for each cell in order; after an interrupt, for the cells that had ended."""
    rows: list[dict[str, Number]] = []
    try:
        for row in spread(cell_values, cells):
            rows.append(row)
            if progress is not None:
                progress(1)
    except KeyboardInterrupt:
        if not rows:
            raise
    limits = cells[0][0].limits
    met = all(row["feasible"] and not row["violation"] and row.get(MARGIN, 0) >= 0 for row in rows)
    return types.StudyAnswer(
        schema=STUDY_SCHEMA, axes=list(cells[0][1]), slo=limits.text if limits else None, rows=rows, met=met
    )
