"""The tensors that a GGUF file of a model holds: names, shapes, and which are quantized; so its size in any file type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.quantization.ggml_types import tensor_bytes
from rooflinecli.quantization.gguf_mix import Shape, tensor_type
from rooflinecli.specs.model import AttentionSpec, FeedForwardSpec, ModelSpec

Parts = dict[str, int]
SOFTMAX = ("gqa", "mha", "mqa", "mla", "shared-kv")
# Mixers that llama.cpp runs: their matrices beside those of softmax attention are of the file's plain type, but for the values of a delta rule
MIXERS = ("mamba", "mamba2", "gated-delta", "kimi-delta", "short-conv", "attention-ssm", "sparse-mla", "sparse-gqa")
_SOFTMAX_ROWS = (
    "attention.qkv",
    "attention.out",
    "attention.q",
    "attention.q_down",
    "attention.q_up",
    "attention.kv_down",
    "attention.kv_up",
)


@dataclass(frozen=True)
class MixerMatrix:
    """A weight matrix of a mixer as the ledger names it: its inputs and outputs, and how many there are of it."""

    name: str
    inputs: int
    outputs: int
    copies: int = 1


Mixers = Mapping[int, Sequence[MixerMatrix]]  # by the group of layers


@dataclass(frozen=True)
class Matrix:
    """A matrix that llama-quantize converts: its role, its layer, its shape (outermost first)."""

    role: str
    layer: int
    shape: tuple[int, ...]


def file_bytes(
    spec: ModelSpec, file: str, parameters: int, imatrix: bool = False, mixers: Mixers | None = None
) -> Parts:
    """Bytes of a model's tensors in a file type: `layers`, `experts`, `embedding`, `head` (0 when tied), and `total`.

    `parameters` are all that the model has: what is no matrix (norms, biases, convolutions) and the router stay in 32 bits; `mixers` are the
    matrices of its groups of layers whose mixer is no softmax attention. Raises UsageError for a mixer without such files and for a
    model whose tensors llama.cpp names differently.
    """
    shape = _shape(spec, imatrix)
    found = dict.fromkeys(("layers", "experts", "embedding", "head"), 0)
    held = list(matrices(spec, mixers))
    for m in held:
        size = tensor_bytes(tensor_type(file, m.role, m.layer, m.shape[-1], shape), m.shape)
        found[
            {"token_embd": "embedding", "output": "head"}.get(
                m.role, "experts" if m.role.endswith("_exps") else "layers"
            )
        ] += size
    found["layers"] += 4 * _rest(spec, parameters - sum(_elements(m.shape) for m in held))
    return found | {"total": sum(found.values())}


def _shape(spec: ModelSpec, imatrix: bool) -> Shape:
    attention = next((g.attention for g in spec.layers if g.attention), None)
    groups = attention.n_heads // (attention.n_kv_heads or attention.n_heads) if attention else 1
    experts = max((g.feedforward.n_experts or 0 for g in spec.layers), default=0)
    stored = spec.quantization
    native = "MXFP4" if stored and stored.dtype == "mxfp4" and stored.applies_to == "experts" else ""
    return Shape(spec.n_layers, groups, experts, spec.tied_embeddings, spec.d_model, imatrix, native)


def matrices(spec: ModelSpec, mixers: Mixers | None = None) -> Iterator[Matrix]:
    """Every matrix of the model, layer by layer."""
    yield Matrix("token_embd", -1, (spec.vocab_size, spec.d_model))
    if not spec.tied_embeddings:
        yield Matrix("output", -1, (spec.vocab_size, spec.d_model))
    for layer, at in enumerate(spec.order):
        group = spec.layers[at]
        if group.attention is not None:
            yield from _attention(spec, group.attention, layer, (mixers or {}).get(at))
        yield from _feedforward(spec, group.feedforward, layer)


def _attention(spec: ModelSpec, a: AttentionSpec, i: int, held: Sequence[MixerMatrix] | None) -> Iterator[Matrix]:
    if a.kind in SOFTMAX:
        yield from _softmax(spec, a, i)
        return
    if a.kind not in MIXERS or held is None:
        raise UsageError(
            f"{spec.name}: no rule says the sizes of GGUF files with {a.kind} layers, since llama.cpp runs none; "
            "name formats of other tools, such as --file mlx-4,nf4, or give the checkpoint itself",
            "file",
        )
    beside = a.kind in ("attention-ssm", "sparse-mla", "sparse-gqa")
    if beside:
        yield from _softmax(spec, a, i)
    for row in held:
        if not (beside and row.name in _SOFTMAX_ROWS):
            yield from _scanned(a, row, i)


def _scanned(a: AttentionSpec, row: MixerMatrix, i: int) -> Iterator[Matrix]:
    """The tensors of a mixer's row: what a delta rule reads is attn_qkv (or attn_q, attn_k and attn_v), with its gate apart."""
    role, outputs = row.name.removeprefix("attention."), row.outputs
    values = a.n_heads * (a.v_head_dim or a.head_dim or 0)
    if role == "qkvz":
        yield Matrix("attn_qkv", i, (outputs - values, row.inputs))
        yield Matrix("attn_gate", i, (values, row.inputs))
    elif role == "qkv":
        keys = (outputs - values) // 2
        yield from (
            Matrix(name, i, (n, row.inputs)) for name, n in (("attn_q", keys), ("attn_k", keys), ("attn_v", values))
        )
    elif role == "out" and a.kind == "kimi-delta":
        yield Matrix("attn_output", i, (outputs, row.inputs))
    else:
        yield Matrix(role, i, (row.copies, outputs, row.inputs))


def _softmax(spec: ModelSpec, a: AttentionSpec, i: int) -> Iterator[Matrix]:
    d, h = spec.d_model, a.head_dim or 0
    if a.kind in ("mla", "sparse-mla"):
        yield from _latent(d, a, i)
        return
    kv = a.n_kv_heads or a.n_heads
    wide = 2 if a.out_gate else 1
    yield Matrix("attn_q", i, (a.n_heads * h * wide, d))
    if a.kind != "shared-kv":
        yield Matrix("attn_k", i, (kv * h, d))
        if not a.same_values:
            yield Matrix("attn_v", i, (kv * h, d))
    yield Matrix("attn_output", i, (d, a.n_heads * h))


def _latent(d: int, a: AttentionSpec, i: int) -> Iterator[Matrix]:
    """Since 2025 the up-projection is stored as its two halves, one of them transposed."""
    nope, rope, v, rank = (x or 0 for x in (a.qk_nope_head_dim, a.qk_rope_head_dim, a.v_head_dim, a.kv_lora_rank))
    width = a.n_heads * (nope + rope)
    if a.q_lora_rank:
        yield Matrix("attn_q_a", i, (a.q_lora_rank, d))
        yield Matrix("attn_q_b", i, (width, a.q_lora_rank))
    else:
        yield Matrix("attn_q", i, (width, d))
    yield Matrix("attn_kv_a_mqa", i, (rank + rope, d))
    yield Matrix("attn_k_b", i, (a.n_heads, rank, nope))
    yield Matrix("attn_v_b", i, (a.n_heads, v, rank))
    yield Matrix("attn_output", i, (d, a.n_heads * v))


def _feedforward(spec: ModelSpec, f: FeedForwardSpec, i: int) -> Iterator[Matrix]:
    d, ff = spec.d_model, f.d_ff or 0
    if f.kind == "moe":
        names = ("ffn_gate_exps", "ffn_up_exps") if f.gated else ("ffn_up_exps",)
        yield from (Matrix(name, i, (f.n_experts or 0, ff, d)) for name in names)
        yield Matrix("ffn_down_exps", i, (f.n_experts or 0, d, ff))
        shared = f.shared_d_ff or f.n_shared * ff
        if shared:
            names = ("ffn_gate_shexp", "ffn_up_shexp") if f.gated else ("ffn_up_shexp",)
            yield from (Matrix(name, i, (shared, d)) for name in names)
            yield Matrix("ffn_down_shexp", i, (d, shared))
    elif f.kind in ("gated", "dense"):
        yield from (Matrix(name, i, (ff, d)) for name in (("ffn_gate", "ffn_up") if f.kind == "gated" else ("ffn_up",)))
        yield Matrix("ffn_down", i, (d, ff))


def _rest(spec: ModelSpec, rest: int) -> int:
    """Parameters outside the matrices: norms, biases, routers, sinks, convolutions, learned positions."""
    beside = [*spec.before, *spec.after, *(piece for group in spec.layers for piece in group.pieces)]
    unnamed = any(
        piece.kind in ("linear", "table") for piece in beside
    )  # matrices that are named and quantized otherwise
    if rest < 0 or unnamed or spec.towers or not spec.vocab_size:
        raise UsageError(
            f"{spec.name}: its tensors are not those of a GGUF file that a rule is known for; give the file itself",
            "file",
        )
    return rest


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for axis in shape:
        product *= axis
    return product
