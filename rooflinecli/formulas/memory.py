"""What is resident: weights, gradients, optimizer state, activations, KV cache."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_ZERO = "Rajbhandari et al. 2020, ZeRO, section 3 (partition over the data-parallel group)"
_KORTHIKANTI = "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models"


@formula("M_w", "B", _ZERO)
def partitioned_bytes(params: Number, bytes_per_param: Number, shards: Number) -> Number:
    """Bytes per device of a state kept once per parameter and split over `shards` devices."""
    return params * bytes_per_param / shards


@formula("M_hpZ", "B", "Wang et al. 2023, ZeRO++, section 3.2: a second 16-bit copy of the weights, split inside a host, for the backward pass")  # fmt: skip
def second_copy(params: Number, bytes_per_param: Number, shards: Number, members: Number) -> Number:
    """p N / m where weights are split over more devices than the m of one host; nothing where the first copy lies inside it."""
    return num.where(shards > members, params * bytes_per_param / members, 0.0)


@formula("b_kv", "B", "keys and values of every cached layer; Pope et al. 2022, Efficiently Scaling Transformer Inference")  # fmt: skip
def kv_cache_bytes(batch: Number, tokens: Number, values_per_token: Number, bytes_per_value: Number) -> Number:
    """KV cache of one layer."""
    return batch * tokens * values_per_token * bytes_per_value


@formula("M_a", "B", "Megatron-LM, --recompute-num-layers: some layers keep their input alone, the others all they need")  # fmt: skip
def part_recomputed(boundary: Number, kept: Number, share: Number) -> Number:
    """Activations per layer, on average, when a fraction of the layers is recomputed."""
    return share * boundary + (1 - share) * kept


@formula(
    "M_x",
    "B",
    "what jax.vjp saves of a layer that rematerializes nothing: a norm in fp32 its input twice, a gate its sigmoid and its products; "
    "counted with jax 0.10.2 (saved_residuals), kept as it is by XLA across a scan over layers",
)
def autodiff_residuals(norms: Number, norm_bytes: Number, gates: Number, gate_bytes: Number) -> Number:
    """Bytes that automatic differentiation saves besides the inputs of matmuls."""
    return norms * norm_bytes + gates * gate_bytes


@formula("n_if", "microbatches", "1F1B holds at most pp microbatches on the first stage; Narayanan et al. 2021, section 2.2")  # fmt: skip
def in_flight_1f1b(microbatches: Number, pp: Number) -> Number:
    """Microbatches whose activations the first stage keeps under 1F1B."""
    return num.minimum(microbatches, pp)


@formula("n_if", "microbatches", "GPipe runs all forward first; Huang et al. 2019")
def in_flight_gpipe(microbatches: Number, pp: Number) -> Number:
    """Microbatches whose activations a stage keeps under GPipe."""
    return microbatches * num.minimum(pp, 1)


@formula("n_if", "microbatches", "interleaving holds (pp-1)/(pp v) more: 1 + (pp-1)/(pp v) of pp; " + _KORTHIKANTI + ", section 4.2.3")  # fmt: skip
def in_flight_interleaved(microbatches: Number, pp: Number, virtual_stages: Number) -> Number:
    """Microbatches (in units of a whole stage) the first stage keeps under interleaved 1F1B."""
    return num.minimum(microbatches, pp * (1 + (pp - 1) / (pp * virtual_stages)))


@formula("S_scores", "B", _KORTHIKANTI + ", section 4.1: softmax output, and with dropout its mask and output")
def score_activations(batch: Number, heads: Number, pairs: Number, p: Number, dropout: Number) -> Number:
    """(2p + 1) bytes per score when attention is not fused and has dropout, p without; dropout is 1 or 0."""
    return (p + dropout * (p + 1)) * batch * heads * pairs


@formula("M_a", "B", "the first stage holds the most microbatches, the last one holds the head")
def fullest_activations(
    first: Number, last: Number, stem: Number, head: Number, transient: Number, pp: Number
) -> Number:
    """Activations on the fullest stage; one stage holds both ends, and what one layer needs at work or the loss, never both."""
    most = num.maximum(head, transient)
    return num.where(pp > 1, num.maximum(first + stem + transient, last + most), first + stem + most)


@formula("P_mtp", "1", "DeepSeek-V3 Technical Report, section 2.2, eq. 21: M_k [RMSNorm(h); RMSNorm(Emb(t))]; a final norm of its own")  # fmt: skip
def prediction_parameters(d_model: Number, tp: Number) -> Number:
    """2 D^2/tp + 3 D: what a module that predicts a further token adds to its layer."""
    return 2 * d_model * d_model / tp + 3 * d_model


@formula("M_act", "B", "Hsu et al. 2024, Liger Kernel, section 3.2: gradients of a part of the logits are taken at once")  # fmt: skip
def chunked_loss(head: Number, logits: Number, chunks: Number) -> Number:
    """head - logits (1 - 1/c): what the head holds when the loss is taken a part of the tokens at a time."""
    return head - logits * (1 - 1 / chunks)


@formula(
    "M_work",
    "B",
    "Bekman et al. 2025, Arctic Long Sequence Training, section 3.1 (TiledMLP): tokens of a feed-forward do not meet, so it runs over tiles of them, "
    "forward again and backward of one before the next",
)
def tiled_feedforward(working: Number, feedforward: Number, chunks: Number) -> Number:
    """working - feedforward (1 - 1/c): what a layer at work holds when its feed-forward runs over a part of the tokens at a time."""
    return working - feedforward * (1 - 1 / chunks)


@formula("h", "1", "share of capacity left free")
def headroom(total: Number, capacity: Number) -> Number:
    """(capacity - total) / capacity; negative when it does not fit."""
    return (capacity - total) / capacity


@formula("M", "B", "sum of what is resident")
def total_memory(
    weights: Number, gradients: Number, optimizer: Number, activations: Number, kv_cache: Number, reserve: Number
) -> Number:
    """Bytes resident per device."""
    return weights + gradients + optimizer + activations + kv_cache + reserve


@formula("M_keep", "B", "memory that an engine turns neither into weights nor into cache; at least its reserve")
def kept_by_engine(capacity: Number, weights: Number, room: Number, reserve: Number) -> Number:
    """Bytes per device that an engine keeps free of weights and KV cache: a serving phase fits where its cache fits the room."""
    return num.maximum(capacity - weights - room, reserve)


_SIDES = "Shi et al. 2023, Distributed Shampoo: blocks of a maximum number of rows; Vyas et al. 2024, SOAP: a longer side has none"


@formula("M_L", "B", _SIDES + "; each factor in fp32")
def factor_bytes(side: Number, other: Number, widest: Number, factors: Number, blocked: Number) -> Number:
    """Bytes of the square factors on one side of a matrix: 4 factors s^2 of a side that is short enough, or of each of its blocks."""
    blocks = num.ceil(side / widest) * num.ceil(other / widest)
    short = num.minimum(side, widest)
    whole = num.where(side > widest, 0.0, 4 * factors * side**2)
    return num.where(blocked > 0, 4 * factors * short**2 * blocks, whole)
