"""The plan of a training run: what is asked of every chip, the counts tried, each with its best layout by search, and the one that is enough."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.num import rounded_up
from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.text import plural, times
from rooflinecli.core.units import duration
from rooflinecli.engine import build_request, option_conflicts
from rooflinecli.engine.choose import reach
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import cost, scaling
from rooflinecli.formulas.training_goodput import joined_mtbf
from rooflinecli.questions import multi_chip
from rooflinecli.questions.conditions import IntervalBounds, ends
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.goodput.question import MTBF, TrainingGoodput, elapsed_interval
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.plan.question import Plan, PlannedChip, RunOffer, TrainingChip
from rooflinecli.questions.search.search_request import Limits, estimate_command, merge_limits, question
from rooflinecli.questions.search.training import FastestLayout, Progress, fastest_layout
from rooflinecli.specs import parse_values, prices
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import OPEN
from rooflinecli.specs.name_lookup import split_count
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import BOUNDS, Request


def no_price(chip: str) -> str:
    """Why a chip without a price is infeasible where there is a budget."""
    return f"no price is known for it, so --budget cannot be checked; add --price {chip}=USD"


@dataclass(frozen=True)
class PlanTarget:
    """What the question asks of every chip: its options, a budget in USD, the most devices to have, the bound that limits apply to; and of each
    chip the options that change nothing.

    A service has a rate `qps` and limits in s; its deadline is how long it is served and paid for.
    """

    plan: Plan
    each: dict[str, Options]
    budget: float | None
    most: int | None
    bound: str
    qps: float | None
    limits: Limits
    idle: list[dict[str, str]] = field(default_factory=list)

    def note_idle(self, request: Request) -> None:
        """Keep what changes nothing in the plan of a request."""
        self.idle.append(
            option_conflicts.idle(EstimateContext(request), self.plan.options().keys() - option_conflicts.RANKING)
        )

    def most_devices(self, chip: str) -> int | None:
        """The most devices of a chip: -n, and as many as the power carries with each at its limit, host and cooling included.

        Raises UsageError for a chip whose file has no power.
        """
        if self.plan.power is None:
            return self.most
        ctx = EstimateContext(build_request.request({k: v for k, v in self.each[chip].items() if k != "batch"}))
        if ctx.chip.power is None:
            raise UsageError(
                f"--power: {ctx.request.hardware.name} has no power in its file; add `power:` to it", "power"
            )
        carried = int(self.plan.power // float(ctx.chip.power * ctx.host_factor * ctx.pue))
        if not carried:
            raise UsageError(f"--power carries no device of {ctx.request.hardware.name}; raise it", "power")
        return carried if self.most is None else min(self.most, carried)


def target(asked: Plan) -> PlanTarget:
    """A question as what is asked of every chip. Raises UsageError naming the flag that is wrong or missing."""
    options = asked.options() | {"hw": ",".join(asked.hw)}
    bound = str(options.pop("bound", None) or BOUNDS[0])
    serving = asked.serves
    budget = None if asked.budget is None else parse_values.dollars("--budget", asked.budget, "budget")
    each = multi_chip.each({k: v for k, v in options.items() if k not in ("n", "phase")})
    counted = next((chip for chip in each if split_count("hardware", chip)[0] is not None), None)
    if counted is not None:
        raise UsageError(
            f"--hw {counted}: plan chooses the device count; remove it, and use -n as an upper limit", "hw"
        )
    lacking = multi_chip.unpriced(each)
    if not serving and budget is not None and len(lacking) == len(each):
        raise UsageError(f"--budget {asked.budget}: {multi_chip.remedy(lacking)}", "budget")
    most = int(build_request.value(OPTIONS["n"], options["n"])) if options.get("n") is not None else None
    limits = merge_limits({}, asked.slo) if serving else {}
    return PlanTarget(asked, each, budget, most, bound, asked.qps if serving else None, limits)


def newest(spec: HardwareSpec) -> list[prices.Offer]:
    """The cheapest row of the newest day of each provider and kind; what owning costs is no offer."""
    dated = sorted(prices.offers(spec), key=lambda offer: (offer.date, -offer.usd))
    return list({(offer.provider, offer.kind): offer for offer in dated if offer.kind != "ownership"}.values())


def interrupted_s(offer: prices.Offer | None, preempted_s: float | None) -> float | None:
    """Mean time between interruptions of a device whose offer is spot, an instance taken away every `preempted_s`; None of any other."""
    if offer is None or offer.kind != "spot" or preempted_s is None:
        return None
    return float(joined_mtbf(MTBF, preempted_s * offer.devices))


def goodput(offer: prices.Offer, devices: int, params: float, preempted_s: float | None) -> float:
    """Goodput on what is offered; 0 without progress."""
    try:
        answer = TrainingGoodput(n=devices, params=params, mtbf=interrupted_s(offer, preempted_s)).answer()
        return float(answer.goodput)
    except Infeasible:
        return 0.0


def planned_offers(
    spec: HardwareSpec, devices: int, params: float, run_s: tuple[float, float], usual: float, deadline_s: float | None, preempted_s: float | None
) -> list[RunOffer]:  # fmt: skip
    """Offers of a chip for a run, those that meet the deadline first, the cheapest first. `run_s`: the run without failures, expected and at
    the bound that the deadline is held to; `usual`: its goodput where nothing is preempted. Spot only where `preempted_s` is known; a contract of
    years only for a run as long."""
    found = []
    for offer in newest(spec):
        if (offer.kind == "spot" and preempted_s is None) or run_s[0] < prices.TERMS.get(offer.kind, 0.0):
            continue
        share = usual if offer.kind != "spot" else goodput(offer, devices, params, preempted_s)
        if not share:
            continue
        bill = float(cost.run_cost(run_s[0] / share, cost.fleet_price(devices, offer.usd)))
        found.append(RunOffer.like(
            offer, hardware=spec.name, usd_per_device_hour=offer.usd, goodput=share, elapsed_s=run_s[0] / share, elapsed_usd=bill,
            meets_deadline=deadline_s is None or run_s[1] / share <= deadline_s, source=f"{offer.where}; {offer.source}",
        ))  # fmt: skip
    return sorted(found, key=lambda row: (not row.meets_deadline, row.elapsed_usd))


STEPS = 16  # counts between one power of two and the next
MOST = 131_072
BETWEEN = 6  # counts tried between two doublings
GAIN = 0.97  # a fourfold count that leaves more of the time than this is of no use

Ratio = Callable[[int], float]  # count -> what is needed over what is allowed; infinite where nothing fits


def ladder(most: int, host: int) -> list[int]:
    """Counts up to `most`, rising; `most` itself is the last."""
    found = [2**i for i in range(max(host, 1).bit_length()) if 2**i < host]
    count = max(host, 1)
    while count <= most:
        found.append(count)
        step = max(host, 2 ** (count.bit_length() - 1) // STEPS // host * host, 1)
        count += step
    return sorted({n for n in [*found, most] if n <= most})


def min_count(counts: list[int], over: Ratio, first: int) -> int | None:
    """The least count whose ratio is at most 1 among those around the crossing; None where no count has one."""
    low, high, guess = -1, len(counts), float(first)
    while high - low > 1:
        at = min(max(bisect_left(counts, math.ceil(guess * (1 - 1e-9))), low + 1), high - 1)
        ratio = over(counts[at])
        low, high = (low, at) if ratio <= 1 else (at, high)
        guess = counts[at] * (ratio if math.isfinite(ratio) else 2)
    return counts[high] if high < len(counts) else None


def doublings(counts: list[int], least: int) -> list[int]:
    """Counts about a factor of two apart, from `least` up: enough to see where a cost has its minimum."""
    found = [counts[bisect_left(counts, least)]] if bisect_left(counts, least) < len(counts) else []
    while found and (at := bisect_left(counts, 2 * found[-1])) < len(counts):
        found.append(counts[at])
    return found


def cheapest(counts: list[int], cost: Ratio, time: Ratio, least: int) -> int | None:
    """The count of least cost from `least` up. A memory-starved count recomputes and is dear, a large one waits for its network, so
    the cost falls and then rises: doublings find the valley, the ladder its bottom."""
    coarse = _useful(doublings(counts, least), time)
    best = min(coarse, key=cost, default=None)
    if best is None or not math.isfinite(cost(best)):
        return None
    place = coarse.index(best)
    low, high = coarse[max(place - 1, 0)], coarse[min(place + 1, len(coarse) - 1)]
    between = [n for n in counts if low < n < high and n not in coarse]
    return min([best, *between[:: max(len(between) // BETWEEN, 1)]], key=cost)


def fastest_within(counts: list[int], over: Ratio, time: Ratio, least: int) -> int | None:
    """The fastest count whose ratio is at most 1, from `least` up and as far as more devices still shorten the time."""
    coarse = _useful(doublings(counts, least), time)
    within = [n for n in coarse if over(n) <= 1]
    if not within:
        best = cheapest(counts, over, time, least)
        return best if best is not None and over(best) <= 1 else None
    low = min(within, key=time)
    at = bisect_left(counts, low)
    high = next((bisect_left(counts, n) for n in coarse if n > low), len(counts))
    while high - at > 1:
        middle = (at + high) // 2
        better = over(counts[middle]) <= 1 and time(counts[middle]) < time(counts[at])
        at, high = (middle, high) if better else (at, middle)
    return counts[at]


def _useful(counts: list[int], time: Ratio) -> list[int]:
    """Counts as far as a fourfold one still shortens the time."""
    for place, n in enumerate(counts[2:], 2):
        if math.isfinite(time(counts[place - 2])) and time(n) > GAIN * time(counts[place - 2]):
            return counts[: place + 1]
    return counts


MFU = 0.25  # that the first count tried would need; the next is guessed from how far it is off
HOST = 8  # devices of a host, where the chip's file does not say
RUN, BILL = "train.run_s", "cost.training_usd"
BEHIND = 1.05  # by which the layout that an estimate chooses is slower than the search's at most, on random questions


@dataclass
class DeviceCountResult:
    """One device count with its best layout, and the share of the time that makes progress, with its interval."""

    devices: int
    best: FastestLayout
    goodput: float = 1.0
    goodput_interval: tuple[float, float] = (1.0, 1.0)

    def at_bound(self, quantity: str, bound: str) -> float:
        """The quantity at the bound, failures and checkpoints included; infinite where nothing fits or it has no value."""
        if self.best.estimate is None or not self.goodput:
            return float("inf")
        found = ends(self.best.estimate, quantity)
        if bound == "floor":
            return float(found.at(bound, less=True))
        return self.elapsed(found)[1] if bound == "pessimistic" else float(found.expected) / self.goodput

    def elapsed(self, found: IntervalBounds) -> tuple[float, float]:
        """80% interval of a quantity with failures and checkpoints."""
        expected, low, high = (float(x) for x in (found.expected, found.low, found.high))
        return elapsed_interval(expected, low, high, self.goodput, self.goodput_interval)


class ChipPlan:
    """One chip's part of the plan: counts are searched once each and remembered."""

    def __init__(self, asked: PlanTarget, name: str, workers: Workers | None = None, alive: Progress | None = None):
        self.asked, self.name, self.options, self.workers, self.alive = asked, name, asked.each[name], workers, alive
        self.tried: dict[int, DeviceCountResult] = {}
        self.guesses: dict[int, DeviceCountResult] = {}  # the same under the layouts that an estimate chooses

    @cached_property
    def request(self) -> Request:
        words = {**self.options, "n": "1", "phase": "train", "bound": self.asked.bound}
        return question(words, "time", list(self.asked.plan.where)).request

    @cached_property
    def priced(self) -> bool:
        return EstimateContext(self.request).price is not None

    @cached_property
    def device_s(self) -> float:
        """Device-seconds of the run's model FLOPs at the peak of the chip."""
        ctx = EstimateContext(self.request)
        passes = 2 if "lora" in (self.request.recipe or "") else 3  # of frozen weights there are no gradients
        flops = passes * ctx.model_flops(ctx.train_batch, ctx.seq, ctx.seq, ctx.seq, decode=False)
        return float(flops / (ctx.train_batch * ctx.seq) * (self.request.tokens or 0.0) / ctx.chip.peak(ctx.formats.compute))  # fmt: skip

    @cached_property
    def interrupted_s(self) -> float | None:
        """Of a device that the price asked for pays for."""
        chosen, preempted = EstimateContext(self.request).offer, self.asked.plan.preempted
        if chosen is not None and chosen.offer.kind == "spot" and preempted is None:
            build_request.warn("--price: spot is counted without preemptions; --preempted says how often instances go")
        return interrupted_s(chosen.offer if chosen is not None else None, preempted)

    def at(self, devices: int) -> DeviceCountResult:
        """The best layout on a number of devices, by the step at the bound."""
        if devices not in self.tried:
            best, asked = FastestLayout(), self.asked
            try:
                best = fastest_layout(self.options, devices, asked.bound, asked.plan.where, self.workers, self.alive)
            except UsageError as error:
                if error.option != "n":  # these sizes do not split this count; another may do
                    raise
            self.tried[devices] = self._with_goodput(devices, best)
        return self.tried[devices]

    def _with_goodput(self, devices: int, best: FastestLayout) -> DeviceCountResult:
        if best.estimate is None or self.asked.bound == "floor":
            return DeviceCountResult(devices, best)
        try:
            params = best.estimate.model.parameters.total
            answer = TrainingGoodput(n=devices, params=params, mtbf=self.interrupted_s).answer()
        except Infeasible:  # no progress
            return DeviceCountResult(devices, best, 0.0, (0.0, 0.0))
        return DeviceCountResult(devices, best, float(answer.goodput), answer.goodput_interval)

    def over_deadline(self, devices: int) -> float:
        """The run's time over the deadline, by the layout that an estimate chooses where that decides, else by the search's."""
        deadline = self.asked.plan.deadline or math.inf
        if devices not in self.tried:
            ratio = self.estimated(devices).at_bound(RUN, self.asked.bound) / deadline
            if ratio <= 1 or BEHIND < ratio < math.inf:
                return ratio
        return self.at(devices).at_bound(RUN, self.asked.bound) / deadline

    def estimated(self, devices: int) -> DeviceCountResult:
        """The layout that an estimate chooses on a number of devices; none where it would answer another question or has no answer."""
        if devices not in self.guesses:
            best = FastestLayout()
            if not self.asked.plan.where and not set(OPEN) & build_request.named(self.options).keys():
                options = {**self.options, "n": str(devices), "phase": "train", "bound": self.asked.bound}
                with suppress(UsageError, Infeasible):
                    found = estimate(build_request.request(options))
                    best = FastestLayout(estimate=found if found.feasible else None)
            self.guesses[devices] = self._with_goodput(devices, best)
        return self.guesses[devices]

    def over_budget(self, devices: int) -> float:
        return self.at(devices).at_bound(BILL, self.asked.bound) / (self.asked.budget or float("inf"))

    def answer(self) -> PlannedChip:
        """The row of this chip, or why it has none, with every count tried."""
        try:
            row = self._chosen()
        except UsageError as error:
            row = self._none(str(error))
        bound = self.asked.bound
        row.tried = [
            {
                "devices": n,
                "legal": found.best.legal if n in self.tried else None,
                "run_s": found.at_bound(RUN, bound) if found.best.estimate else None,
                "training_usd": found.at_bound(BILL, bound) if found.best.estimate and self.priced else None,
            }
            for n, found in sorted({**self.guesses, **self.tried}.items())
        ]
        return row

    def _chosen(self) -> PlannedChip:
        if self.asked.budget is not None and not self.priced:
            return self._none(no_price(self.name))
        least = float(cost.run_cost(self.device_s, EstimateContext(self.request).price or 0.0)) / (self.asked.budget or math.inf)  # fmt: skip
        if least > 1:
            return self._none(f"costs over {times(least)} times the budget on any device count: its FLOPs alone at the peak of the chip; lower --tokens, or take another chip")  # fmt: skip
        slices, host = self.request.hardware.slices, self.request.hardware.devices_per_host
        network = reach(EstimateContext(self.request))
        most = min(network, MOST, self.asked.most_devices(self.name) or MOST)
        counts = slices.up_to(most) if slices else ladder(most, HOST if host is None else int(host.si))
        if not counts:
            return self._none(f"-n {most:,}: {self.request.hardware.not_rented(most) or 'below a slice'}")
        if self.asked.plan.deadline is None:
            return self._within_budget(counts)
        enough = self._enough(counts, self.asked.plan.deadline)
        if enough is None:
            return self._too_slow()
        if self.asked.budget is not None and self.over_budget(enough) > 1:  # more devices may cost less
            cheaper = cheapest(counts, self.over_budget, self._run_s, enough)
            if cheaper is None or self.over_budget(cheaper) > 1 or self.over_deadline(cheaper) > 1:
                return self._too_dear(cheaper or enough)
            enough = cheaper
        more = 2 ** enough.bit_length()
        if self.priced and more in counts:  # it splits into more layouts and may be cheaper and faster
            self.estimated(more)
        return self.row(self.at(enough))

    def _enough(self, counts: list[int], deadline_s: float) -> int | None:
        """The least power of two that meets the deadline, which splits into most layouts, then the least count between it and the one below."""
        first = math.ceil(self.device_s / deadline_s / MFU)
        powers = [n for n in counts if n & (n - 1) == 0 or n == counts[-1]]
        enough = min_count(powers, self.over_deadline, first)
        if enough is None:  # failures may leave no progress where fewer devices make some
            fewer = _useful([n for n in powers if math.isfinite(self.over_deadline(n))], self.over_deadline)
            enough = next((n for n in fewer if self.over_deadline(n) <= 1), None)
        if enough is None:
            return None
        between = [n for n in counts if max((p for p in powers if p < enough), default=0) < n <= enough]
        return min_count(between, self.over_deadline, math.ceil(enough * self.over_deadline(enough)))

    def _run_s(self, devices: int) -> float:
        return self.at(devices).at_bound(RUN, self.asked.bound)

    def _within_budget(self, counts: list[int]) -> PlannedChip:
        least = next(
            (n for n in counts if (n & (n - 1) == 0 or n == counts[-1]) and self.at(n).best.estimate is not None), None
        )
        if least is None:
            return self._too_slow()
        chosen = fastest_within(counts, self.over_budget, self._run_s, least)
        if chosen is not None:
            return self.row(self.at(chosen))
        return self._too_dear(cheapest(counts, self.over_budget, self._run_s, least) or least)

    def row(self, tried: DeviceCountResult) -> TrainingChip:
        """Everything of one count; each number is what the command prints."""
        result, layout = tried.best.estimate, tried.best.layout
        assert result is not None and layout is not None  # only counts that hold the run are chosen
        run, train = ends(result, RUN), result.phases["train"]
        hours = [float(scaling.device_hours(tried.devices, s)) for s in (run.expected, run.low, run.high)]
        bill = ends(result, BILL) if self.priced else None
        offers = planned_offers(
            self.request.hardware, tried.devices, result.model.parameters.total,
            (run.expected, tried.at_bound(RUN, self.asked.bound) * tried.goodput), tried.goodput,
            self.asked.plan.deadline, self.asked.plan.preempted,
        )  # fmt: skip
        return TrainingChip.like(
            tried, chip=self.name, hardware=result.hardware.name, layout=replace(layout, devices=tried.devices), time_s=train.time_s,
            interval_s=list(train.interval_s), mfu=train.mfu, time_at_bound_s=tried.at_bound(RUN, self.asked.bound),
            cost_at_bound_usd=tried.at_bound(BILL, self.asked.bound) if bill else None, goodput_interval=list(tried.goodput_interval),
            elapsed_s=run.expected / tried.goodput, elapsed_interval_s=list(tried.elapsed(run)),
            elapsed_usd=bill.expected / tried.goodput if bill else None, elapsed_usd_interval=list(tried.elapsed(bill)) if bill else None,
            run_s=run.expected, run_interval_s=[run.low, run.high], device_hours=hours[0], device_hours_interval=hours[1:],
            training_usd=bill.expected if bill else None, training_usd_interval=[bill.low, bill.high] if bill else None,
            usd_per_device_hour=result.cost.usd_per_device_hour,
            price=None if bill is None else "given" if "price" in self.options else "file", energy_j=train.derived.get("run_energy_j"),
            offers=None if "price" in self.options else offers or None,
            command=estimate_command(self.options, tried.best.command, ("train",)),
        )  # fmt: skip

    def _none(self, reason: str, nearest: DeviceCountResult | None = None) -> PlannedChip:
        if nearest is None or nearest.best.estimate is None or not nearest.goodput:
            return PlannedChip(
                chip=self.name, hardware=self.request.hardware.name, feasible=False, infeasible_reason=reason
            )
        row = self.row(nearest)
        row.hardware, row.feasible, row.infeasible_reason = self.request.hardware.name, False, reason
        return row

    def _too_slow(self) -> PlannedChip:
        asked, every = self.asked, self.guesses | self.tried
        if every:
            self.at(min(every, key=lambda n: every[n].at_bound(RUN, asked.bound)))
        fitting = [t for t in self.tried.values() if t.best.estimate is not None]
        able = [t for t in fitting if t.goodput]
        if not able:
            why = "failures and preemptions leave no progress" if fitting else "no layout fits"
            return self._none(f"{why} on any count tried, up to {plural(max(self.tried, default=0), 'device')}")
        best = min(able, key=lambda t: t.at_bound(RUN, asked.bound))
        took, remedy = best.at_bound(RUN, asked.bound), ""
        limit = "--batch" if asked.most is None and asked.plan.power is None else "-n or --power"
        if any(every[n].best.estimate is not None and not every[n].goodput for n in every):
            limit = "failures and preemptions"
        if (deadline := asked.plan.deadline) is not None:
            larger = " or a larger --batch" if limit == "--batch" else ""
            remedy = f"; try --deadline {rounded_up(took / 86400):g}d{larger}"
            if limit == "-n or --power":  # how many would meet it
                counts = ladder(min(reach(EstimateContext(self.request)), MOST), HOST)
                need = min_count(
                    counts, lambda n: self.estimated(n).at_bound(RUN, asked.bound) / deadline, best.devices
                )
                remedy += f", or {plural(need, 'device')}" if need else ""
        return self._none(
            f"takes at least {duration(took)}, on {plural(best.devices, 'device')} (limited by {limit}){remedy}", best
        )

    def _too_dear(self, devices: int) -> PlannedChip:
        tried, budget = self.at(devices), self.asked.budget or 0.0
        within = self.asked.bound == "pessimistic" and tried.at_bound(BILL, "expected") <= budget
        other = " or --bound expected, by which it is within the budget" if within else ""
        return self._none(
            f"costs {times(self.over_budget(devices))} times the budget on {plural(devices, 'device')}, the cheapest count tried; "
            f"try --budget '{rounded_up(tried.at_bound(BILL, self.asked.bound)):.0f} USD'{other}",
            tried,
        )
