"""Serving search: instances, their layout and batch under latency limits, and disaggregated prefill and decode pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.record import MISSING, at, entries
from rooflinecli.core.text import percent, plural
from rooflinecli.core.units import duration, si
from rooflinecli.engine import legality, option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import interval_bound, token_price_at_qps, token_prices
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import cost, serving
from rooflinecli.questions.conditions import Condition
from rooflinecli.questions.estimate.answer import estimate, warn_of_foreign
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.question import NearestMiss, ServingRow, ServingSearch
from rooflinecli.questions.search.search_request import LIMITS, Limits, ServingSearchQuestion, serving_question
from rooflinecli.questions.search.training import by_count, frontier
from rooflinecli.specs.quantities import AT_QPS, BLENDED, COST, PER_TOKEN

BETWEEN_TOKENS = (
    "itl_s",
    "itl_at_bound_s",
    "tokens_per_s_per_user",
)  # quantities of a row that requests of one token lack
EQUAL = 1e-4  # relative difference of two rows that says nothing
_OF_PHASE = {  # quantity of `serve` -> its phase and the quantity there whose interval it has; others follow decode
    "ttft_s": ("prefill", "time_s"),
    "itl_s": ("decode", "time_s"),
    "prefill_requests_per_s": ("prefill", "requests_per_s"),
    "decode_requests_per_s": ("decode", "requests_per_s"),
    "instance_tokens_per_s": ("decode", "tokens_per_s"),
}


def _in_phase(quantity: str) -> tuple[str, str]:
    """The phase whose interval a quantity has, and its name there."""
    head, _, rest = quantity.partition(".")
    return _OF_PHASE.get(rest, ("decode", rest)) if head == "serve" else (head, rest)


def search(options: Options, goal: str | None, where: list[str], limits: Limits, top: int) -> ServingSearch:
    """The answer on one chip. `goal` is the objective as written; `limits` are ttft and itl in s, and qps."""
    question = serving_question(options, goal, where, limits)
    grid = serving_grid(
        question,
        "--phase prefill alone cannot be searched; use `roofline sweep` over --tp and --batch, or search --phase train",
    )
    keep, rejected, worst = grid.weigh()
    rows = grid.best(keep, top)
    interrupted = False
    try:
        pools = instances.ranked(question, [instances.candidates(options, grid.ctx, question, grid.one.layouts)], top)
    except KeyboardInterrupt:  # the instances are known
        pools, interrupted = [], True
    request, legal = question.request, grid.one.legal
    return ServingSearch(
        model=request.model.name, hardware=request.hardware.name, phase="serve", pareto=question.pareto,
        objective=[o.quantity for o in question.objectives], bound=request.bound, where=[c.written for c in question.conditions],
        devices=question.devices, qps=question.qps, layouts=int(legal.sum()), fit=int((legal & grid.one.fits).sum()), meet=int(keep.sum()),
        rejected=by_count(rejected), results=rows, feasible=bool(rows), pools=pools[0] if pools else None, pool_rows=pools,
        nearest_miss=None if rows else grid.nearest(worst), interrupted=interrupted,
    )  # fmt: skip


@dataclass(frozen=True)
class ServingGrid:
    """Every instance layout at every batch: what one instance does (`one`), and what all of them offer (`serve`)."""

    question: ServingSearchQuestion
    ctx: EstimateContext
    one: instances.InstanceGrid
    serve: dict[str, np.ndarray]

    def weigh(self) -> tuple[np.ndarray, dict[str, int], np.ndarray]:
        """Where every constraint holds, how many points each rejects, and how far each point is from holding."""
        question, one = self.question, self.one
        base = keep = one.legal & one.fits
        worst = np.zeros(one.shape)
        rejected = {"memory": int((one.legal & ~one.fits).sum())}
        if question.devices is not None:
            room = (self.serve["devices"] <= question.devices) & (self.serve["instances"] >= 1)
            rejected[f"at most {plural(question.devices, 'device')}"] = int((base & ~room).sum())
            keep = keep & room
        for c in question.conditions:
            value = self.limited(c)
            holds = c.holds(value)
            rejected[c.written] = int((base & ~holds).sum())
            keep = keep & holds
            if isinstance(c.limit, float):
                worst = np.maximum(worst, np.where(holds, 0.0, c.shortfall(value)))
        # an open loop of any rate is late where a closed one of one client is barely in time
        keep, worst = keep & (self.one.within > 0), np.maximum(worst, EQUAL * (self.one.within <= 0))
        return keep, rejected, np.where(base, worst, np.inf)

    def value_of(self, name: str) -> np.ndarray:
        """A quantity over the grid. Raises UsageError when there is none."""
        head, _, rest = name.partition(".")
        value = at(self.serve if head == "serve" else self.one.phases.get(head), rest)
        if value is MISSING and rest in (BLENDED, *COST.values()):
            raise UsageError("no price is known for this chip; give --price, or --objective throughput")
        if value is MISSING or value is None or isinstance(value, str) or entries(value) is not None:
            raise UsageError(
                f"no quantity '{name}' in a serving search; {'it needs --region; ' if 'grams' in name or 'liters' in name else ''}name serve.{', serve.'.join(self.serve)}, or prefill.… and decode.…",
                "where",
            )
        return self.one.whole(value)

    def at_bound(self, quantity: str, less: bool) -> np.ndarray:
        """A quantity over the grid at the bound that ranks and that limits hold at; `less`: whether less is better."""
        head, _, rest = quantity.partition(".")
        phase, name = _in_phase(quantity)
        value = self.value_of(quantity)
        with np.errstate(all="ignore"):
            found = interval_bound(value, name, self.one.phases.get(phase), self.question.request.bound, less)
            if head == "serve" and rest in ("requests_per_s", "decode_requests_per_s"):
                several = self.serve["instances"] if rest == "requests_per_s" else 1.0
                found = np.minimum(found, self.one.within * several)
        return self.one.whole(found)

    def limited(self, condition: Condition) -> np.ndarray:
        """The quantity of a condition over the grid, at the bound that its limit holds at."""
        if condition.comparison in ("==", "!="):
            return self.value_of(condition.quantity)
        return self.at_bound(condition.quantity, condition.upper)

    def limits_at_bound(self, i: int, j: int) -> dict[str, float]:
        """What was compared with the limits and the rate at a point of the grid."""
        found = {c.quantity: float(self.limited(c)[i, j]) for c in self.question.conditions}
        if self.question.qps is not None:
            found["serve.requests_per_s"] = float(self.at_bound("serve.requests_per_s", less=False)[i, j])
        return found

    def best(self, keep: np.ndarray, top: int) -> list[ServingRow]:
        """The best batch of every instance layout, best first, each with why it trails; or the Pareto front of two objectives."""
        one = self.one
        goals = self.question.objectives
        keys = [np.where(keep, o.key(self.at_bound(o.quantity, o.sign > 0)), np.inf) for o in goals]
        if self.question.pareto:
            places = np.argwhere(keep)
            return [self.row(*map(int, places[i])) for i in frontier(keys[0][keep], keys[1][keep])[:top]]
        # equals at the bound by their expected values
        keys += [np.where(keep, o.key(self.value_of(o.quantity)), np.inf) for o in goals]
        keys = [num.single(key) for key in keys]
        columns = [np.lexsort([one.batches, *(k[i] for k in reversed(keys))])[0] for i in range(one.shape[0])]
        alive = [i for i in range(one.shape[0]) if keep[i, columns[i]]]
        sizes = [(layout.ranks, layout.pp, layout.dp) for layout in one.layouts]
        alive.sort(key=lambda i: (*(k[i, columns[i]] for k in keys), *sizes[i]))
        rows = [self.row(i, int(columns[i])) for i in alive[:top]]
        for row in rows[1:]:
            row.why = self._why(rows[0], row)
        return rows

    def row(self, i: int, j: int) -> ServingRow:
        """A point of the grid as its command prices it: a number of an array may differ from a scalar's in the last digit."""
        layout = self.one.layouts[i].at_batch(float(self.one.batches[j]))
        found = estimate(instances.request_of(self.question.request, layout, concurrency=layout.batch))
        one = instances.offered(found.phases, layout.devices, layout.dp, found.workload.prompt, found.workload.output)
        used = together(one, float(self.serve["instances"][i, j]), layout.batch)
        for name, value in (
            *((name, at(found, f"cost.{name}")) for name in (COST["prefill"], COST["decode"], BLENDED)),
            *((name, at(found.phases, f"decode.{name}")) for name in PER_TOKEN),
        ):
            if value is not MISSING and value is not None:
                used[name] = value
        if AT_QPS in self.serve:
            used[AT_QPS] = float(self.serve[AT_QPS][i, j])
        bound = self.question.request.bound
        used["ttft_at_bound_s"] = interval_bound(used["ttft_s"], "time_s", found.phases["prefill"], bound, True)
        used["itl_at_bound_s"] = interval_bound(used["itl_s"], "time_s", found.phases["decode"], bound, True)
        used["requests_per_s_at_bound"] = float(self.at_bound("serve.requests_per_s", less=False)[i, j])
        if "decode" not in found.timed:
            used = {name: value for name, value in used.items() if name not in BETWEEN_TOKENS}
        goals = self.question.objectives
        return ServingRow(
            layout=layout,
            score={o.quantity: self._score(o.quantity, found, used, i, j) for o in goals},
            score_at_bound={o.quantity: float(self.at_bound(o.quantity, o.sign > 0)[i, j]) for o in goals},
            limits_at_bound=self.limits_at_bound(i, j) or None,
            serve={name: float(value) for name, value in used.items()},
            memory={k: float(v) for k, v in found.phases["decode"].memory.entries()},
            command=layout.command,
        )

    def _score(self, quantity: str, found: EstimateAnswer, used: dict[str, Number], i: int, j: int) -> float:
        head, _, rest = quantity.partition(".")
        value = used.get(rest, MISSING) if head == "serve" else at(found.phases, quantity)
        return float(self.value_of(quantity)[i, j] if value is MISSING else value)

    def _why(self, best: ServingRow, other: ServingRow) -> str:
        a, b, first = best.serve, other.serve, best.score_at_bound
        gaps = ((name, abs(value / first[name] - 1)) for name, value in other.score_at_bound.items() if first[name])
        name, gap = next(((n, g) for n, g in gaps if g > EQUAL), ("", 0.0))
        second = f" in {name}" if gap and name != self.question.objectives[0].quantity else ""
        return (
            f"{f'{percent(gap)} worse{second}' if gap else 'equal'}: batch {other.layout.batch:g} vs {best.layout.batch:g}, "
            f"{si(b['tokens_per_s_per_device'], 'tok/s')} per device vs {si(a['tokens_per_s_per_device'], 'tok/s')}, "
            + "".join(f"ITL {duration(b['itl_s'])} vs {duration(a['itl_s'])}, " for _ in ("itl_s",) if "itl_s" in a)
            + f"TTFT {duration(b['ttft_s'])} vs {duration(a['ttft_s'])}"
        )

    def nearest(self, worst: np.ndarray) -> NearestMiss:
        """The point that misses its limits by least, of equal ones on the fewest devices; or the one that needs least memory."""
        limited = bool(np.isfinite(worst).any())
        if limited:
            worst = np.where(worst == worst.min(), self.serve["devices"], np.inf)
        else:
            worst = np.where(self.one.legal, self.one.whole(self.one.phases["decode"].memory.total_bytes), np.inf)
        i, j = map(int, np.unravel_index(int(np.argmin(worst)), worst.shape))
        row = self.row(i, j)
        found = NearestMiss(layout=row.layout, command=row.command, shortfall="")
        if limited:
            values = [(c, float(self.limited(c)[i, j])) for c in self.question.conditions]
            missed = [c.missed(v) for c, v in values if not c.holds(v)]
            if not missed and self.one.whole(self.one.within)[i, j] <= 0:
                missed = ["arrivals at random times wait longer than the limits allow"]
            found.shortfall = "; ".join(missed) or self._room(found, i, j)
            # where requests arrive at random times, a tenth is left for their waits
            spare = 1.0 if self.question.qps is None else 1.1
            limits = {
                c.quantity.removeprefix("serve.").removesuffix("_s"): max(spare * v, float(c.limit))
                for c, v in values
                if c.upper
            }
            if missed and limits.keys() <= {*LIMITS}:
                slo = ",".join(f"{name}={1e3 * num.rounded_up(seconds):g}ms" for name, seconds in limits.items())
                found.shortfall += f"; it meets --slo {slo}"
        else:
            needed, capacity = (row.memory[name] for name in ("total_bytes", "capacity_bytes"))
            found.shortfall = f"memory: it needs {si(needed, 'B')} per device of {si(capacity, 'B')}"
            if needed <= capacity:
                most = self.one.whole(at(self.one.phases["decode"], "max_batch"))[i, j]
                found.shortfall = f"memory: the cache holds {most:,.0f} of {row.layout.batch:,g} sequences"
        return found

    def _room(self, miss: NearestMiss, i: int, j: int) -> str:
        """What a point lacks of its devices, and of the rate that was asked for."""
        devices, qps = self.question.devices or 0, self.question.qps
        if qps is None:
            return f"no whole instance fits on {plural(devices, 'device')}"
        each = float(self.at_bound("serve.decode_requests_per_s", less=False)[i, j])
        carried = devices // int(self.one.serve["instance_devices"][i, 0]) * each
        miss.missing_requests_per_s = qps - carried
        served = f"{plural(devices, 'device')} serve{'' if devices != 1 else 's'} {carried:.3g} of {qps:g} requests/s"
        return f"{served}; {self.serve['devices'][i, j]:,g} would serve all"


def serving_grid(question: ServingSearchQuestion, refusal: str) -> ServingGrid:
    """The grid of a question. `refusal` is why a model that does not decode is refused. Raises UsageError."""
    ctx = EstimateContext(question.request)
    option_conflicts.require_decode(ctx, refusal)
    option_conflicts.check(ctx)
    warn_of_foreign(ctx)
    legality.check(ctx)
    layouts = instances.layouts(ctx, question.open, question.largest_instance)
    if not layouts:
        raise UsageError("no instance matches the given sizes; leave --tp, --pp or --ep open, or raise -n")
    grid = instances.evaluate(
        question.request, layouts, np.array(question.batches, dtype=np.float64), disaggregated=False
    )
    one = grid.serve
    with np.errstate(all="ignore"):
        if question.qps is not None:
            count = serving.instances_for_rate(question.qps, sustained_rates(question, grid))
        elif question.devices is not None:
            count = serving.whole_instances(question.devices, one["instance_devices"])
        else:
            count = grid.whole(1.0)
        serve = together(one, count, grid.batches)
        if ctx.price is not None:
            outputs, hourly = serve["tokens_per_s"], cost.fleet_price(serve["devices"], ctx.price)
            inputs = outputs / ctx.output * ctx.request_tokens
            serve |= token_prices(hourly, inputs, outputs, grid.prefill_share, ctx.utilization)
            if question.qps is not None:
                serve[AT_QPS] = token_price_at_qps(hourly, question.qps, ctx.request_tokens + ctx.output)
        serve |= {name: value for name, value in grid.phases["decode"].derived.items() if name in PER_TOKEN}
    return ServingGrid(question, ctx, grid, {k: grid.whole(v) for k, v in serve.items()})


def sustained_rates(
    question: ServingSearchQuestion, grid: instances.InstanceGrid, rows: Sequence[int] | None = None
) -> np.ndarray:
    """Requests per second of every instance at every batch, at the bound, no more than what its open loop satisfies the limits on latencies with:
    `grid.within`, which is set for `rows`, or for all that satisfy them at some batch of a closed loop."""
    bound = question.request.bound
    of_phase = [(c, *_in_phase(c.quantity)) for c in question.conditions if c.upper]
    limits = [(float(c.limit), phase) for c, phase, name in of_phase if name == "time_s" and phase in grid.phases]

    def headroom(phases: Mapping[str, PhaseAnswer]) -> Number:
        rooms = [limit / interval_bound(phases[p].time_s, "time_s", phases[p], bound, True) - 1 for limit, p in limits]
        return np.minimum.reduce(np.broadcast_arrays(*rooms))

    with np.errstate(all="ignore"):
        closed = grid.serve["decode_requests_per_s"]
        rate = grid.whole(interval_bound(closed, "requests_per_s", grid.phases["decode"], bound, less=False))
        if limits:
            within = grid.legal & grid.fits & (headroom(grid.phases) >= 0)
            rows = np.flatnonzero(within.any(axis=1)).tolist() if rows is None else rows
            grid.within = np.full((len(grid.layouts), 1), np.inf)
            if rows:
                most = np.where(within, rate, 0.0).max(axis=1, keepdims=True)[rows]
                found = [grid.layouts[i] for i in rows]
                grid.within[rows] = instances.rate_within(question.request, found, most, headroom)
        return grid.whole(np.minimum(rate, grid.within))


def together(one: Mapping[str, Number], count: Number, batch: Number) -> dict[str, Number]:
    """What `count` instances offer, and each of them."""
    devices, tokens = count * one["instance_devices"], count * one["instance_tokens_per_s"]
    return {
        **one,
        "instances": count,
        "devices": devices,
        "tokens_per_s": tokens,
        "requests_per_s": count * one["decode_requests_per_s"],
        "tokens_per_s_per_device": tokens / devices,
        "tokens_per_s_per_user": 1 / one["itl_s"],
        "total_batch": serving.total_batch(batch, one["instance_replicas"], count),
    }
