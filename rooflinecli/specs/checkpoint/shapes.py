"""The tensors that a GGUF file of a model holds: names, shapes, and which are quantised; so its size in any file type."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.dataclass import dataclass
from rooflinecli.errors import DataError
from rooflinecli.specs.checkpoint.blocks import tensor_bytes
from rooflinecli.specs.checkpoint.mix import Shape, tensor_type
from rooflinecli.specs.model import AttentionSpec, FeedForwardSpec, ModelSpec

Parts = dict[str, int]


@dataclass(frozen=True)
class Matrix:
    """A matrix that llama-quantize converts: its role, its layer, its shape (outermost first)."""

    role: str
    layer: int
    shape: tuple[int, ...]


def file_bytes(spec: ModelSpec, file: str, parameters: int, imatrix: bool = False) -> Parts:
    """Bytes of a model's tensors in a file type: `layers`, `experts`, `embedding`, `head` (0 when tied), and `total`.

    `parameters` are all that the model has: what is no matrix (norms, biases) and the router stay in 32 bits. Raises DataError for a model whose tensors llama.cpp names differently.
    """
    shape = _shape(spec, imatrix)
    found = dict.fromkeys(("layers", "experts", "embedding", "head"), 0)
    for m in matrices(spec):
        size = tensor_bytes(tensor_type(file, m.role, m.layer, m.shape[-1], shape), m.shape)
        found[
            {"token_embd": "embedding", "output": "head"}.get(
                m.role, "experts" if m.role.endswith("_exps") else "layers"
            )
        ] += size
    found["layers"] += 4 * _rest(spec, parameters)
    return found | {"total": sum(found.values())}


def _shape(spec: ModelSpec, imatrix: bool) -> Shape:
    attention = next((g.attention for g in spec.layers if g.attention), None)
    groups = attention.n_heads // (attention.n_kv_heads or attention.n_heads) if attention else 1
    experts = max((g.feedforward.n_experts or 0 for g in spec.layers), default=0)
    return Shape(spec.n_layers, groups, experts, spec.tied_embeddings, spec.d_model, imatrix)


def matrices(spec: ModelSpec) -> Iterator[Matrix]:
    """Every matrix of the model, layer by layer."""
    yield Matrix("token_embd", -1, (spec.vocab_size, spec.d_model))
    if not spec.tied_embeddings:
        yield Matrix("output", -1, (spec.vocab_size, spec.d_model))
    layer = 0
    for group in spec.layers:
        for _ in range(group.repeat):
            if group.attention is not None:
                yield from _attention(spec, group.attention, layer)
            yield from _feedforward(spec, group.feedforward, layer)
            layer += 1


def _attention(spec: ModelSpec, a: AttentionSpec, i: int) -> Iterator[Matrix]:
    if a.kind not in ("gqa", "mha", "mqa", "mla", "reused"):
        raise DataError(
            f"{spec.document.at('layers')}: sizes of GGUF files are known for softmax attention, and this has {a.kind} layers; "
            "give the file itself, its header says the bytes"
        )
    d, h = spec.d_model, a.head_dim or 0
    if a.kind == "mla":
        yield from _latent(d, a, i)
        return
    kv = a.n_kv_heads or a.n_heads
    wide = 2 if a.out_gate else 1
    yield Matrix("attn_q", i, (a.n_heads * h * wide, d))
    if a.kind != "reused":
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


def _rest(spec: ModelSpec, parameters: int) -> int:
    """Parameters outside the matrices: norms, biases, routers, sinks, learned positions."""
    rest = parameters - sum(_elements(m.shape) for m in matrices(spec))
    beside = [*spec.before, *spec.after, *(piece for group in spec.layers for piece in group.pieces)]
    unnamed = any(piece.kind in ("linear", "table") for piece in beside)  # matrices that are named and quantised otherwise
    if rest < 0 or unnamed or spec.towers or not spec.vocab_size:
        raise DataError(f"{spec.document.at('layers')}: its tensors are not those of a GGUF file; give the file itself")
    return rest


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for axis in shape:
        product *= axis
    return product
