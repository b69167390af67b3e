"""Disaggregated prefill and decode pools: the best instances of each, how many of each, on one chip or each on its own.

Every request passes both pools, so the slower one sets the rate. For each pool only the fastest instance of every size
can be part of an optimum; pairs of those are tried with every split of the devices. The transfer of the KV cache between
the pools is not charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.cost import token_prices
from rooflinecli.engine.evaluate import interval_bound, time_at_bound
from rooflinecli.formulas import cost, energy, serving
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.question import InstanceSizes, Pool, Pools
from rooflinecli.questions.search.search_request import estimate_command
from rooflinecli.specs.quantities import BLENDED, COST

if TYPE_CHECKING:
    from rooflinecli.questions.search.search_request import ServingSearchQuestion

MOST = 4096  # devices of both pools, where neither -n nor a rate bounds them


@dataclass(frozen=True)
class PoolInstance:
    """An instance for a pool, its requests per second and the latency of its phase in seconds, expected and at the bound that holds."""

    layout: InstanceSizes
    batch: float
    devices: float
    rate: float
    latency: float
    rate_at_bound: float
    latency_at_bound: float
    watts: float | None  # of a device


@dataclass(frozen=True)
class ChipCandidates:
    """What one chip offers to either pool: the options of its question, and the instances worth looking at."""

    options: Options
    ctx: EstimateContext
    prefill: list[PoolInstance]
    decode: list[PoolInstance]


@dataclass(frozen=True)
class PoolPair:
    """Instances for prefill on one chip, and instances for decode on the same or another."""

    chips: tuple[ChipCandidates, ChipCandidates]
    pools: tuple[PoolInstance, PoolInstance]
    counts: tuple[float, float]

    @property
    def devices_each(self) -> tuple[float, float]:
        """Devices of either pool."""
        (a, b), (p, d) = self.counts, self.pools
        return a * p.devices, b * d.devices

    @property
    def devices(self) -> float:
        """Devices of both pools."""
        return sum(self.devices_each)

    @property
    def rate(self) -> float:
        """Requests per second that pass both pools."""
        (a, b), (p, d) = self.counts, self.pools
        return float(serving.pooled_rate(a, p.rate, b, d.rate))

    @property
    def rate_at_bound(self) -> float:
        """Requests per second that pass both pools, at the bound that ranks."""
        (a, b), (p, d) = self.counts, self.pools
        return float(serving.pooled_rate(a, p.rate_at_bound, b, d.rate_at_bound))

    @property
    def usd_per_hour(self) -> float | None:
        """Price of both pools, where it is known."""
        prices = [chip.ctx.price for chip in self.chips]
        known = [float(cost.fleet_price(n, p)) for n, p in zip(self.devices_each, prices, strict=True) if p is not None]
        return sum(known) if len(known) == len(prices) else None

    @property
    def usd_per_million(self) -> dict[str, float | None]:
        """Prices of input tokens, output tokens and both: prompts carry the prefill pool, output tokens the decode pool."""
        usd, ctx = self.usd_per_hour, self.chips[1].ctx
        if usd is None:
            return {COST["prefill"]: None, COST["decode"]: None, BLENDED: None}
        prefill = float(cost.fleet_price(self.devices_each[0], self.chips[0].ctx.price))
        inputs = self.rate * float(ctx.request_tokens)
        prices = token_prices(usd, inputs, self.tokens_per_s, prefill / usd if usd else 0.0, ctx.utilization)
        return {name: float(price) for name, price in prices.items()}

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second."""
        return self.rate * float(self.chips[0].ctx.output)

    @property
    def joules_per_token(self) -> float | None:
        """Energy of an output token with its part of the prompt, where the power of both chips is known."""
        watts = [pool.watts for pool in self.pools]
        each = [
            energy.joules_per_token(n, w, self.tokens_per_s) for n, w in zip(self.devices_each, watts, strict=True) if w
        ]
        return float(sum(each)) if len(each) == len(self.pools) else None

    def exact(self) -> PoolPair:
        """The pair with the numbers that its commands print: one of an array may differ from a scalar's in the last digit."""
        halves = []
        for phase, chip, pool in zip(("prefill", "decode"), self.chips, self.pools, strict=True):
            request = replace(chip.ctx.request, phases=(phase,))
            found = estimate(instances.request_of(request, pool.layout, batch=pool.batch))
            tokens = found.workload.prompt if phase == "prefill" else found.workload.output
            answer = found.phases[phase]
            rate, bound = float(serving.request_rate(answer.tokens_per_s, tokens)), chip.ctx.request.bound
            halves.append(
                replace(
                    pool,
                    rate=rate,
                    latency=float(answer.time_s),
                    rate_at_bound=float(interval_bound(rate, "requests_per_s", answer, bound, less=False)),
                    latency_at_bound=float(time_at_bound(answer, bound)),
                )
            )
        return replace(self, pools=(halves[0], halves[1]))

    def answer(self) -> Pools:
        """The pair as the contract shows it, each pool with the `roofline estimate` command of one of its instances."""
        halves = [self._pool(phase, i) for i, phase in enumerate(("prefill", "decode"))]
        return Pools(
            prefill=halves[0],
            decode=halves[1],
            devices=self.devices,
            requests_per_s=self.rate,
            usd_per_hour=self.usd_per_hour,
            **self.usd_per_million,
            joules_per_token=self.joules_per_token,
            summary=self._summary(),
        )

    def _pool(self, phase: str, i: int) -> Pool:
        pool, options = self.pools[i], self.chips[i].options
        words = f"{pool.layout.flags()} --batch {pool.batch:g}"
        return Pool.like(
            pool,
            latency_at_bound_s=pool.latency_at_bound,
            ttft_s=pool.latency if phase == "prefill" else None,
            itl_s=pool.latency if phase == "decode" else None,
            instances=self.counts[i],
            chip=str(options["hw"]),
            estimate=estimate_command(options, words, True, (phase,)),
        )

    def _summary(self) -> str:
        (a, b), (p, d), chips = self.counts, self.pools, [chip.options["hw"] for chip in self.chips]
        on = [f" of {chip}" if chips[0] != chips[1] else "" for chip in chips]
        names = [" ".join(f"{k}{v}" for k, v in o.layout.entries() if v > 1) or "one device" for o in (p, d)]
        usd = self.usd_per_million[BLENDED]
        price = f", ${usd:.3g}/M tokens" if usd is not None else ""
        return (
            f"{a:g} x {names[0]}{on[0]} for prefill ({1e3 * p.latency:.3g} ms), {b:g} x {names[1]}{on[1]} at batch {d.batch:g} "
            f"for decode ({1e3 * d.latency:.3g} ms): {self.devices:g} devices sustain {self.rate:.3g} req/s{price}"
        )


def candidates(
    options: Options, ctx: EstimateContext, asked: ServingSearchQuestion, layouts: list[InstanceSizes]
) -> ChipCandidates:
    """The instances of one chip that meet the limits of their pool."""
    grid = instances.evaluate(asked.request, layouts, np.array(asked.batches, dtype=np.float64), apart=True)
    return ChipCandidates(
        options,
        ctx,
        _fastest(grid, "prefill", "ttft_s", asked.ttft, asked.request.bound),
        _fastest(grid, "decode", "itl_s", asked.itl, asked.request.bound),
    )


def ranked(asked: ServingSearchQuestion, chips: Iterable[ChipCandidates], top: int) -> list[Pools]:
    """Pairs of pools on the chips, each pool on any of them, the best first; empty when no pool can meet its limit.

    The fewest devices (or dollars) for the rate asked for, else the highest rate on the devices given, or per device.
    """
    every = list(chips)
    first = asked.objectives[0].quantity.rpartition(".")[2]

    def key(pair: PoolPair) -> tuple[float, ...]:
        """What is better smaller: the objective, else devices; devices of several chips compare in dollars only."""
        usd, devices = pair.usd_per_hour, pair.devices
        if usd is None and first in (BLENDED, COST["decode"]):
            usd = float("inf")
        size = usd if usd is not None and (first in (BLENDED, COST["decode"]) or len(every) > 1) else devices
        return (size if asked.qps is not None else size / pair.rate_at_bound, devices)

    pairs = [
        pair
        for one in every
        for other in every
        for p in one.prefill
        for d in other.decode
        if (pair := _pair(asked, (one, other), (p, d))) is not None
    ]
    return [pair.exact().answer() for pair in sorted(pairs, key=key)[:top]]


def _fastest(
    grid: instances.InstanceGrid, phase: str, latency: str, limit: float | None, bound: str
) -> list[PoolInstance]:
    """The fastest instance of every size that meets the limit and is not beaten by a smaller one, all at the bound."""
    ok = grid.legal & grid.whole(grid.phases[phase].memory.fits)
    answer = grid.phases[phase]
    with np.errstate(all="ignore"):
        expected = grid.whole(grid.serve[f"{phase}_requests_per_s"])
        rate_at_bound = grid.whole(interval_bound(expected, "requests_per_s", answer, bound, less=False))
        time = grid.whole(time_at_bound(answer, bound))
    ok = ok & (time <= (np.inf if limit is None else limit))
    rates = np.where(ok, rate_at_bound, -1.0)
    watts = grid.whole(answer.derived["power_w"]) if "power_w" in answer.derived else None
    found: dict[float, PoolInstance] = {}
    for i, layout in enumerate(grid.layouts):
        j = int(np.argmax(rates[i]))
        size, rate = float(grid.serve["instance_devices"][i, j]), float(rates[i, j])
        if rate > (found[size].rate_at_bound if size in found else 0.0):
            found[size] = PoolInstance(
                layout,
                float(grid.batches[j]),
                size,
                float(expected[i, j]),
                float(grid.serve[latency][i, j]),
                rate,
                float(time[i, j]),
                None if watts is None else float(watts[i, j]),
            )
    return list(found.values())


def _pair(
    asked: ServingSearchQuestion,
    chips: tuple[ChipCandidates, ChipCandidates],
    pools: tuple[PoolInstance, PoolInstance],
) -> PoolPair | None:
    """How many instances of each, or None when they do not fit on the devices."""
    p, d = pools
    if asked.qps is not None:
        a, b = (float(serving.instances_for_rate(asked.qps, o.rate_at_bound)) for o in pools)
        pair = PoolPair(chips, pools, (a, b))
        return None if asked.devices is not None and pair.devices > asked.devices else pair
    budget = asked.devices or MOST
    counts = np.arange(1.0, budget // p.devices + 1)
    others = serving.whole_instances(budget - counts * p.devices, d.devices)
    counts, others = counts[others >= 1], others[others >= 1]
    if not len(counts):
        return None
    if asked.devices is None:  # the fewest instances whose rate per device is within 1% of the best ratio
        others = serving.instances_for_rate(counts * p.rate_at_bound, d.rate_at_bound)
        devices = counts * p.devices + others * d.devices
        per = np.where(
            devices <= budget, serving.pooled_rate(counts, p.rate_at_bound, others, d.rate_at_bound) / devices, 0.0
        )
        i = int(np.argmax(per >= 0.99 * per.max()))
    else:
        i = int(np.argmax(serving.pooled_rate(counts, p.rate_at_bound, others, d.rate_at_bound)))
    return PoolPair(chips, pools, (float(counts[i]), float(others[i])))
