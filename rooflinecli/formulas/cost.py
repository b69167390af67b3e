"""Seconds -> dollars."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DEFINITION = "definition; price per device-hour from the hardware file or --price"


@formula("$/Mtok", "USD", _DEFINITION)
def usd_per_million_tokens(usd_per_hour: Number, tokens_per_s: Number, utilization: Number) -> Number:
    """Dollars per million tokens at a throughput; `usd_per_hour` is for all devices, utilization the share of time busy."""
    return usd_per_hour / (tokens_per_s * utilization * 3600) * 1_000_000


@formula("w_p", "1", "server time of a request's prefill over that of its prefill and its decode steps, shared by a batch")  # fmt: skip
def prefill_share(prefill_s: Number, step_s: Number, batch: Number, output: Number) -> Number:
    """Share of a server's dollars that its input tokens carry; a step with less than one sequence is that sequence's."""
    return prefill_s / (prefill_s + output * step_s / num.maximum(batch, 1))


@formula("$/Mtok", "USD", "input tokens and output tokens at their prices, over all tokens of a request")
def blended_price(usd_input: Number, usd_output: Number, prompt: Number, output: Number) -> Number:
    """Dollars per million tokens of either kind."""
    return (usd_input * prompt + usd_output * output) / (prompt + output)


@formula("$/h", "USD/h", _DEFINITION)
def fleet_price(devices: Number, usd_per_device_hour: Number) -> Number:
    """Dollars per hour of all devices."""
    return devices * usd_per_device_hour


@formula("$", "USD", _DEFINITION)
def run_cost(seconds: Number, usd_per_hour: Number) -> Number:
    """Dollars of a run."""
    return seconds / 3600 * usd_per_hour
