"""Tokens to their experts and back: what each rank sends, merged or not, and how long it takes.

m tokens per rank, top_k experts each, D values of w bytes; n ranks, g of them in one NVLink domain, N = n / g nodes.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DEEPEP = "DeepEP, github.com/deepseek-ai/DeepEP"
_FIT = "fitted to the DeepEP and NVLink tables of aiconfigurator-core 0.12.0, half of the shapes held out; docs/accuracy.md"


@formula("R", "ranks", "k experts drawn independently over n places: the places that at least one of them is in")
def destinations_visited(places: Number, top_k: Number) -> Number:
    """n (1 - (1 - 1/n)^k): ranks, or nodes, that the experts of a token are on."""
    return places * (1 - (1 - 1 / places) ** top_k)


@formula("M", "nodes", "DeepSeek-V3, arXiv 2412.19437, section 2.1.2: a router limited to a number of nodes")
def nodes_visited(nodes: Number, top_k: Number, limit: Number) -> Number:
    """min(q, N (1 - (1 - 1/N)^k))."""
    return num.minimum(limit, destinations_visited(nodes, top_k))


@formula("V_v", "B", _DEEPEP + ", low-latency kernels: a copy for every chosen expert")
def copies_inside(tokens: Number, top_k: Number, d_model: Number, x_bytes: Number, n: Number, inside: Number) -> Number:
    """m k D w (g - 1) / n: bytes that a rank sends over NVLink."""
    return tokens * top_k * d_model * x_bytes * (inside - 1) / n


@formula("V_r", "B", _DEEPEP + ", low-latency kernels: a copy for every chosen expert")
def copies_outside(
    tokens: Number, top_k: Number, d_model: Number, x_bytes: Number, n: Number, inside: Number
) -> Number:
    """m k D w (n - g) / n: bytes that a rank sends between nodes."""
    return tokens * top_k * d_model * x_bytes * (n - inside) / n


@formula("V_v", "B", _DEEPEP + ", normal kernels: one copy for each rank that a token visits")
def merged_inside(tokens: Number, d_model: Number, x_bytes: Number, visited: Number, inside: Number) -> Number:
    """m D w R (g - 1) / g."""
    return tokens * d_model * x_bytes * visited * (inside - 1) / inside


@formula("V_r", "B", _DEEPEP + ", normal kernels: one copy for each node that a token visits")
def merged_outside(tokens: Number, d_model: Number, x_bytes: Number, visited: Number, nodes: Number) -> Number:
    """m D w M (N - 1) / N."""
    return tokens * d_model * x_bytes * visited * (nodes - 1) / nodes


@formula(
    "V", "B", "an all-gather of every rank's tokens (or a reduce-scatter of their results): experts not here are masked"
)
def gathered(tokens: Number, d_model: Number, x_bytes: Number, members: Number) -> Number:
    """m D w (n - 1)."""
    return tokens * d_model * x_bytes * (members - 1)


@formula("t_x", "s", _FIT)
def exchange_time(
    overhead: Number, per_node: Number, nodes: Number, inside: Number, outside: Number, present: Number
) -> Number:
    """o + h (N - 1) + |t_v, t_r|_4; nothing in a group of one, where `present` is 0."""
    slow, fast = num.maximum(inside, outside), num.minimum(inside, outside)
    joined = slow * (1 + (fast / num.maximum(slow, 1e-30)) ** 4) ** 0.25
    return present * (overhead + per_node * (nodes - 1) + joined)


@formula("1", "1", "definition")
def exchanged(n: Number) -> Number:
    """1 where there is anybody to exchange with."""
    return num.minimum(n - 1, 1)


@formula(
    "t_ar",
    "s",
    "every device reads all others' data at once; "
    + "fitted to custom all-reduces of vLLM, SGLang and TensorRT-LLM; docs/accuracy.md",
)
def one_shot_all_reduce(overhead: Number, size: Number, n: Number, efficiency: Number, bandwidth: Number) -> Number:
    """o + (n - 1) S / (e_1 N)."""
    return overhead + (n - 1) * size / (efficiency * bandwidth)


@formula(
    "t_ar",
    "s",
    "reduce-scatter, barrier, all-gather; fitted to custom all-reduces of vLLM, SGLang and TensorRT-LLM; docs/accuracy.md",
)
def two_shot_all_reduce(
    overhead: Number, barrier: Number, size: Number, n: Number, efficiency: Number, bandwidth: Number
) -> Number:
    """o + o_2 + 2 (n - 1) / n S / (e_2 N)."""
    return overhead + barrier + 2 * (n - 1) / n * size / (efficiency * bandwidth)
