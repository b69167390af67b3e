"""How inference splits a feed-forward block and an attention core over n devices (Pope et al. 2022, sections 3.2 and 3.3)."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

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


@formula("x", "devices", _POPE + "appendix A.2.1: where both terms of the two-dimensional layout are equal")
def best_split_2d(d_model: Number, d_ff: Number, n: Number) -> Number:
    """sqrt(n E/F): devices along the model width."""
    return num.sqrt(n * d_model / d_ff)


@formula(
    "V_WG", "B", _POPE + "section 3.2.3: weights gathered over `over` devices, activations kept to the other n/over"
)
def weight_gathered(tokens: Number, d_model: Number, weights: Number, over: Number, n: Number, p: Number) -> Number:
    """Weights over n/over devices gathered, and a one-dimensional layout of a share of the tokens among the rest."""
    rest = n / over
    return weights * over / n * (over - 1) / over + 2 * tokens / over * d_model * p * (rest - 1) / rest


@formula("N_WG", "devices", _POPE + "appendix A.2.2: where gathering weights and moving activations cost the same")
def best_gather(tokens: Number, d_ff: Number, n: Number) -> Number:
    """sqrt(tokens n/F): devices to gather weights over."""
    return num.sqrt(tokens * n / d_ff)


@formula("B_kv", "B", _POPE + "section 3.3: heads split until there are none left, the rest hold copies")
def cache_by_head(batch: Number, context: Number, kv_heads: Number, head_dim: Number, n: Number, p: Number) -> Number:
    """KV cache of a layer on one device, attention split by heads."""
    return 2 * batch * context * num.maximum(kv_heads / n, 1) * head_dim * p


@formula("B_kv", "B", _POPE + "section 3.3: every device has some of the sequences")
def cache_by_batch(batch: Number, context: Number, kv_heads: Number, head_dim: Number, n: Number, p: Number) -> Number:
    """KV cache of a layer on one device, attention split by sequences."""
    return 2 * num.maximum(batch / n, 1) * context * kv_heads * head_dim * p
