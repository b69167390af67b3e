"""Seconds -> dollars and watt-hours."""

from __future__ import annotations

from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DEFINITION = "definition; price per device-hour from the hardware file or --price"


@formula("$/Mtok", "USD", _DEFINITION)
def usd_per_million_tokens(usd_per_hour: Number, tokens_per_s: Number, utilization: Number) -> Number:
    """Dollars per million tokens at a throughput; `usd_per_hour` is for all devices, utilization the share of time busy."""
    return usd_per_hour / (tokens_per_s * utilization * 3600) * 1_000_000


@formula("$/h", "USD/h", _DEFINITION)
def fleet_price(devices: Number, usd_per_device_hour: Number) -> Number:
    """Dollars per hour of all devices."""
    return devices * usd_per_device_hour


@formula("$", "USD", _DEFINITION)
def run_cost(seconds: Number, usd_per_hour: Number) -> Number:
    """Dollars of a run."""
    return seconds / 3600 * usd_per_hour


@formula("E", "J", "TDP as an upper bound of the draw")
def energy(devices: Number, watts: Number, seconds: Number) -> Number:
    """Joules at full draw."""
    return devices * watts * seconds


@formula(
    "p*", "USD/h", "two bills of the same work are equal: p1 u1 = p2 u2, u being the device-hours that the work takes"
)
def break_even_price(usd_per_device_hour: Number, device_hours: Number, other_device_hours: Number) -> Number:
    """The price per device-hour at which other devices cost as much as these at theirs."""
    return usd_per_device_hour * device_hours / other_device_hours
