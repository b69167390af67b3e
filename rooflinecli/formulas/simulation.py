"""KV pool of a simulated replica, and goodput."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number


@formula("n_kv", "tokens", "what an engine turns into cache, over the cache of a token of a sequence of mean length")
def pool_tokens(room: Number, kv_per_sequence: Number, length: Number) -> Number:
    """Tokens in the KV pool of a replica."""
    return num.maximum(room, 0) / num.maximum(kv_per_sequence, 1) * length


@formula("goodput", "1/s", "requests that keep to every limit, over the time they took; Zhong et al. 2024, DistServe")
def goodput(inside: Number, seconds: Number) -> Number:
    """Requests per second inside the SLO."""
    return inside / seconds
