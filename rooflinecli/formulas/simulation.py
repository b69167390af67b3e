"""KV pool of a simulated replica, and goodput."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number


@formula("n_kv", "tokens", "what an engine turns into cache, over the cache of a token of a sequence of mean length")
def pool_tokens(
    capacity: Number, weights: Number, reserve: Number, fraction: Number, kv_per_sequence: Number, length: Number
) -> Number:
    """Tokens in the KV pool of a replica, next to weights and reserve."""
    return num.maximum((capacity - weights - reserve) * fraction, 0) / num.maximum(kv_per_sequence, 1) * length


@formula("n_kv", "tokens", "a share of all memory less weights and reserve; vLLM, gpu_memory_utilization")
def pool_within(
    capacity: Number, share: Number, weights: Number, reserve: Number, kv_per_sequence: Number, length: Number
) -> Number:
    """Tokens in the KV pool where weights, reserve and cache together may use a fraction of memory."""
    return num.maximum(capacity * share - weights - reserve, 0) / num.maximum(kv_per_sequence, 1) * length


@formula("goodput", "1/s", "requests that keep to every limit, over the time they took; Zhong et al. 2024, DistServe")
def goodput(inside: Number, seconds: Number) -> Number:
    """Requests per second inside the SLO."""
    return inside / seconds
