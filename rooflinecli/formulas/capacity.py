"""How many serving instances a demand needs, and what a request costs them."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_LITTLE = "Little 1961: requests in flight are rate times the time each takes"


@formula("r", "requests/s", _LITTLE)
def request_rate(tokens_per_s: Number, tokens: Number) -> Number:
    """Requests per second of an instance from the tokens per second that it handles."""
    return tokens_per_s / num.maximum(tokens, 1)


@formula("n_i", "instances", "definition; the small slack keeps an exact multiple from rounding up")
def instances_for_rate(rate: Number, per_instance: Number) -> Number:
    """Fewest instances that carry a request rate."""
    return num.maximum(num.ceil(rate / per_instance * (1 - 1e-12)), 1)


@formula("n_i", "instances", "definition")
def whole_instances(devices: Number, per_instance: Number) -> Number:
    """Instances that a number of devices can hold."""
    return num.floor(devices / per_instance)


@formula("r", "requests/s", "every request passes both pools; the slower one sets the rate")
def pooled_rate(
    prefill_instances: Number, prefill_rate: Number, decode_instances: Number, decode_rate: Number
) -> Number:
    """Requests per second of a prefill and a decode pool together."""
    return num.minimum(prefill_instances * prefill_rate, decode_instances * decode_rate)


@formula("b_n", "sequences", "definition")
def batch_in_all(per_replica: Number, replicas: Number, instances: Number) -> Number:
    """Sequences under way on all instances together."""
    return per_replica * replicas * instances
