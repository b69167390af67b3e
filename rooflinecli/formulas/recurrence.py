"""Recurrent sequence mixers: FLOPs of their chunked and recurrent forms, and the state that a sequence leaves behind."""

from __future__ import annotations

from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_SSD = "Dao and Gu 2024, Transformers are SSMs (arXiv 2405.21060), section 6: chunked state space duality"
_MAMBA = "Gu and Dao 2023, Mamba (arXiv 2312.00752), algorithm 2 and section 3.3.2"
_DELTA = "Yang et al. 2024, Gated Delta Networks (arXiv 2412.06464), section 3.3: chunkwise WY form"
_LIGHTNING = "Qin et al. 2024, Lightning Attention-2 (arXiv 2401.04658), algorithm 1"
_RWKV = "Peng et al. 2023, RWKV (arXiv 2305.13048), eq. 16 and appendix D"
_GRIFFIN = "De et al. 2024, Griffin (arXiv 2402.19427), section 2.4"


@formula("F_conv", "FLOP", "depthwise convolution along the sequence; a multiply and an add per tap")
def short_conv_flops(tokens: Number, channels: Number, taps: Number) -> Number:
    """FLOPs of a causal depthwise convolution over `tokens` tokens."""
    return 2 * tokens * channels * taps


@formula("F_scan", "FLOP", "decay times state, input added, state read out: three multiply-adds; " + _MAMBA)
def selective_scan_flops(tokens: Number, channels: Number, state: Number) -> Number:
    """FLOPs of a selective scan (Mamba-1), the same token by token as over a prompt: it has no matmul form."""
    return 6 * tokens * channels * state


@formula("F_ssd", "FLOP", "C B^T per group; its product with x, chunk states and their readout per head; " + _SSD)
def ssd_chunk_flops(tokens: Number, heads: Number, groups: Number, key: Number, value: Number, chunk: Number) -> Number:
    """FLOPs of Mamba-2 over a prompt in chunks: 2 S (G Q N + H Q P + 2 H N P)."""
    return 2 * tokens * (groups * chunk * key + heads * chunk * value + 2 * heads * key * value)


@formula("F_delta", "FLOP", "K K^T, Q K^T, Q K^T U, three products with the state, two triangular solves; " + _DELTA)
def delta_chunk_flops(tokens: Number, heads: Number, key: Number, value: Number, chunk: Number) -> Number:
    """FLOPs of the gated delta rule over a prompt in chunks; the solves take chunk x (key + value) a token."""
    return tokens * heads * (2 * chunk * (2 * key + value) + 6 * key * value + chunk * (key + value))


@formula("F_lin", "FLOP", "inside a block as attention, between blocks through the state; " + _LIGHTNING)
def linear_chunk_flops(tokens: Number, heads: Number, key: Number, value: Number, chunk: Number) -> Number:
    """FLOPs of linear attention with a fixed decay over a prompt in blocks."""
    return 2 * tokens * heads * (chunk * (key + value) + 2 * key * value)


@formula("F_rec", "FLOP", "one token: as many multiply-adds per element of the state as the rule has products with it")
def recurrent_flops(tokens: Number, heads: Number, key: Number, value: Number, products: Number) -> Number:
    """FLOPs of a recurrent step: decay, outer product and readout are three, the delta rule reads the state once more."""
    return 2 * products * tokens * heads * key * value


@formula("F_lru", "FLOP", "decay and gated input of each channel, two multiply-adds; " + _GRIFFIN)
def lru_flops(tokens: Number, channels: Number) -> Number:
    """FLOPs of the real-gated linear recurrent unit, gates aside."""
    return 4 * tokens * channels


@formula("F_wkv", "FLOP", "numerator and denominator decayed and added to, and their quotient: five multiply-adds; " + _RWKV)  # fmt: skip
def wkv_flops(tokens: Number, channels: Number) -> Number:
    """FLOPs of the WKV recurrence of RWKV-4."""
    return 10 * tokens * channels


@formula("E_state", "elements", "a matrix of key x value per head, whatever the length")
def state_elements(heads: Number, key: Number, value: Number) -> Number:
    """Elements of a recurrent state of one sequence."""
    return heads * key * value


@formula("M_state", "B", "fixed in the length of the context")
def state_bytes(batch: Number, conv: Number, conv_bytes: Number, state: Number, state_bytes_each: Number) -> Number:
    """Bytes of state of `batch` sequences: columns of the convolution, and the recurrent state in its own format."""
    return batch * (conv * conv_bytes + state * state_bytes_each)


@formula("B_scan", "B", "inputs and outputs once, a state written and read at each chunk boundary")
def chunked_scan_bytes(
    tokens: Number, moved: Number, x_bytes: Number, state: Number, chunk: Number, state_bytes_each: Number
) -> Number:
    """Least bytes of a chunked scan over `tokens` tokens that reads and writes `moved` values each."""
    return tokens * (moved * x_bytes + 2 * state * state_bytes_each / chunk)


@formula("B_step", "B", "the state is read and written, the convolution's columns too")
def recurrent_step_bytes(state: Number, tokens: Number, moved: Number, x_bytes: Number) -> Number:
    """Least bytes of one token of every sequence whose states take `state` bytes in all."""
    return 2 * state + tokens * moved * x_bytes
