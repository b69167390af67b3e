"""Rules that textbooks teach and the engine itself does not need: it counts from the ledger what these estimate."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number
from rooflinecli.formulas.roofline import arithmetic_intensity, memory_time

_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book), "
_NOTES = "Decoder-Only Transformers notes, "


@formula("n", "1", "definition")
def fleet_total(devices: Number, per_device: Number) -> Number:
    """Totals of a number of devices: memory, bandwidth, cores."""
    return devices * per_device


@formula("P_attn", "params", _BOOK + "chapter 4: queries and outputs have N heads, keys and values K")
def attention_params(layers: Number, d_model: Number, heads: Number, kv_heads: Number, head_dim: Number) -> Number:
    """Parameters of the attention projections."""
    return 2 * layers * d_model * head_dim * (heads + kv_heads)


@formula("P_ffw", "params", _BOOK + "chapter 4: gate, up and down")
def gated_feedforward_params(layers: Number, d_model: Number, d_ff: Number) -> Number:
    """Parameters of gated feed-forward blocks."""
    return 3 * layers * d_model * d_ff


@formula("P_vocab", "params", _BOOK + "chapter 4: one matrix when tied, two when not")
def vocabulary_params(vocab: Number, d_model: Number, matrices: Number) -> Number:
    """Parameters of embedding and output head."""
    return vocab * d_model * matrices


@formula("B_ckpt", "B", _BOOK + "chapter 5: the input, and the two hidden arrays of a gated feed-forward, of every layer")  # fmt: skip
def checkpointed_activations(tokens: Number, layers: Number, d_model: Number, d_ff: Number, p: Number) -> Number:
    """Activations kept when each layer saves three matmul outputs, [B F], [B F] and [B D]."""
    return tokens * layers * (d_model + 2 * d_ff) * p


@formula("B*", "tokens", _BOOK + "chapter 2: matmul time equals memory time, inputs and outputs counted; solved for the rows")  # fmt: skip
def matmul_critical_rows(
    k: Number, n: Number, peak: Number, bandwidth: Number, x_bytes: Number, w_bytes: Number, y_bytes: Number
) -> Number:
    """Rows above which x[B, k] @ w[k, n] is compute-bound."""
    return k * n * w_bytes / (2 * k * n * bandwidth / peak - k * x_bytes - n * y_bytes)


@formula("B_step", "B", _BOOK + "chapter 7: every weight and every cached key and value is read once")
def decode_bytes(weights: Number, cache: Number, batch: Number) -> Number:
    """Bytes a decode step streams; `cache` is one sequence's."""
    return weights + batch * cache


@formula("t_step", "s", _BOOK + "chapter 7: lower bound of a decode step")
def decode_floor(weights: Number, cache: Number, batch: Number, bandwidth: Number) -> Number:
    """Time to stream the weights and all caches once at the bandwidth of all devices."""
    return memory_time(decode_bytes(weights, cache, batch), bandwidth)


@formula("V*", "B", _BOOK + "chapter 7, appendix C: the hops cost as long as the bytes")
def latency_bound_size(bandwidth: Number, hops: Number, hop_time: Number) -> Number:
    """Buffer below which a collective is bound by latency."""
    return bandwidth * hops * hop_time


@formula("Y", "devices", _BOOK + "chapter 8: while memory-bound, activations must not travel longer than weights stream")  # fmt: skip
def decode_tensor_parallel_limit(d_ff: Number, batch: Number, bandwidth_ratio: Number) -> Number:
    """F / (B beta) with beta = memory over link bandwidth: tensor parallelism a memory-bound decode step can use."""
    return d_ff / (batch * bandwidth_ratio)


@formula("I", "FLOP/B", _NOTES + "eq. 7.9: a layer's FLOPs per token over the bytes of its two all-reduces (2 passes each), per device")  # fmt: skip
def tensor_parallel_intensity(d_model: Number, expansion: Number, tp: Number, p: Number) -> Number:
    """Compute over communication of a layer under tensor parallelism of large degree."""
    return arithmetic_intensity(2 * (4 + 2 * expansion) * d_model * d_model / tp, 2 * 2 * d_model * p)


@formula("rows", "1", _NOTES + "section 2.6; Dao et al. 2022, FlashAttention: C keys and values, R queries and R x C scores share the chip")  # fmt: skip
def flash_query_block(on_chip_elements: Number, key_block: Number, head_dim: Number) -> Number:
    """Largest R with C H + R H + R C within the on-chip elements."""
    return (on_chip_elements - key_block * head_dim) / (head_dim + key_block)


@formula("n_read", "1", _NOTES + "section 2.6: keys and values are read again for every block of R queries")
def flash_reread_elements(seq: Number, head_dim: Number, query_block: Number) -> Number:
    """Elements of keys (and as many of values) read from memory per head."""
    return head_dim * seq * seq / query_block


@formula("I", "FLOP/B", _NOTES + "eq. D.2: 2 B D^2 FLOPs over 2 (D^2 + B D) bytes, in 16 bits")
def decode_linear_intensity(batch: Number, d_model: Number) -> Number:
    """Intensity of a square layer when one token per sequence is decoded."""
    return batch * d_model / (batch + d_model)


@formula("I", "1", _NOTES + "eq. D.3: FLOPs over elements of the projections and the cache, constants dropped")
def decode_attention_intensity(batch: Number, d_model: Number, seq: Number) -> Number:
    """Intensity of attention with its projections when one token per sequence is decoded."""
    return (batch * d_model * seq + batch * d_model * d_model) / (
        batch * d_model + d_model * d_model + batch * d_model * seq
    )


@formula("P", "params", _BOOK + "chapter 4, problem 1: L (3 D F + 2 D H (N + K) + D) + V D, twice when not tied")
def gated_model_params(
    layers: Number,
    d_model: Number,
    d_ff: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    vocab: Number,
    matrices: Number,
) -> Number:
    """Parameters of a gated transformer by the rule; `roofline models` counts a real one."""
    blocks = gated_feedforward_params(layers, d_model, d_ff) + attention_params(
        layers, d_model, heads, kv_heads, head_dim
    )
    return blocks + layers * d_model + vocabulary_params(vocab, d_model, matrices)


@formula("t_step", "s", _BOOK + "chapter 7: caches always stream; weights stream or multiply, whichever takes longer")
def decode_step_rule(
    params: Number, bytes_per_param: Number, cache: Number, batch: Number, peak: Number, bandwidth: Number
) -> Number:
    """B kv / W + max(2 B P / C, P bytes / W) at the peak and bandwidth of all devices."""
    weights = num.maximum(2 * batch * params / peak, params * bytes_per_param / bandwidth)
    return batch * cache / bandwidth + weights
