"""Tensors of a model's GGUF file: names, shapes, how llama-quantize chooses the type of each, and so the size in any file type.

A file type is a mixture: Q4_K_M stores some matrices as Q6_K. What stays in 32 bits (norms, the router, everything with one axis) has no
rule here. Source: ggml-org/llama.cpp src/llama-quant.cpp@007dbbf3fd, ggml/src/ggml-common.h@01243c587f; PyPI gguf 0.19.0 constants.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json
from rooflinecli.quantization import linear_layers
from rooflinecli.specs.model import AttentionSpec, FeedForwardSpec, ModelSpec
from rooflinecli.specs.snapshots import packaged

Parts = dict[str, int]
SOFTMAX = ("gqa", "mha", "mqa", "mla", "shared-kv")
# Mixers that llama.cpp supports; apart from softmax attention and the values of a delta rule, their matrices have the file's base type
MIXERS = ("mamba", "mamba2", "gated-delta", "kimi-delta", "short-conv", "attention-ssm", "sparse-mla", "sparse-gqa")
_SOFTMAX_ROWS = ("qkv", "out", "q", "q_down", "q_up", "kv_down", "kv_up")  # as the ledger names them, behind attention.


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


def file_bytes(spec: ModelSpec, file: str, parameters: int, mixers: Mixers | None = None) -> Parts:
    """Bytes of a model's tensors in a file type: `layers`, `experts`, `embedding`, `head` (0 when tied), and `total`.

    `parameters` are all that the model has: what is no matrix (norms, biases, convolutions) and the router stay in 32 bits; `mixers` are the
    matrices of its groups of layers whose mixer is no softmax attention. Raises UsageError for a mixer without such files and for a
    model whose tensors llama.cpp names differently.
    """
    attention = next((g.attention for g in spec.layers if g.attention), None)
    groups = attention.n_heads // (attention.n_kv_heads or attention.n_heads) if attention else 1
    experts = max((g.feedforward.n_experts or 0 for g in spec.layers), default=0)
    stored = spec.quantization
    native = "MXFP4" if stored and stored.dtype == "mxfp4" and stored.applies_to == "experts" else ""
    shape = Shape(spec.n_layers, groups, experts, spec.tied_embeddings, spec.d_model, native=native)
    sizes = dict.fromkeys(("layers", "experts", "embedding", "head"), 0)
    rows = list(matrices(spec, mixers))
    for m in rows:
        size = tensor_bytes(tensor_type(file, m.role, m.layer, m.shape[-1], shape), m.shape)
        outer = {"token_embd": "embedding", "output": "head"}
        sizes[outer.get(m.role, "experts" if m.role.endswith("_exps") else "layers")] += size
    # Parameters outside the matrices: norms, biases, routers, sinks, convolutions, learned positions
    rest = parameters - sum(math.prod(m.shape) for m in rows)
    pieces = [*spec.before, *spec.after, *(piece for group in spec.layers for piece in group.pieces)]
    unnamed = any(piece.kind in ("linear", "table") for piece in pieces)  # matrices named and quantized otherwise
    if rest < 0 or unnamed or spec.towers or not spec.vocab_size:
        raise _unknown_tensors(spec)
    sizes["layers"] += 4 * rest
    return sizes | {"total": sum(sizes.values())}


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


def _attention(spec: ModelSpec, a: AttentionSpec, i: int, rows: Sequence[MixerMatrix] | None) -> Iterator[Matrix]:
    if a.kind in SOFTMAX:
        yield from _softmax(spec.d_model, a, i)
        return
    if a.kind not in MIXERS or rows is None:
        raise UsageError(
            f"{spec.name}: no rule says the sizes of GGUF files with {a.kind} layers, since llama.cpp runs none; "
            "name formats of other tools, such as --file mlx-4,nf4, or give the checkpoint itself",
            "file",
        )
    mixed = a.kind in ("attention-ssm", "sparse-mla", "sparse-gqa")
    if mixed:
        yield from _softmax(spec.d_model, a, i)
    for row in rows:
        if not (mixed and row.name.removeprefix("attention.") in _SOFTMAX_ROWS):
            yield from _scanned(a, row, i)


def _scanned(a: AttentionSpec, row: MixerMatrix, i: int) -> Iterator[Matrix]:
    """The tensors of a mixer's row: the inputs of a delta rule are attn_qkv (or attn_q, attn_k and attn_v), its gate is separate."""
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


def _softmax(d: int, a: AttentionSpec, i: int) -> Iterator[Matrix]:
    """Since 2025 the up-projection of latent attention is stored as its two halves, one of them transposed."""
    for row in linear_layers.attention(d, a, ""):
        if role := packaged(__file__, "ggml")["projections"].get(row.name.rpartition(".")[2]):
            yield Matrix(role, i, (row.outputs, row.inputs))
    if a.kind in ("mla", "sparse-mla"):
        nope, v, rank = (x or 0 for x in (a.qk_nope_head_dim, a.v_head_dim, a.kv_lora_rank))
        yield Matrix("attn_k_b", i, (a.n_heads, rank, nope))
        yield Matrix("attn_v_b", i, (a.n_heads, v, rank))


def _feedforward(spec: ModelSpec, f: FeedForwardSpec, i: int) -> Iterator[Matrix]:
    if f.latent_dim:
        raise _unknown_tensors(spec)
    for row in linear_layers.feedforward(spec.d_model, f, ""):
        role = f"ffn_{row.name.rpartition('.')[2].removesuffix('_proj')}"
        if row.part == "experts":
            yield Matrix(f"{role}_exps", i, (row.copies, row.outputs, row.inputs))
        elif row.part != "router":
            shared = "_shexp" if "shared_experts" in row.name else ""
            yield Matrix(role + shared, i, (row.outputs, row.inputs))


def _unknown_tensors(spec: ModelSpec) -> UsageError:
    text = "its tensors are not those of a GGUF file that a rule is known for; give the file itself"
    return UsageError(f"{spec.name}: {text}", "file")


def types() -> dict[str, list[int]]:
    """Tensor type -> its id in a file, values per block, bytes per block."""
    found: dict[str, list[int]] = packaged(__file__, "ggml")["types"]
    return found


def file_types() -> dict[str, Json]:
    """File type -> `most`, the type of most of its tensors; `id`, its general.file_type; of a mixture that others make, the one that it is
    (`as`) but for embedding and head (`outer`)."""
    found: dict[str, Json] = packaged(__file__, "ggml")["file_types"]
    return found


def tensor_bytes(name: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor (outermost axis first). Raises ValueError where its rows are no whole number of blocks."""
    _, block, size = types()[name]
    columns, rows = shape[-1] if shape else 1, math.prod(shape[:-1])
    if columns % block:
        raise ValueError(f"rows of {columns} values are no whole number of {name} blocks of {block}")
    return rows * (columns // block) * size


_WIDE = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Shape:
    """Model properties that the rules depend on; `native` is the type of experts that every file copies (empty for 16 bits), `groups` the
    query heads per key/value head."""

    layers: int
    groups: int
    experts: int = 0
    tied: bool = False
    width: int = 0
    imatrix: bool = False
    native: str = ""

    def conditions(self, i: int) -> dict[str, bool]:
        """The conditions of ggml.yaml in layer i."""
        eighth, last = self.layers // 8, 7 * self.layers // 8
        return {
            "first2": i < 2,
            "first4": i < 4,
            "early": i < eighth,
            "sixteenth": i < self.layers // 16,
            "middle": eighth <= i < last,
            "more": i < eighth or i >= last or (i - eighth) % 3 == 2,
            "shared": self.groups >= 4,
            "eight": self.experts == 8,
            "experts4": self.experts >= 4,
            "imatrix": self.imatrix,
        }


def file_type(name: str | None) -> str | None:
    """The GGUF file type of a weight format as typed; None for a number format (int4, fp8)."""
    written = (name or "").upper()
    return written if written in file_types() and written not in ("F32", "BF16", "MXFP4", "NVFP4") else None


def tensor_type(file: str, role: str, layer: int, columns: int, shape: Shape) -> str:
    """The type of one matrix: `role` is its name without block number (attn_v, ffn_down, token_embd, output, ...).

    Experts published in MXFP4 (gpt-oss) are copied as they are by convert_hf_to_gguf, and llama-quantize converts nothing twice
    unless forced to (`requantizing from type mxfp4 is disabled`).
    """
    if shape.native and role.endswith("_exps"):
        return shape.native
    wanted = _choose(file, role.removesuffix("_exps").removesuffix("_shexp"), layer, shape, role.endswith("_exps"))
    fallback = packaged(__file__, "ggml")["fallback"]
    if columns % types()[wanted][1] and wanted in fallback:
        wanted = "Q8_0" if role == "output" else fallback[wanted]
    return "F16" if columns % types()[wanted][1] else wanted


def _choose(file: str, role: str, i: int, s: Shape, expert: bool) -> str:
    mixture = file_types()[file]
    base, file = str(mixture["most"]), mixture.get("as", file)
    if base in _WIDE:
        return base
    if "outer" in mixture and role in ("token_embd", "output"):
        return str(mixture["outer"])
    role = "output" if role == "token_embd" and s.tied else role
    if file == "MXFP4_MOE" and role != "output":
        return "MXFP4" if expert else "Q8_0"
    rules = packaged(__file__, "ggml")["rules"].get(role, {})
    holds = s.conditions(i)
    for rule in rules.get(file, rules.get("other", [])):
        condition, _, kind = rule.rpartition(" ")
        if all(holds[c.removeprefix("no-")] != c.startswith("no-") for c in condition.split("&") if c):
            base = kind
            break
    if role in ("attn_v", "attn_qkv", "attn_kv_b") and s.layers == 80 and s.width == 8192 and base in ("Q3_K", "Q4_K"):
        tiny = file.startswith(("IQ1", "IQ2"))
        return base if tiny else "Q5_K"  # llama-quant's 70B rule: eight queries share a value, so more bits are cheap
    return base
