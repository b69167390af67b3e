"""One serving instance as its own `estimate` prices it: its rate and cost, and the totals of a number of them."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.engine import build_request
from rooflinecli.engine.interval_bound import interval_bound
from rooflinecli.formulas import capacity
from rooflinecli.questions.check.interval_bounds import IntervalBounds, ends
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.plan.question import ServiceNumbers
from rooflinecli.questions.search.answer_types import InstanceLayout
from rooflinecli.questions.search.search_request import estimate_command

PRICE = "cost.usd_per_million_output_tokens"


@dataclass(frozen=True)
class ServingInstance:
    """An instance: its estimate, the options of its command, requests per second with its ends, USD per device-hour where known."""

    layout: InstanceLayout
    found: EstimateAnswer
    rate: IntervalBounds
    command: str

    @property
    def hardware(self) -> str:
        return self.found.hardware.name

    @property
    def price(self) -> float | None:
        return self.found.cost.usd_per_device_hour

    @property
    def devices(self) -> int:
        return self.layout.devices

    def times(self, count: int) -> ServiceNumbers:
        """What `count` such instances offer."""
        first, other = self.found.phases["prefill"], self.found.phases["decode"]
        tokens = ends(self.found, PRICE) if self.price is not None else None
        return ServiceNumbers(
            instances=count,
            layout=self.layout,
            batch_in_all=float(capacity.batch_in_all(self.layout.batch, self.layout.dp, count)),
            ttft_s=first.time_s,
            interval_ttft_s=list(first.interval_s),
            itl_s=other.time_s,
            interval_itl_s=list(other.interval_s),
            requests_per_s=count * self.rate.expected,
            requests_per_s_interval=[count * self.rate.low, count * self.rate.high],
            usd_per_million_input_tokens=self.found.cost.usd_per_million_input_tokens,
            usd_per_million_output_tokens=tokens.expected if tokens else None,
            usd_per_million_output_tokens_interval=[tokens.low, tokens.high] if tokens else None,
            usd_per_million_tokens=self.found.cost.usd_per_million_tokens,
        )


def instance(options: Options, layout: InstanceLayout) -> ServingInstance:
    """The instance of a layout that a serving search found. options: those of the search."""
    found = estimate(build_request.request(_asks(options, layout)))
    return ServingInstance(
        layout, found, _rates(found), estimate_command({**options, "phase": []}, layout.command, True)
    )


def _asks(options: Options, layout: InstanceLayout) -> Options:
    """What the command asks."""
    sizes = {axis: layout[axis] for axis in ("tp", "pp", "dp", "ep")}
    own = {k: v for k, v in options.items() if k not in ("n", "batch", "cp", *sizes)}
    return {**own, **sizes, "n": layout.devices, "concurrency": layout.batch, "phase": ["prefill", "decode"]}


def _rates(found: EstimateAnswer) -> IntervalBounds:
    """Requests per second of one instance, from its tokens per second and the length of an answer."""
    decode, output = found.phases["decode"], found.workload.output
    expected, low, high = (
        float(capacity.request_rate(r, output)) for r in (decode.tokens_per_s, *decode.tokens_per_s_interval)
    )
    floor = float(interval_bound(expected, "requests_per_s", decode, "floor", less=False))
    return IntervalBounds(expected, "decode", floor, low, high)
