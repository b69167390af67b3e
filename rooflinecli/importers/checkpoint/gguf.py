"""A GGUF file as a model: its keys as the config.json they were converted from, its tensors as bytes per parameter of each part.

Architectures are rows of gguf_architectures.yaml; which mixer or mixture a layer has, where layers differ, is read off its tensors.

A file of any other architecture is read from its tensors: attention, latent or not, norms, MLPs, mixtures. Every tensor is accounted for
or the file is refused, so an unseen architecture is counted right or not at all. What the tensors do not say (heads, their widths,
windows) is in the keys.
Source: ggml-org/llama.cpp gguf-py constants.py (MODEL_TENSORS, LLM keys) and conversion scripts (gguf 0.19.0); for windows, the periods that
llama.cpp's src/llama-model.cpp has for architectures.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json
from rooflinecli.importers.checkpoint.gguf_header import GgufMetadata, read
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.importers.hf import from_config
from rooflinecli.importers.hf.blocks import Override, set_only, stack
from rooflinecli.importers.hf.rows import Scope
from rooflinecli.quantization.gguf import file_types
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import display_path
from rooflinecli.specs.snapshots import packaged

_EXPERT = re.compile(r"_exps\.(weight|bias)$")
_TABLE = packaged(__file__)


def model_document(path: Path) -> Document:
    """The model of a GGUF file. Raises DataError for an architecture not known here."""
    header = read(path)
    name = header.metadata.get("general.architecture")
    if not isinstance(name, str):
        why = f"{display_path(path)}: general.architecture is missing, so which model it holds is not known; convert it again"
        raise DataError(why)
    keys = GgufMetadata(header, name, display_path(path))
    if name in architectures():
        stated, width = keys.integer("embedding_length", 0), keys.shape("token_embd.weight")[-1]
        if stated and stated != width:
            says = f"{name}.embedding_length says {stated:,}, and token_embd.weight is {width:,} wide"
            raise keys.fail(says, "convert the model again")
        data = from_config(config(keys), f"{display_path(path)}")
    else:
        data = plain(keys)
    title = header.metadata.get("general.name")
    data["name"] = str(title)[:80] if isinstance(title, str) and title.strip() else path.stem
    data["source"] = f"header of {path.name}, GGUF of architecture {name}"
    data.pop("notes", None)
    data["checkpoint"] = header.facts()
    data["quantization"] = _stored(header)
    return Document(data, path, {(): (display_path(path), 1)})


def _stored(header: Header) -> Json:
    """The mean bytes per parameter of layers, experts, embedding and head."""
    tensors = header.tensors
    outer = [t for t in tensors if t.name in _TABLE["outside"]]
    experts = [t for t in tensors if _EXPERT.search(t.name)]
    embedding, head = ([t for t in tensors if t.name == f"{name}.weight"] for name in ("token_embd", "output"))
    parts = {
        "layers": [t for t in tensors if t.name not in _TABLE["outside"] and not _EXPERT.search(t.name)],
        "experts": experts,
        "embedding": embedding,
        "head": head or embedding,
        "outer": outer,
    }
    kind = header.metadata.get("general.file_type")
    label = next((name for name, row in file_types().items() if row.get("id", "") == kind), "")
    sizes = {name: sum(t.elements for t in part) for name, part in parts.items()}
    widths = {name: sum(t.bytes for t in part) / sizes[name] for name, part in parts.items() if sizes[name]}
    return {"dtype": f"gguf {label}".strip(), "widths": widths}


def architectures() -> Collection[str]:
    """Architectures that a row describes."""
    return packaged(__file__, "gguf_architectures").keys()


def config(k: GgufMetadata) -> Json:
    """The config.json that a file was converted from. Raises DataError."""
    row, (vocab, width) = packaged(__file__, "gguf_architectures")[k.name], k.shape("token_embd.weight")
    functions = {name: getattr(k, name) for name in ("has", "shape", "layers_with", "first", "divided")}
    known = functions | {"key": k.integer, "raw": k.get, "width": width, "vocab": vocab, "n": k.layers}
    scope = Scope(k, known, row.get("let", {}))
    for condition, problem in row.get("check", ()):
        if not scope.value(condition):
            raise k.fail(f"{k.name}: {problem.format_map(scope)}")
    fields = row["fields"]
    if "then" in fields:
        fields = fields["then" if scope.value(fields["if"]) else "else"]
    attention = _TABLE["attention"] if row.get("attention", True) else {}
    template = {"model_type": row["model_type"], **_TABLE["base"], **attention, **fields}
    made: Json = scope.built({name: written for name, written in template.items() if written is not None})
    return made


Block = Json
Shape = tuple[int, ...]
_BESIDE = re.compile(r"^(rope_|blk\.\d+\.attn_rot_embd)")  # tables of angles, no parameters
_BLOCK = re.compile(r"^blk\.(\d+)\.(.+)$")


def plain(k: GgufMetadata) -> Block:
    """The fields of a model. Raises DataError naming a tensor that is none of a plain decoder or encoder."""
    inner: list[dict[str, tuple[int, ...]]] = [{} for _ in range(k.layers)]
    outer: dict[str, tuple[int, ...]] = {}
    for t in k.header.tensors:
        at = _BLOCK.match(t.name)
        if at and int(at[1]) < k.layers:
            inner[int(at[1])][at[2]] = t.shape
        elif not at and not _BESIDE.match(t.name):
            outer[t.name] = t.shape
    model = _outside(k, outer)
    layers = [_layer(k, Layer(k, i, tensors, model["d_model"])) for i, tensors in enumerate(inner)]
    norms = {made.pop("norm") for made in layers} - {None} | {model.pop("norm")} - {None}
    if len(norms) > 1:
        raise k.fail("some of its norms have a bias and some have none, which is not supported")
    norm = norms.pop() if norms else "none"
    plain_norm = "rmsnorm" if k.get("attention.layer_norm_rms_epsilon") is not None else "layernorm_nobias"
    return model | {"norm": {"bias": "layernorm", "none": "none"}.get(norm, plain_norm), "layers": stack(layers)}


def _outside(k: GgufMetadata, outer: dict[str, tuple[int, ...]]) -> Block:
    """Read embedding, positions, norms and head, and remove their tensors from `outer`."""
    vocab, width = outer.pop("token_embd.weight", k.shape("token_embd.weight"))
    head = outer.pop("output.weight", None)
    encoder = k.get("attention.causal") is False
    final = _norm(outer, "output_norm", width)
    model: Block = {
        "family": k.name,
        "d_model": width,
        "vocab_size": vocab,
        "tied_embeddings": head is None and not encoder,
        "lm_head": not encoder or head is not None,
        "max_context": k.integer("context_length"),
        "final_norm": final is not None,
        "norm": final,
        "before": [],
    }
    if outer.pop("output.bias", None):
        model["lm_head_bias"] = True
    if "position_embd.weight" in outer:
        model["positions"] = {"kind": "learned", "length": outer.pop("position_embd.weight")[0]}
    elif k.get("attention.max_alibi_bias") is not None:
        model["positions"] = {"kind": "alibi"}
    if "token_types.weight" in outer:
        model["before"].append({"kind": "table", "name": "token_types", "rows": outer.pop("token_types.weight")[0]})
    if _norm(outer, "token_embd_norm", width):
        model["embedding_norm"] = True
    if outer:
        raise _unread(k, next(iter(outer)))
    return {key: value for key, value in model.items() if value not in ([],)}


def _norm(tensors: dict[str, tuple[int, ...]], name: str, width: int) -> str | None:
    """Takes a norm of the stream out: `scale`, `bias` (scale and shift), or None where there is none."""
    if tensors.get(f"{name}.weight") != (width,):
        return None
    del tensors[f"{name}.weight"]
    return "bias" if tensors.pop(f"{name}.bias", None) else "scale"


def _layer(k: GgufMetadata, layer: Layer) -> Override:
    """Read one layer from its tensors. Raises DataError for a tensor left over."""
    local, chunk = _local(k, layer.index), _TABLE["chunk"].get(k.name)
    made: Override = {"attention": attention(layer, local, chunk), "feedforward": feedforward(layer)}
    scales = [
        n for n, shape in layer.tensors.items() if "norm" in n and n.endswith(".weight") and shape == (layer.width,)
    ]
    names = [n.removesuffix(".weight") for n in scales]
    norm_kinds = {_norm(layer.tensors, name, layer.width) for name in names}
    if layer.tensors:
        raise _unread(k, f"blk.{layer.index}.{next(iter(layer.tensors))}")
    if len(norm_kinds - {None}) > 1:
        raise layer.fail("has norms with and without a bias, which is not supported")
    both = made["attention"] is not None and made["feedforward"]["kind"] != "none"
    parallel = {"parallel": True} if both and len(names) == 1 else {}
    return made | parallel | {"norms": len(names), "norm": next(iter(norm_kinds - {None}), None)}


def _local(k: GgufMetadata, index: int) -> int | None:
    """Keys that a layer sees at most, where it sees a window or a chunk."""
    chunk = k.integer("attention.chunk_size", 0) or _TABLE["chunk"].get(k.name, 0)
    window = k.integer("attention.sliding_window", 0) or chunk
    listed = k.get("attention.sliding_window_pattern")
    if not window:
        return None
    if isinstance(listed, list):
        return window if index < len(listed) and listed[index] else None
    every, first = _TABLE["periods"].get(k.name, (0, False))
    every = listed if isinstance(listed, int) and not isinstance(listed, bool) else every
    if not every:
        return window
    return window if index % every != (0 if first else every - 1) else None


def _unread(k: GgufMetadata, tensor: str) -> DataError:
    return k.fail(f"architecture {k.name[:40]!a} has the tensor {tensor[:60]}, which is none that is read off a file")


@dataclass
class Layer:
    """The unread tensors of one layer, and the keys of the file."""

    keys: GgufMetadata
    index: int
    tensors: dict[str, Shape]
    width: int

    def take(self, name: str) -> Shape | None:
        return self.tensors.pop(name, None)

    def weight(self, name: str) -> Shape | None:
        return self.take(f"{name}.weight")

    def integer(self, key: str, default: int | None = None) -> int:
        """The entry of this layer, or the number for all."""
        value = self.keys.get(key)
        if isinstance(value, list) and self.index < len(value) and isinstance(value[self.index], int):
            return int(value[self.index])
        return self.keys.integer(key, default)

    def fail(self, problem: str) -> DataError:
        return self.keys.fail(f"layer {self.index} {problem}")


def attention(layer: Layer, local: int | None, chunk: int | None) -> Block | None:
    """Read softmax or latent attention; None where the layer has none."""
    if "attn_kv_a_mqa.weight" in layer.tensors:
        return _latent(layer)
    out = layer.weight("attn_output")
    if out is None:
        return None
    heads = layer.integer("attention.head_count")
    shared = layer.integer("attention.head_count_kv", heads)
    fused, q = layer.weight("attn_qkv"), layer.weight("attn_q")
    if heads < 1 or shared < 1 or out[1] % heads or (fused is None and q is None):
        raise layer.fail("has heads that do not divide its attention")
    value = out[1] // heads
    key = _width(layer, fused, q, heads, shared, value)
    gate = layer.take("attn_gate.weight")
    if gate not in (None, (heads * value, layer.width)):
        raise layer.fail("has a gate of another width than its attention")
    kind = "mha" if shared == heads else "gqa"
    block: Block = {"kind": kind, "n_heads": heads, "n_kv_heads": shared, "head_dim": key}
    if key != value:
        block |= {"kind": "asymmetric-gqa", "v_head_dim": value}
    biased = [bool(layer.take(f"{name}.bias")) for name in (("attn_qkv",) if fused else ("attn_q", "attn_k", "attn_v"))]
    if any(biased) and not all(biased):
        raise layer.fail("has biases on some of queries, keys and values")
    more = {
        "qkv_bias": any(biased),
        "out_bias": bool(layer.take("attn_output.bias")),
        "qk_norm": _qk_norm(layer, key, heads, shared),
        "sinks": bool(layer.take("attn_sinks.weight")),
        "out_gate": gate is not None,
    }
    if layer.tensors.get("attn_sub_norm.weight") == (heads * value,):
        more["out_norm"] = bool(layer.take("attn_sub_norm.weight"))
    bound = {} if local is None else {"chunk" if chunk else "window": local}
    causal = {"causal": False} if layer.keys.get("attention.causal") is False else {}
    return block | set_only(more) | bound | causal


def _width(layer: Layer, fused: Shape | None, q: Shape | None, heads: int, shared: int, value: int) -> int:
    """Width of a query head. Raises DataError where tensors and head counts disagree."""
    if fused is not None:
        key, rest = divmod(fused[0] - shared * value, heads + shared)
        if rest:
            raise layer.fail("has queries, keys and values in one matrix that its heads do not divide")
        return key
    k, v = layer.weight("attn_k"), layer.weight("attn_v")
    assert q is not None
    key, rest = divmod(q[0], heads)
    if rest or k is None or v is None or k[0] != shared * key or v[0] != shared * value:
        raise layer.fail("has queries, keys and values whose widths its heads do not divide")
    return key


def _qk_norm(layer: Layer, key: int, heads: int, shared: int) -> str:
    q, k = layer.weight("attn_q_norm"), layer.weight("attn_k_norm")
    shifted = bool(layer.take("attn_q_norm.bias")) and bool(layer.take("attn_k_norm.bias"))
    if q is None and k is None:
        return "none"
    if q == k == (key,):
        return "head_bias" if shifted else "head"
    sized = {(heads * key,): (shared * key,), (heads, key): (shared, key)}
    if shifted or q is None or sized.get(q) != k:
        raise layer.fail("has norms of queries and keys of widths that are not known")
    return "full" if len(q) == 1 else "head_layernorm"


def _latent(layer: Layer) -> Block:
    """Multi-head latent attention: keys and values up from one latent, in one matrix or in two (since 2025)."""
    heads, rope = layer.integer("attention.head_count"), layer.integer("rope.dimension_count")
    down, out = layer.weight("attn_kv_a_mqa"), layer.weight("attn_output")
    both, k, v = layer.weight("attn_kv_b"), layer.weight("attn_k_b"), layer.weight("attn_v_b")
    q_down, q_up, q = layer.weight("attn_q_a"), layer.weight("attn_q_b"), layer.weight("attn_q")
    norms = layer.weight("attn_kv_a_norm"), layer.weight("attn_q_a_norm")
    last = q_up or q
    if down is None or out is None or last is None or (both is None and (k is None or v is None)) or norms[0] is None:
        raise layer.fail("lacks a matrix of its latent attention")
    nope = last[0] // heads - rope
    block: Block = {
        "kind": "mla",
        "n_heads": heads,
        "kv_lora_rank": down[0] - rope,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": nope,
        "v_head_dim": out[1] // heads,
    }
    if q_down is not None:
        block["q_lora_rank"] = q_down[0]
    sizes = _indexer(layer)
    return block | ({"kind": "sparse-mla", "sizes": sizes} if sizes else {})


def _indexer(layer: Layer) -> dict[str, int]:
    """The small heads that pick keys (DeepSeek Sparse Attention)."""
    q, k, weights = (layer.weight(f"indexer.{name}") for name in ("attn_q_b", "attn_k", "proj"))
    layer.take("indexer.k_norm.weight")
    layer.take("indexer.k_norm.bias")
    if q is None or k is None or weights is None:
        return {}
    top = layer.integer("attention.indexer.top_k", 2048)
    return {"index_heads": weights[0], "index_width": k[0], "index_top": top}


def feedforward(layer: Layer) -> Block:
    """Read an MLP, gated or not, or a mixture with a shared expert or dense MLP."""
    up, gate, down = layer.weight("ffn_up"), layer.weight("ffn_gate"), layer.weight("ffn_down")
    if "ffn_down_exps.weight" in layer.tensors:
        return _mixture(layer, 0 if up is None else up[0])
    if up is None or down is None:
        return {"kind": "none"}
    ff = down[1]
    kind = "gated" if gate is not None or up[0] == 2 * ff else "dense"
    biases = [bool(layer.take(f"ffn_{name}.bias")) for name in ("up", "down", "gate")]
    if biases[0] != biases[1]:
        raise layer.fail("has a bias on one matrix of its MLP")
    inner = layer.take("ffn_sub_norm.weight") is not None
    return {"kind": kind, "d_ff": ff} | set_only({"bias": biases[0], "inner_norm": inner})


def _mixture(layer: Layer, dense: int) -> Block:
    """Routed experts, with a shared expert or a dense MLP."""
    down, up, gate = layer.weight("ffn_down_exps"), layer.weight("ffn_up_exps"), layer.weight("ffn_gate_exps")
    fused, router = layer.weight("ffn_gate_up_exps"), layer.weight("ffn_gate_inp")
    if down is None or router is None or (up is None and fused is None):
        raise layer.fail("lacks a matrix of its experts")
    shared, shared_down = layer.weight("ffn_up_shexp"), layer.weight("ffn_down_shexp")
    wide_gate = layer.weight("ffn_gate_shexp")
    width = dense or (shared_down[1] if shared and shared_down else 0)
    if (dense and shared) or (wide_gate is None and shared is not None and gate is not None):
        raise layer.fail("has a shared expert and a dense MLP")
    biases = [layer.take(f"ffn_{name}_exps.bias") is not None for name in ("up", "down", "gate")]
    more = {
        "bias": biases[0] and biases[1],
        "n_shared": 1 if width else 0,
        "shared_d_ff": width,
        "shared_gate": layer.weight("ffn_gate_inp_shexp") is not None,
        "router_bias": layer.take("ffn_gate_inp.bias") is not None,
        "score_bias": layer.take("exp_probs_b.bias") is not None,
    }
    block = {"kind": "moe", "d_ff": down[2], "n_experts": down[0], "top_k": layer.integer("expert_used_count")}
    return block | set_only(more) | ({"gated": False} if gate is None and fused is None else {})
