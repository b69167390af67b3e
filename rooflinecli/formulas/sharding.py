"""Sharded arrays on a mesh: what a device holds, what it sends, and when sharding pays (Scaling Book, chapters 3 and 5);
layouts of a feed-forward and a cache in inference (Pope et al. 2022).
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book), "


@formula("x", "1", _BOOK + "chapter 3")
def replication(mesh: Number, shards: Number) -> Number:
    """Copies of an array over the whole mesh."""
    return mesh / shards


@formula("S", "B", _BOOK + "chapter 3")
def shard_bytes(elements: Number, bytes_per_element: Number, shards: Number) -> Number:
    """Bytes of an array that one device holds."""
    return elements * bytes_per_element / shards


_POPE = "Pope et al. 2022, Efficiently Scaling Transformer Inference, "


@formula("V_1D", "B", _POPE + "section 3.2.1: activations gathered before and scattered after")
def weight_stationary_1d(tokens: Number, d_model: Number, n: Number, p: Number) -> Number:
    """Bytes a device sends for one feed-forward block with its columns split n ways; hardly falls with n."""
    return 2 * tokens * d_model * p * (n - 1) / n


@formula("V_2D", "B", _POPE + "section 3.2.2: both matrices split along both of their dimensions, x by n/x")
def weight_stationary_2d(tokens: Number, d_model: Number, d_ff: Number, x: Number, n: Number, p: Number) -> Number:
    """2 tokens (E/x + F x/n), each less its own share: falls with the square root of n."""
    y = n / x
    return 2 * tokens * p * (d_model / x * (y - 1) / y + d_ff / y * (x - 1) / x)


@formula("V_WG", "B", _POPE + "section 3.2.3: weights gathered over `over` devices, activations kept to the other n/over")  # fmt: skip
def weight_gathered(tokens: Number, d_model: Number, weights: Number, over: Number, n: Number, p: Number) -> Number:
    """Weights over n/over devices gathered, and a one-dimensional layout of a share of the tokens among the rest."""
    rest = n / over
    return weights * over / n * (over - 1) / over + 2 * tokens / over * d_model * p * (rest - 1) / rest


@formula("B_kv", "B", _POPE + "section 3.3: heads split until there are none left, the rest hold copies")
def cache_by_head(batch: Number, context: Number, kv_heads: Number, head_dim: Number, n: Number, p: Number) -> Number:
    """KV cache of a layer on one device, attention split by heads."""
    return 2 * batch * context * num.maximum(kv_heads / n, 1) * head_dim * p


@formula("B_kv", "B", _POPE + "section 3.3: every device has some of the sequences")
def cache_by_batch(batch: Number, context: Number, kv_heads: Number, head_dim: Number, n: Number, p: Number) -> Number:
    """KV cache of a layer on one device, attention split by sequences."""
    return 2 * num.maximum(batch / n, 1) * context * kv_heads * head_dim * p
