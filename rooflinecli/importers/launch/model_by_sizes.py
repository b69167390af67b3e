"""The model of a launch that describes it by its sizes (Megatron, NeMo): the registry's with these sizes, or one written for it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import yaml

from rooflinecli.core import files
from rooflinecli.importers.source import Options
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import load_registry

# key of a shape -> its name in messages; all must be given to identify a model
SIZES = {"layers": "layers", "d_model": "hidden size", "heads": "heads"}
VOCAB = 50257  # GPT-2's, the tokenizer of launches that name no other


def shape_of(model: ModelSpec) -> Options:
    """The sizes of a uniform model, by the keys of Launch.shape."""
    layer = model.layers[-1]
    attention, ffn = layer.attention, layer.feedforward
    return {
        "layers": model.n_layers,
        "d_model": model.d_model,
        "heads": attention.n_heads if attention else 0,
        "kv_heads": (attention.n_kv_heads or attention.n_heads) if attention else 0,
        "d_ff": ffn.d_ff,
        "gated": ffn.gated if ffn.kind == "moe" else ffn.kind == "gated",
        "experts": ffn.n_experts or 0,
        "top_k": ffn.top_k or 0,
        "vocab": model.vocab_size,
        "tied": model.tied_embeddings,
        "head_dim": attention.head_dim if attention else 0,
        "max_context": model.max_context or 0,
    }


@cache
def _registered() -> list[tuple[str, Options]]:
    models, _ = load_registry("models", load_model)
    plain = (m for m in models if m.lm_head and m.vocab_size and not m.towers and not m.both_ways)
    return sorted(((m.id, shape_of(m)) for m in plain), key=lambda pair: pair[0])


def named(shape: Options) -> list[str]:
    """The registry's models of this shape, the likeliest first: nearest vocabulary where one is given, then nearest context.

    Empty where there is none or sizes are missing.
    """
    if not set(SIZES) <= set(shape):
        return []
    keys = [k for k in shape if k in _registered()[0][1] and k not in ("vocab", "tied", "gated")]
    found = [(name, sizes) for name, sizes in _registered() if all(sizes[k] == shape[k] for k in keys)]
    if "gated" in shape:  # squared and gated feed-forwards of one width have other parameters
        found = [(name, sizes) for name, sizes in found if sizes["gated"] == shape["gated"]]
    near = [(name, sizes) for name, sizes in found if abs(sizes["vocab"] - shape.get("vocab", 0)) < 1024]
    context = shape.get("context", 0)
    return [name for name, sizes in sorted(near or found, key=lambda pair: abs(pair[1]["max_context"] - context))]


def written(shape: Options) -> str | None:
    """The path of a model file of this shape, for the time of this process; None where sizes are missing."""
    if not set(SIZES) <= set(shape):
        return None
    folder = Path(tempfile.mkdtemp(prefix="roofline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{shape['layers']}x{shape['d_model']}.yaml"
    files.write(path, yaml.safe_dump(_model(shape), sort_keys=False))
    return str(path)


def _model(shape: Options) -> Options:
    """A model file of these sizes: grouped or full attention, a gated, plain or MoE feed-forward."""
    d, heads, layers = shape["d_model"], shape["heads"], shape["layers"]
    kv = shape.get("kv_heads") or heads
    attention: Options = {"kind": "gqa", "n_kv_heads": kv} if kv != heads else {"kind": "mha"}
    attention |= {"n_heads": heads, "head_dim": shape.get("head_dim") or d // heads}
    ffn: Options = {"kind": "dense", "d_ff": shape.get("d_ff", 4 * d), "activation": "gelu"}
    if shape.get("experts"):
        ffn |= {"kind": "moe", "activation": "silu", "n_experts": shape["experts"], "top_k": shape.get("top_k", 2)}
        ffn["gated"] = shape.get("gated", True)
    elif shape.get("gated"):
        ffn |= {"kind": "gated", "activation": "silu"}
    context = shape.get("context", 4096)
    learned = shape.get("rotary", ffn["kind"] != "dense") is False
    positions = {"positions": {"kind": "learned", "length": context}} if learned else {}
    return {
        "name": f"{layers} layers of {d}", "source": "sizes of the launch", "d_model": d, "vocab_size": shape.get("vocab", VOCAB),
        "tied_embeddings": bool(shape.get("tied", ffn["kind"] == "dense")), "norm": "layernorm" if ffn["kind"] == "dense" else "rmsnorm",
        "max_context": context, **positions, "attention": attention, "feedforward": ffn, "layers": layers,
    }  # fmt: skip
