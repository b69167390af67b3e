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


@formula("t_gather", "s", _BOOK + "chapter 3: an all-gather or reduce-scatter of a long ring; (n-1)/n taken as 1")
def gather_rule(size: Number, bandwidth: Number) -> Number:
    """V/W: independent of the number of devices."""
    return size / bandwidth


@formula("V_link", "elements", _BOOK + "chapter 3, problem 10: all-to-all round a one-way ring of an n x n array on d devices")  # fmt: skip
def one_way_all_to_all(elements: Number, devices: Number) -> Number:
    """Elements over each link: half the array, less its diagonal part."""
    return elements / 2 * (1 - 1 / devices)


@formula("x", "1", _BOOK + "chapter 3, problem 9: gather A[N, M] first, or reduce-scatter C[N, K] after")
def gather_over_reduce(contracted: Number, columns: Number) -> Number:
    """Bytes of gathering the input over bytes of scattering the output."""
    return contracted / columns


@formula("t_route", "s", _BOOK + "chapter 2, problem 5: first byte after all hops, the rest over the ports that lead there")  # fmt: skip
def route_time(size: Number, bandwidth: Number, ports: Number, hops: Number, hop_time: Number) -> Number:
    """Time to send an array from one device of a torus to another."""
    return size / (bandwidth * ports) + hops * hop_time


@formula("h", "hops", "shortest way along every axis of an open mesh")
def corner_hops(rows: Number, cols: Number) -> Number:
    """Hops from one corner of a mesh to the opposite one."""
    return rows - 1 + (cols - 1)


@formula("B/X", "tokens", _BOOK + "chapter 5: gradients and weights of a layer travel while it is computed")
def fsdp_critical_tokens(peak: Number, bandwidth: Number) -> Number:
    """Tokens per device above which FSDP and data parallelism are compute-bound: C/W."""
    return peak / bandwidth


@formula("Y", "devices", _BOOK + "chapter 5: activations travel while the columns a device holds are computed")
def tensor_parallel_limit(d_ff: Number, peak: Number, bandwidth: Number) -> Number:
    """Devices up to which tensor parallelism is compute-bound: F W/C."""
    return d_ff * bandwidth / peak


@formula("X", "devices", _BOOK + "chapter 5: FSDP over X and tensor parallelism over N/X, each over its share of the axes")  # fmt: skip
def optimal_fsdp(tokens: Number, devices: Number, d_ff: Number, fsdp_axes: Number, tensor_axes: Number) -> Number:
    """sqrt(B N M_X / (F M_Y)): the FSDP degree that balances both kinds of communication."""
    return num.sqrt(tokens * devices * fsdp_axes / (d_ff * tensor_axes))


@formula("B/N", "tokens", _BOOK + "chapter 5: least tokens per device for FSDP mixed with tensor parallelism")
def mixed_critical_tokens(alpha: Number, d_ff: Number, axes: Number) -> Number:
    """4 alpha^2 / (M_X M_Y F) with alpha = C/W per axis; `axes` is M_X M_Y."""
    return 4 * alpha * alpha / (axes * d_ff)


@formula("b", "tokens", _BOOK + "chapter 2, problem 3: two FLOPs per weight and token against the bytes of the weight over a link")  # fmt: skip
def streaming_critical_batch(peak: Number, bandwidth: Number, weight_bytes: Number) -> Number:
    """Batch above which weights that stream in over a link are no longer the bottleneck."""
    return peak * weight_bytes / (2 * bandwidth)


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
