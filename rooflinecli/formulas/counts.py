"""FLOPs, parameters and bytes that follow from sizes alone."""

from __future__ import annotations

from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DEFINITION = "definition"
_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book), chapter 1"


@formula("F", "FLOP", _BOOK)
def matmul_flops(m: Number, k: Number, n: Number) -> Number:
    """FLOPs of x[m, k] @ w[k, n]: one multiply and one add per contracted element and output."""
    return 2 * m * k * n


@formula("B", "B", _BOOK)
def matmul_bytes(m: Number, k: Number, n: Number, x_bytes: Number, w_bytes: Number, y_bytes: Number) -> Number:
    """Least bytes a matmul moves: each operand read once, the result written once."""
    return m * k * x_bytes + k * n * w_bytes + m * n * y_bytes


@formula("x_bar", "1", "expected number of distinct experts drawn by T tokens with top-k routing, balanced and independent")  # fmt: skip
def active_experts(experts: Number, top_k: Number, tokens: Number) -> Number:
    """Expected experts that at least one of `tokens` tokens visits."""
    return experts * (1 - (1 - top_k / experts) ** tokens)


@formula("B", "B", _DEFINITION)
def bytes_of(elements: Number, bytes_per_element: Number) -> Number:
    """Bytes of a number of elements."""
    return elements * bytes_per_element


@formula("bpw", "B", "bits of the weight plus the scale and zero point its group shares")
def quantized_bytes_per_weight(bits: Number, group_size: Number, scale_bits: Number, zero_bits: Number) -> Number:
    """Bytes per weight of a group-quantized matrix, scales counted."""
    return (bits + (scale_bits + zero_bits) / group_size) / 8
