"""Every serving instance (TP, PP, DP, EP) at every batch, as arrays: rows are instances, columns are batches. And disaggregated prefill and
decode pools: the best instances of each, how many of each, on one chip or each on its own.

Every request passes both pools, so the slower one sets the rate. For each pool only the fastest instance of every size
can be part of an optimum; pairs of those are tried with every split of the devices. At a request rate a prompt waits in the
queue of its prefill instance, and its TTFT has the limit with that; at the highest rate of the devices there is no such mean.
The transfer of the KV cache between the pools is not charged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.num import Number, divisors
from rooflinecli.core.units import duration
from rooflinecli.engine import legality as legal
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer, interval_bound, prefill_share_under_load, time_at_bound, token_prices
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.engine.residency import max_batch
from rooflinecli.engine.serving_load import waits_for_cache
from rooflinecli.formulas import closed_loop, cost, energy, serving
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.question import InstanceSizes, Pool, Pools
from rooflinecli.questions.search.search_request import estimate_command
from rooflinecli.specs.layout import Layout, OpenValues
from rooflinecli.specs.quantities import BLENDED, COST
from rooflinecli.specs.request import Request

if TYPE_CHECKING:
    from rooflinecli.questions.search.search_request import ServingSearchQuestion


@dataclass
class InstanceGrid:
    """Arrays of shape (instances, batches): what each instance does at each batch, and where it may run at all."""

    layouts: list[InstanceSizes]
    batches: np.ndarray
    phases: dict[str, PhaseAnswer]
    serve: dict[str, np.ndarray]
    legal: np.ndarray
    fits: np.ndarray
    prefill_share: Number = 0.0  # of the server time, where an instance does both phases
    within: Number = (
        np.inf
    )  # requests per second up to which an open loop satisfies the limits on latencies, of each instance

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.layouts), len(self.batches)

    def whole(self, value: Number) -> np.ndarray:
        return np.broadcast_to(value, self.shape)

    def place(self, layout: InstanceSizes) -> int:
        """The row of a layout."""
        return [one.flags() for one in self.layouts].index(layout.flags())

    def rate_limit(self, layout: InstanceSizes) -> float:
        """Requests per second up to which an instance satisfies the limits on latencies in an open loop."""
        return float(self.whole(self.within)[self.place(layout), 0])


def layouts(ctx: EstimateContext, open_values: OpenValues, most: int) -> list[InstanceSizes]:
    """Instances of at most `most` devices: TP divides the heads, PP divides the layers; dp replicas of a mixture share its experts.

    Experts are split over the replicas, each over its tensor ranks (tp 1 is attention data parallelism), or over all ranks;
    with --attention-dp every rank attends for itself.
    """
    heads, experts = ctx.ledger.heads, ctx.ledger.experts
    tps = [t for t in divisors(min(heads, default=1)) if all(h % t == 0 for h in heads)]
    if ctx.request.attention_dp:
        tps = [1]
    shared = [e for e in divisors(min(experts)) if all(x % e == 0 for x in experts)] if experts else [1]
    found = []
    for tp, pp, dp in product(tps, divisors(ctx.ledger.n_layers), shared):
        if tp * pp * dp > most:
            continue
        for ep in sorted({dp, tp * dp} & set(shared)):
            layout = InstanceSizes(tp=tp, pp=pp, dp=dp, ep=ep)
            if all(layout[name] in open_values[name] for name in ("tp", "pp", "ep") if name in open_values):
                found.append(layout)
    return found


def request_of(request: Request, sizes: InstanceSizes, **load: float) -> Request:
    """The request of one instance under a load, as its command asks for it."""
    axes = {axis: float(sizes[axis]) for axis in ("tp", "pp", "dp", "ep")}
    return replace(request, devices=float(sizes.ranks), **axes, **load)  # type: ignore[arg-type]


def laid_out(request: Request, found: list[InstanceSizes]) -> Layout:
    """All instances as one layout, whose sizes are columns."""
    tp, pp, dp, ep = (
        np.array([f[k] for f in found], dtype=np.float64).reshape(-1, 1) for k in ("tp", "pp", "dp", "ep")
    )
    given = legal.layout_fields(request, "decode") | {"sequence_parallel": bool(request.sequence_parallel)}
    return Layout(tp=tp, pp=pp, dp=dp, ep=ep, zero=0, flash=request.flash, **given)


TURNS, CLOSE = 6, 0.005  # of the search for the rate of an instance, and how near its ends come together


def rate_within(
    request: Request,
    found: list[InstanceSizes],
    most: np.ndarray,
    headroom: Callable[[Mapping[str, PhaseAnswer]], Number],
) -> np.ndarray:
    """The largest rate of each instance, up to `most`, at which the latencies of an open loop leave `headroom` (the limit over the latency, less
    one), which falls nearly linearly with the rate: by secants, from below. Arrays of shape (instances, 1).

    Requests that arrive at random times wait longer than those of a closed loop of as many clients.
    """

    def left(rate: np.ndarray, rows: np.ndarray) -> np.ndarray:
        ctx = EstimateContext(replace(request, phases=("prefill", "decode"), concurrency=None, qps=rate))
        plan = laid_out(request, [found[i] for i in rows])
        room = headroom({phase: answer(ctx, plan, phase) for phase in ("prefill", "decode")})
        filled: np.ndarray = np.nan_to_num(np.broadcast_to(room, rate.shape), nan=-1.0)
        return filled

    rows = np.arange(len(found))
    low, high, above, below = 0.0 * most, 1.0 * most, 0.0 * most + 1.0, left(most, rows)
    low = np.where(below >= 0, most, low)
    before = np.zeros_like(most, dtype=bool)
    for turn in range(TURNS):
        rows = np.flatnonzero(high - low > CLOSE * high)
        if not rows.size:
            break
        a, b = above[rows], below[rows]
        part = np.clip(a / (a - b), 0.02, 0.98) if turn else 0.5  # what is left without any load is not known yet
        rate = low[rows] + (high[rows] - low[rows]) * part
        room = left(rate, rows)
        a = a if turn else np.maximum(2 * room - b, CLOSE)
        held, again = room >= 0, (room >= 0) == before[rows]
        # an end that stays twice counts half (the Illinois rule)
        above[rows] = np.where(held, room, np.where(again, a / 2, a))
        below[rows] = np.where(held, np.where(again, b / 2, b), room)
        low[rows], high[rows] = np.where(held, rate, low[rows]), np.where(held, high[rows], rate)
        before[rows] = held
    return low


def evaluate(request: Request, found: list[InstanceSizes], batches: np.ndarray, disaggregated: bool) -> InstanceGrid:
    """Prefill and decode of every instance at every batch: one closed loop of both, or each in a pool of its own (`disaggregated`)."""
    columns = batches.reshape(1, -1)
    asked = replace(request, phases=("prefill", "decode"))
    plan = laid_out(request, found)
    with np.errstate(all="ignore"):
        ctx = EstimateContext(replace(asked, batch=columns) if disaggregated else replace(asked, concurrency=columns))
        held = np.logical_not(waits_for_cache(ctx, plan))
        if (
            not disaggregated
        ):  # no row has a queue for the cache: beyond what that holds are the numbers of the most that it does
            most = num.maximum(max_batch(ctx, plan), 1)
            ctx = EstimateContext(replace(asked, concurrency=np.where(held, columns, most)))
        phases = {phase: answer(ctx, plan, phase) for phase in ("prefill", "decode")}
        rules = [rule for phase in phases for rule in legal.rules(ctx, plan, phase)]
        shape = (len(found), len(batches))
        fits = np.broadcast_to(held, shape)
        for result in phases.values():
            fits = fits & result.memory.fits
        serve = offered(phases, plan.devices, plan.dp, ctx.prompt, ctx.output)
        share = 0.0 if disaggregated else prefill_share_under_load(ctx, plan)
    ok = np.broadcast_to(legal.all_hold(rules), shape)
    offers = {k: np.broadcast_to(v, shape) for k, v in serve.items()}
    return InstanceGrid(found, batches, phases, offers, ok, np.broadcast_to(fits, shape), share)


def offered(
    phases: Mapping[str, PhaseAnswer], devices: Number, replicas: Number, prompt: Number, output: Number
) -> dict[str, Number]:
    """What one instance offers: latencies, request rates of its two jobs, devices."""
    prefill, decode = phases["prefill"], phases["decode"]
    return {
        "instance_devices": devices,
        "instance_replicas": replicas,
        "ttft_s": prefill.time_s,
        "itl_s": decode.time_s,
        "prefill_requests_per_s": serving.request_rate(prefill.tokens_per_s, prompt),
        "decode_requests_per_s": serving.request_rate(decode.tokens_per_s, output),
        "instance_tokens_per_s": decode.tokens_per_s,
    }


MOST_DEVICES = 4096  # devices of both pools, where neither -n nor a rate bounds them


@dataclass(frozen=True)
class PoolInstance:
    """An instance for a pool of one phase, with the options and the context of its chip, and how many of them there are.

    Its requests per second and the latency of its phase in seconds are those of one, expected and at the bound that ranks.
    """

    phase: str
    options: Options
    ctx: EstimateContext
    layout: InstanceSizes
    batch: float
    devices: float
    rate: float
    latency: float
    rate_at_bound: float
    latency_at_bound: float
    watts: float | None  # of a device
    within_limit: float  # requests per second at the bound with the queue inside the limit
    instances: float = 1.0

    @property
    def total(self) -> float:
        """Devices of the pool."""
        return self.instances * self.devices

    @property
    def usd_per_hour(self) -> float | None:
        """Price of the pool, where it is known."""
        return None if self.ctx.price is None else float(cost.fleet_price(self.total, self.ctx.price))

    def exact(self) -> PoolInstance:
        """The instance with the numbers that its command prints: one of an array may differ from a scalar's in the last digit."""
        request = replace(self.ctx.request, phases=(self.phase,))
        found = estimate(request_of(request, self.layout, batch=self.batch))
        tokens = found.workload.prompt if self.phase == "prefill" else found.workload.output
        answer, bound = found.phases[self.phase], self.ctx.request.bound
        rate = float(serving.request_rate(answer.tokens_per_s, tokens))
        return replace(
            self,
            rate=rate,
            latency=float(answer.time_s),
            rate_at_bound=float(interval_bound(rate, "requests_per_s", answer, bound, less=False)),
            latency_at_bound=float(time_at_bound(answer, bound)),
        )

    def queue_s(self, qps: float | None, rate: float) -> float | None:
        """Seconds that a prompt waits where `qps` come to all instances in turn, each of which reads `rate`; None where there is no such mean."""
        if qps is None or self.phase == "decode":
            return None
        return float(closed_loop.queue_for_prefill(qps / (self.instances * rate), 1 / rate))

    def answer(self, qps: float | None) -> Pool:
        """The pool as the contract shows it, with the `roofline estimate` command of one of its instances."""
        words = f"{self.layout.flags()} --batch {self.batch:g}"
        queue = self.queue_s(qps, self.rate)
        latency = self.latency + (queue or 0.0)
        return Pool.like(
            self, latency_at_bound_s=self.latency_at_bound + (self.queue_s(qps, self.rate_at_bound) or 0.0),
            ttft_s=latency if self.phase == "prefill" else None, queue_s=queue, itl_s=latency if self.phase == "decode" else None,
            chip=str(self.options["hw"]), estimate=estimate_command(self.options, words, (self.phase,)),
        )  # fmt: skip


@dataclass(frozen=True)
class PoolPair:
    """Instances for prefill on one chip, and instances for decode on the same or another."""

    prefill: PoolInstance
    decode: PoolInstance

    @property
    def devices(self) -> float:
        """Devices of both pools."""
        return self.prefill.total + self.decode.total

    @property
    def rate(self) -> float:
        """Requests per second that pass both pools."""
        p, d = self.prefill, self.decode
        return float(serving.pooled_rate(p.instances, p.rate, d.instances, d.rate))

    @property
    def usd_per_hour(self) -> float | None:
        """Price of both pools, where it is known."""
        p, d = self.prefill.usd_per_hour, self.decode.usd_per_hour
        return None if p is None or d is None else p + d

    def answer(self, qps: float | None) -> Pools:
        """The pair as the contract shows it, at a request rate: prompts carry the cost of the prefill pool, output tokens that of the decode pool."""
        p, d, hourly, ctx = self.prefill, self.decode, self.usd_per_hour, self.decode.ctx
        prefill, outputs = p.answer(qps), self.rate * float(ctx.output)
        usd: dict[str, float | None] = {COST["prefill"]: None, COST["decode"]: None, BLENDED: None}
        if hourly is not None:
            share = (p.usd_per_hour or 0.0) / hourly if hourly else 0.0
            prices = token_prices(hourly, self.rate * float(ctx.request_tokens), outputs, share, ctx.utilization)
            usd = {name: float(price) for name, price in prices.items()}
        joules = [energy.joules_per_token(o.total, o.watts, outputs) for o in (p, d) if o.watts]
        on = [f" of {o.options['hw']}" if p.options["hw"] != d.options["hw"] else "" for o in (p, d)]
        names = [" ".join(f"{k}{v}" for k, v in o.layout.entries() if v > 1) or "one device" for o in (p, d)]
        blended = usd[BLENDED]
        price = f", ${blended:.3g}/M tokens" if blended is not None else ""
        return Pools(
            prefill=prefill, decode=d.answer(qps), devices=self.devices, requests_per_s=self.rate, usd_per_hour=hourly, **usd,
            joules_per_token=float(sum(joules)) if len(joules) == 2 else None,
            summary=f"{p.instances:g} x {names[0]}{on[0]} for prefill ({duration(prefill.ttft_s or 0.0)}), {d.instances:g} x {names[1]}{on[1]} "
            f"at batch {d.batch:g} for decode ({duration(d.latency)}): {self.devices:g} devices sustain {self.rate:.3g} req/s{price}",
        )  # fmt: skip


def candidates(
    options: Options, ctx: EstimateContext, asked: ServingSearchQuestion, layouts: list[InstanceSizes]
) -> tuple[list[PoolInstance], list[PoolInstance]]:
    """The instances of one chip that meet the limits of the prefill pool and of the decode pool."""
    grid = evaluate(asked.request, layouts, np.array(asked.batches, dtype=np.float64), disaggregated=True)
    return _fastest(options, ctx, grid, asked, "prefill"), _fastest(options, ctx, grid, asked, "decode")


def ranked(
    asked: ServingSearchQuestion, chips: Sequence[tuple[list[PoolInstance], list[PoolInstance]]], top: int
) -> list[Pools]:
    """Pairs of pools on the chips, each pool on any of them, the best first; empty when no pool can meet its limit.

    The fewest devices (or dollars) for the rate asked for, of equals those that carry more, else the highest rate on the devices given, or per device.
    """
    first = asked.objectives[0].quantity.rpartition(".")[2]

    def key(pair: PoolPair) -> tuple[float, ...]:
        """What is better smaller: the objective, else devices; devices of several chips compare in dollars only."""
        usd, devices = pair.usd_per_hour, pair.devices
        if usd is None and first in (BLENDED, COST["decode"]):
            usd = float("inf")
        size = usd if usd is not None and (first in (BLENDED, COST["decode"]) or len(chips) > 1) else devices
        p, d = pair.prefill, pair.decode
        rate = float(serving.pooled_rate(p.instances, p.rate_at_bound, d.instances, d.rate_at_bound))
        return size if asked.qps is not None else size / rate, devices, -rate

    pairs = [
        pair
        for prefill, _ in chips
        for _, decode in chips
        for p in prefill
        for d in decode
        if (pair := _pair(asked, p, d)) is not None
    ]
    best = sorted(pairs, key=key)[:top]
    return [PoolPair(pair.prefill.exact(), pair.decode.exact()).answer(asked.qps) for pair in best]


def _fastest(
    options: Options, ctx: EstimateContext, grid: InstanceGrid, asked: ServingSearchQuestion, phase: str
) -> list[PoolInstance]:
    """The fastest instance of every size that meets the limit and is not beaten by a smaller one, all at the bound; of prefill at a
    request rate, the one that reads most prompts within it."""
    limit = asked.ttft if phase == "prefill" else asked.itl
    ok = (
        grid.legal
        & grid.whole(grid.phases[phase].memory.fits)
        & (grid.batches <= (ctx.request.max_sequences or num.INF))
    )
    answer, bound = grid.phases[phase], ctx.request.bound
    with np.errstate(all="ignore"):
        expected = grid.whole(grid.serve[f"{phase}_requests_per_s"])
        rate_at_bound = grid.whole(interval_bound(expected, "requests_per_s", answer, bound, less=False))
        time = grid.whole(time_at_bound(answer, bound))
        ok = ok & (time <= (np.inf if limit is None else limit))
        share: np.ndarray | float = 1.0
        if asked.qps is not None and limit is not None and phase == "prefill":
            share = closed_loop.load_within(limit - time, 1 / rate_at_bound)
    rates = np.where(ok, rate_at_bound * share, -1.0)
    watts = grid.whole(answer.derived["power_w"]) if "power_w" in answer.derived else None
    found: dict[float, PoolInstance] = {}
    for i, layout in enumerate(grid.layouts):
        j = int(np.argmax(rates[i]))
        size, rate = float(grid.serve["instance_devices"][i, j]), float(rates[i, j])
        if rate > (found[size].within_limit if size in found else 0.0):
            found[size] = PoolInstance(
                phase, options, ctx, layout, float(grid.batches[j]), size, float(expected[i, j]), float(grid.whole(answer.time_s)[i, j]),
                float(rate_at_bound[i, j]), float(time[i, j]), None if watts is None else float(watts[i, j]), rate,
            )  # fmt: skip
    return list(found.values())


def _pair(asked: ServingSearchQuestion, p: PoolInstance, d: PoolInstance) -> PoolPair | None:
    """How many instances of each, or None when they do not fit on the devices."""

    def pair(a: float, b: float) -> PoolPair:
        return PoolPair(replace(p, instances=float(a)), replace(d, instances=float(b)))

    if asked.qps is not None:
        found = pair(*(serving.instances_for_rate(asked.qps, o.within_limit) for o in (p, d)))
        return None if asked.devices is not None and found.devices > asked.devices else found
    budget = asked.devices or MOST_DEVICES
    counts = np.arange(1.0, budget // p.devices + 1)
    others = serving.whole_instances(budget - counts * p.devices, d.devices)
    counts, others = counts[others >= 1], others[others >= 1]
    if not len(counts):
        return None
    if asked.devices is None:  # the fewest instances whose rate per device is within 1% of the best ratio
        others = serving.instances_for_rate(counts * p.rate_at_bound, d.rate_at_bound)
    rates = serving.pooled_rate(counts, p.rate_at_bound, others, d.rate_at_bound)
    if asked.devices is None:
        devices = counts * p.devices + others * d.devices
        per = np.where(devices <= budget, rates / devices, 0.0)
        i = int(np.argmax(per >= 0.99 * per.max()))
    else:
        i = int(np.argmax(rates))
    return pair(counts[i], others[i])
