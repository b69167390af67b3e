"""Query-key pairs, FLOPs and bytes of the attention core: rows of attention.yaml, and what takes more than one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.formula_table import formula_table
from rooflinecli.core.num import Number

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))


@formula("P", "pairs", "half of S^2, the convention in which MFU counts causal attention (PaLM appendix B halved; Megatron-LM)")  # fmt: skip
def causal_pairs(seq: Number, window: Number) -> Number:
    """Query-key pairs of causal attention over `seq` tokens, each query seeing at most `window` keys."""
    seen = num.minimum(seq, window)
    return seen * seen / 2 + (seq - seen) * seen


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
