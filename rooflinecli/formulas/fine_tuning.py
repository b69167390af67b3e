"""Training less than everything: adapters (LoRA, QLoRA), and preference tuning with a reference model (DPO)."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_LORA = "Hu et al. 2021, LoRA, section 4.1"
_QLORA = "Dettmers et al. 2023, QLoRA, section 3: 4-bit NormalFloat, blocks of 64, constants quantized to 8 bits in blocks of 256"


@formula("N_ad", "params", _LORA)
def adapter_parameters(rank: Number, k: Number, n: Number) -> Number:
    """r (k + n): a down and an up projection of a k x n matrix."""
    return rank * (k + n)


@formula("F_ad", "FLOP", _LORA)
def adapter_flops(tokens: Number, rank: Number, k: Number, n: Number) -> Number:
    """Forward FLOPs of an adapter."""
    return 2 * tokens * rank * (k + n)


@formula("B_ad", "B", "the input read again, the output read and written again; the rank is narrow")
def adapter_bytes(tokens: Number, k: Number, n: Number, x_bytes: Number) -> Number:
    """Bytes an unfused adapter moves in a forward pass."""
    return tokens * (k + 2 * n) * x_bytes


_SERVED = "Chen et al. 2023, Punica, arXiv 2310.18547, section 4: each sequence gathers its own low-rank pair"


@formula("B_ad", "B", _SERVED + "; a replica's layers are shared out over its stages")
def adapters_held(adapters: Number, parameters: Number, pp: Number, width: Number) -> Number:
    """N P w / pp."""
    return adapters * parameters * width / pp


@formula("n_ad", "1", "adapters drawn evenly and independently: those that at least one of the sequences uses")
def adapters_met(adapters: Number, sequences: Number) -> Number:
    """N (1 - (1 - 1/N)^b)."""
    return adapters * (1 - (1 - 1 / adapters) ** sequences)


@formula("B_ad", "B", _SERVED)
def served_adapter_bytes(
    tokens: Number, k: Number, n: Number, x_bytes: Number, parameters: Number, width: Number
) -> Number:
    """m (k + 2 n) x + P w: the input read again, the output read and written again, and one adapter."""
    return tokens * (k + 2 * n) * x_bytes + parameters * width


@formula("B_ad'", "B", _SERVED)
def further_bytes(adapters: Number, parameters: Number, width: Number) -> Number:
    """max(n_ad - 1, 0) P w: adapters beyond the first."""
    return num.maximum(adapters - 1, 0) * parameters * width


@formula("b_nf4", "B", _QLORA)
def nf4_bytes(block: Number, constants: Number) -> Number:
    """Bytes per weight of double-quantized NF4: 4 bits, an 8-bit constant per block, an fp32 one per block of constants."""
    return (4 + 8 / block + 32 / (block * constants)) / 8


@formula("B_deq", "B", _QLORA + "; each use reads the stored weights and writes them in 16 bits")
def dequantize_bytes(weights: Number, stored: Number, working: Number) -> Number:
    """Bytes of turning stored weights into working ones."""
    return weights * (stored + working)
