"""Query-key pairs, FLOPs and bytes of the attention core."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_DAO = "Dao et al. 2022, FlashAttention, section 3"


@formula("P", "pairs", "half of S^2, the convention in which MFU counts causal attention (PaLM appendix B halved; Megatron-LM)")  # fmt: skip
def causal_pairs(seq: Number, window: Number) -> Number:
    """Query-key pairs of causal attention over `seq` tokens, each query seeing at most `window` keys."""
    seen = num.minimum(seq, window)
    return seen * seen / 2 + (seq - seen) * seen


@formula("P", "pairs", "every query against every key, as llm-foundry and PaLM count")
def full_pairs(seq: Number, window: Number) -> Number:
    """Query-key pairs when masked pairs are counted too."""
    return seq * num.minimum(seq, window)


@formula("P", "pairs", "causal attention inside chunks of c tokens (Llama 4), half of c^2 each")
def chunked_pairs(seq: Number, chunk: Number) -> Number:
    """Query-key pairs of chunked causal attention."""
    whole = num.floor(seq / chunk)
    rest = seq - whole * chunk
    return whole * chunk * chunk / 2 + rest * rest / 2


@formula(
    "P_c",
    "pairs",
    "a query sees the whole entries of r tokens behind it, k of them at most: sum of min(floor(t/r), k); DeepSeek-V4 report, sections 2.3.1 and 2.3.2",
)
def compressed_pairs(seq: Number, rate: Number, most: Number) -> Number:
    """Pairs of queries with compressed entries over `seq` tokens, where e = min(floor(S/r), k) are seen in the end."""
    r = num.minimum(rate, seq)
    entries = num.minimum(num.floor(seq / rate), most)
    return r * entries * (entries - 1) / 2 + entries * (seq - r * entries + 1)


@formula(
    "l_doc",
    "tokens",
    "documents packed whole, attention masked between them (Krell et al. 2021, Efficient Sequence Packing without Cross-contamination): a token is "
    "in a long one more often",
)
def packed_length(squares: Number, total: Number) -> Number:
    """sum(l^2)/sum(l): length of the document that a token is in, on average."""
    return squares / total


@formula("P", "pairs", "documents of l tokens fill a sequence, each attends to itself alone")
def packed_pairs(seq: Number, length: Number, pairs: Number) -> Number:
    """S/l times the pairs of one document."""
    return seq / length * pairs


@formula("F_attn", "FLOP", "scores and weighted values, two FLOPs per pair and element; Kaplan et al. 2020, section 2.1")  # fmt: skip
def attention_core_flops(batch: Number, heads: Number, pairs: Number, qk_dim: Number, v_dim: Number) -> Number:
    """FLOPs of q k^T and p v over a number of query-key pairs per head."""
    return 2 * batch * heads * pairs * (qk_dim + v_dim)


@formula("F_idx", "FLOP", "small heads score every key and are summed by a weight each; DeepSeek-V3.2-Exp report, eq. 1")  # fmt: skip
def indexer_flops(batch: Number, heads: Number, pairs: Number, width: Number) -> Number:
    """FLOPs of an indexer that ranks query-key pairs."""
    return 2 * batch * heads * pairs * (width + 1)


@formula("B_attn", "B", "q and o once, k and v once, scores never leave the chip; " + _DAO)
def flash_attention_bytes(
    batch: Number,
    queries: Number,
    keys: Number,
    heads: Number,
    kv_heads: Number,
    qk_dim: Number,
    v_dim: Number,
    x_bytes: Number,
    kv_bytes: Number,
) -> Number:
    """Least HBM bytes of fused attention."""
    return batch * (queries * heads * (qk_dim + v_dim) * x_bytes + keys * kv_heads * (qk_dim + v_dim) * kv_bytes)


@formula("B_scores", "B", "scores written and read, probabilities written and read; JAX Scaling Book workbook 0.4")
def unfused_scores_bytes(batch: Number, heads: Number, queries: Number, keys: Number, x_bytes: Number) -> Number:
    """Extra bytes when scores and probabilities go through HBM."""
    return 4 * batch * heads * queries * keys * x_bytes


@formula("W_rank", "pairs", "Brandon et al. 2023, Striped Attention; work of the busiest rank summed over ring steps, naive split")  # fmt: skip
def ring_naive_pairs(seq: Number, ring: Number) -> Number:
    """c(c+1)/2 + (R-1) c^2 with c = S/R."""
    c = seq / ring
    return c * (c + 1) / 2 + (ring - 1) * c * c


@formula("W_rank", "pairs", "Brandon et al. 2023, Striped Attention")
def ring_striped_pairs(seq: Number, ring: Number) -> Number:
    """R c(c+1)/2 with c = S/R."""
    c = seq / ring
    return ring * c * (c + 1) / 2


@formula("W_rank", "pairs", "zig-zag split (Llama 3 report, section 3.3.2; ring-flash-attention): every rank holds an early and a late chunk")  # fmt: skip
def ring_zigzag_pairs(seq: Number, ring: Number) -> Number:
    """c(c+1)/2 + (R-1) c^2/2 = S(S+1)/(2R)."""
    c = seq / ring
    return c * (c + 1) / 2 + (ring - 1) * c * c / 2


@formula("x", "1", "naive ring: the last rank attends to everyone, the first to itself; Brandon et al. 2023, Striped Attention")  # fmt: skip
def ring_naive_imbalance(seq: Number, ring: Number) -> Number:
    """Work of the busiest rank over an even share."""
    return ring_naive_pairs(seq, ring) / (seq * (seq + 1) / 2 / ring)


@formula("x", "1", "Brandon et al. 2023, Striped Attention")
def ring_striped_imbalance(seq: Number, ring: Number) -> Number:
    """Work of the busiest rank over an even share."""
    return ring_striped_pairs(seq, ring) / (seq * (seq + 1) / 2 / ring)


@formula(
    "B_scores",
    "B",
    "softmax reads and writes every score, dropout again with a one-byte mask; scores and probabilities pass between kernels",
)
def score_traffic(scores: Number, x_bytes: Number, dropout: Number) -> Number:
    """Bytes of the elementwise kernels on materialized scores, forward; dropout is 1 or 0."""
    return scores * (2 * x_bytes + dropout * (2 * x_bytes + 1))


@formula("B_scores", "B", "softmax backward reads the probabilities and their gradient and writes one more, dropout reads its mask")  # fmt: skip
def score_gradient_traffic(scores: Number, x_bytes: Number, dropout: Number) -> Number:
    """The same in the backward pass."""
    return scores * (3 * x_bytes + dropout * (2 * x_bytes + 1))
