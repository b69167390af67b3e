"""A GGUF file of an architecture without keys of its own here, read off its tensors: attention, latent or not, norms, MLPs, mixtures.

Every tensor is accounted for or the file is refused, so an architecture nobody has seen is counted right or not at all. What the
tensors do not say (heads, their widths, windows) is in the keys. Source: ggml-org/llama.cpp gguf-py constants.py
(MODEL_TENSORS, LLM keys; gguf 0.19.0) and, for windows, the periods that llama.cpp's src/llama-model.cpp has for architectures.
"""

from __future__ import annotations

import re
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint.gguf_layer_by_tensors import Layer, attention, feedforward
from rooflinecli.importers.checkpoint.gguf_metadata import GgufMetadata
from rooflinecli.importers.hf.layer_pattern import Override, stack

Block = dict[str, Any]
_BESIDE = re.compile(r"^(rope_|blk\.\d+\.attn_rot_embd)")  # tables of angles, no parameters
_BLOCK = re.compile(r"^blk\.(\d+)\.(.+)$")
# Layers of a period of which all but one see a window, and whether the whole one comes first, where the keys do not list them
_PERIODS = {"afmoe": (4, False), "smallthinker": (4, True), "gemma-embedding": (6, False), "modern-bert": (3, True), "olmo3": (4, False),
            "exaone-moe": (4, False), "llama4": (4, False), "plamo3": (8, False)}  # fmt: skip
_CHUNK = {"llama4": 8192}


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
        raise DataError(
            f"{k.file}: some of its norms have a bias and some have none, which is not supported; give the model's config.json"
        )
    norm = norms.pop() if norms else "none"
    plain_norm = "rmsnorm" if k.get("attention.layer_norm_rms_epsilon") is not None else "layernorm_nobias"
    return model | {"norm": {"bias": "layernorm", "none": "none"}.get(norm, plain_norm), "layers": stack(layers)}


def _outside(k: GgufMetadata, outer: dict[str, tuple[int, ...]]) -> Block:
    """Embedding, positions, norms and head; takes what it reads out of `outer`."""
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
        raise DataError(_unread(k, next(iter(outer))))
    return {key: value for key, value in model.items() if value not in ([],)}


def _norm(tensors: dict[str, tuple[int, ...]], name: str, width: int) -> str | None:
    """Takes a norm of the stream out: `scale`, `bias` (scale and shift), or None where there is none."""
    if tensors.get(f"{name}.weight") != (width,):
        return None
    del tensors[f"{name}.weight"]
    return "bias" if tensors.pop(f"{name}.bias", None) else "scale"


def _layer(k: GgufMetadata, layer: Layer) -> Override:
    """One layer with everything that its tensors say. Raises DataError for one that is left over."""
    local = _local(k, layer.index)
    made: Override = {"attention": attention(layer, local, _CHUNK.get(k.name)), "feedforward": feedforward(layer)}
    scales = [
        n for n, shape in layer.tensors.items() if "norm" in n and n.endswith(".weight") and shape == (layer.width,)
    ]
    names = [n.removesuffix(".weight") for n in scales]
    norm_kinds = {_norm(layer.tensors, name, layer.width) for name in names}
    if layer.tensors:
        raise DataError(_unread(k, f"blk.{layer.index}.{next(iter(layer.tensors))}"))
    if len(norm_kinds - {None}) > 1:
        raise DataError(
            f"{k.file}: layer {layer.index} has norms with and without a bias, which is not supported; give the model's config.json"
        )
    both = made["attention"] is not None and made["feedforward"]["kind"] != "none"
    parallel = {"parallel": True} if both and len(names) == 1 else {}
    return made | parallel | {"norms": len(names), "norm": next(iter(norm_kinds - {None}), None)}


def _local(k: GgufMetadata, index: int) -> int | None:
    """Keys that a layer sees at most, where it sees a window or a chunk."""
    window = k.integer("attention.sliding_window", 0) or k.integer("attention.chunk_size", 0) or _CHUNK.get(k.name, 0)
    listed = k.get("attention.sliding_window_pattern")
    if not window:
        return None
    if isinstance(listed, list):
        return window if index < len(listed) and listed[index] else None
    every, first = _PERIODS.get(k.name, (0, False))
    every = listed if isinstance(listed, int) and not isinstance(listed, bool) else every
    if not every:
        return window
    return window if index % every != (0 if first else every - 1) else None


def _unread(k: GgufMetadata, tensor: str) -> str:
    return (
        f"{k.file}: architecture {k.name[:40]!a} has the tensor {tensor[:60]}, which is none that is read off a file; "
        "give the model's config.json"
    )
