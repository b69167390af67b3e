"""The model of a launch that describes it by its sizes (Megatron, NeMo): the registry's with these sizes, or one written for it."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from rooflinecli import files
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.names import every

# key of a shape -> what a person calls it; those of a registry model that must agree where the launch says them
SIZES = {"layers": "layers", "d_model": "hidden size", "heads": "heads"}
VOCAB = 50257  # GPT-2's, the tokenizer of launches that name no other


def shape_of(model: ModelSpec) -> dict[str, Any]:
    """The sizes of a uniform model, by the keys of Launch.shape."""
    layer = model.layers[-1]
    attention, ffn = layer.attention, layer.feedforward
    return {
        "layers": model.n_layers,
        "d_model": model.d_model,
        "heads": attention.n_heads if attention else 0,
        "kv_heads": (attention.n_kv_heads or attention.n_heads) if attention else 0,
        "d_ff": ffn.d_ff,
        "gated": ffn.gated,
        "experts": ffn.n_experts or 0,
        "top_k": ffn.top_k or 0,
        "vocab": model.vocab_size,
        "tied": model.tied_embeddings,
    }


@cache
def _registered() -> list[tuple[str, dict[str, Any]]]:
    models, _ = every("models", load_model)
    plain = (m for m in models if m.lm_head and m.vocab_size and not m.towers and not m.both_ways)
    return sorted(((m.id, shape_of(m)) for m in plain), key=lambda pair: pair[0])


def named(shape: dict[str, Any]) -> str | None:
    """The registry's model of this shape, the vocabulary aside; None where there is none or sizes are missing."""
    if not set(SIZES) <= set(shape):
        return None
    keys = [k for k in shape if k not in ("vocab", "tied", "context", "gated")]
    found = [name for name, sizes in _registered() if all(sizes[k] == shape[k] for k in keys)]
    same = [n for n in found if abs(dict(_registered())[n]["vocab"] - shape.get("vocab", 0)) < 1024]
    return next(iter(same or found), None)


def written(shape: dict[str, Any]) -> str | None:
    """The path of a config.json of this shape, for the time of this process; None where sizes are missing."""
    if not set(SIZES) <= set(shape):
        return None
    folder = Path(tempfile.mkdtemp(prefix="roofline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{shape['layers']}x{shape['d_model']}" / "config.json"
    path.parent.mkdir()
    files.write(path, json.dumps(_config(shape)))
    return str(path)


def _config(shape: dict[str, Any]) -> dict[str, Any]:
    """A Hugging Face config: Mixtral's with experts, Llama's with a gated feed-forward, GPT-2's without."""
    d, vocab, context = shape["d_model"], shape.get("vocab", VOCAB), shape.get("context", 4096)
    if not shape.get("gated") and not shape.get("experts"):
        return {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": shape["layers"], "n_embd": d,
            "n_head": shape["heads"], "n_inner": shape.get("d_ff", 4 * d), "vocab_size": vocab, "n_positions": context,
        }  # fmt: skip
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": shape["layers"], "hidden_size": d,
        "num_attention_heads": shape["heads"], "num_key_value_heads": shape.get("kv_heads", shape["heads"]),
        "intermediate_size": shape.get("d_ff", 4 * d), "vocab_size": vocab, "max_position_embeddings": context,
        "tie_word_embeddings": bool(shape.get("tied", False)), "hidden_act": "silu",
    }  # fmt: skip
    if shape.get("experts"):
        config |= {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": shape["experts"],
                   "num_experts_per_tok": shape.get("top_k", 2)}  # fmt: skip
    return config
