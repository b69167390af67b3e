"""GGUF files of further architectures, their tensors listed here as llama.cpp names them: parameters are the elements of the file."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from files import gguf

from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.specs.model import load_model

D, FF, VOCAB, HEADS, KV, H, LAYERS = 512, 1024, 1000, 8, 2, 64, 2
E, XF = 6, 256  # experts and their width
MATRICES = {"attn_q": (HEADS * H, D), "attn_k": (KV * H, D), "attn_v": (KV * H, D), "attn_output": (D, HEADS * H)}
UP, GATE, DOWN = {"ffn_up": (FF, D)}, {"ffn_gate": (FF, D)}, {"ffn_down": (D, FF)}
MIXED = {"ffn_gate_exps": (E, XF, D), "ffn_up_exps": (E, XF, D), "ffn_down_exps": (E, D, XF), "ffn_gate_inp": (E, D)}
SHARED = {"ffn_gate_shexp": (XF, D), "ffn_up_shexp": (XF, D), "ffn_down_shexp": (D, XF)}


def norms(*names, bias=False, width=D):
    found = {f"{n}.weight": (width,) for n in names}
    return found | ({f"{n}.bias": (width,) for n in names} if bias else {})


def biases(**widths):
    return {f"{name}.bias": (width,) for name, width in widths.items()}


def weights(*parts):
    return {f"{name}.weight": shape for part in parts for name, shape in part.items()}


TWO = norms("attn_norm", "ffn_norm")
AFTER = norms("post_attention_norm", "post_ffw_norm")
HEAD = norms("attn_q_norm", "attn_k_norm", width=H)
FULL = {"attn_q_norm.weight": (HEADS * H,), "attn_k_norm.weight": (KV * H,)}
QKV = biases(attn_q=HEADS * H, attn_k=KV * H, attn_v=KV * H)
GATED, PLAIN = weights(MATRICES, GATE, UP, DOWN), weights(MATRICES, UP, DOWN)
# architecture -> tensors of a layer, whether the final norm has a bias or is none, keys in addition to the usual
LAYER = {
    "olmo": (GATED, None, {}),
    "olmo2": (GATED | AFTER | FULL, False, {}),
    "granite": (GATED | TWO, False, {}),
    "smollm3": (GATED | TWO, False, {}),
    "arcee": (PLAIN | TWO, False, {}),
    "exaone4": (GATED | AFTER | HEAD, False, {"attention.sliding_window": 128}),
    "nemotron": (PLAIN | norms("attn_norm", "ffn_norm", bias=True), True, {}),
    "starcoder2": (
        PLAIN | norms("attn_norm", "ffn_norm", bias=True) | QKV | biases(attn_output=D, ffn_up=FF, ffn_down=D),
        True,
        {"attention.sliding_window": 128},
    ),
    "command-r": (GATED | norms("attn_norm"), False, {}),
    "cohere2": (GATED | norms("attn_norm"), False, {"attention.sliding_window": 128}),
    "glm4": (GATED | TWO | AFTER | QKV, False, {}),
    "ernie4_5": (GATED | TWO, False, {}),
    "hunyuan-dense": (GATED | TWO | HEAD, False, {}),
    "seed_oss": (GATED | TWO | QKV, False, {}),
    "internlm2": (GATED | TWO, False, {}),
    "stablelm": (GATED | norms("attn_norm", "ffn_norm", bias=True) | QKV, True, {}),
    "olmoe": (weights(MATRICES, MIXED) | TWO | FULL, False, {"expert_count": E, "expert_used_count": 2}),
    "granitemoe": (weights(MATRICES, MIXED) | TWO, False, {"expert_count": E, "expert_used_count": 2}),
}
DOTS = {
    "expert_count": E, "expert_used_count": 2, "expert_shared_count": 1, "leading_dense_block_count": 1, "expert_feed_forward_length": XF,
}  # fmt: skip


def write(path, name, layers, bias, more, tied=False):
    keys = {
        "block_count": len(layers), "context_length": 2048, "embedding_length": D, "feed_forward_length": FF,
        "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.key_length": H, **more,
    }  # fmt: skip
    tensors = {"token_embd.weight": (VOCAB, D)} | ({} if tied else {"output.weight": (VOCAB, D)})
    tensors |= {} if bias is None else norms("output_norm", bias=bias)
    tensors |= {f"blk.{i}.{n}": shape for i, layer in enumerate(layers) for n, shape in layer.items()}
    listed = [(n, s, "F32" if len(s) == 1 else "Q8_0") for n, s in tensors.items()]
    size = gguf(path, {"general.architecture": name, **{f"{name}.{k}": v for k, v in keys.items()}}, listed)
    return sum(math.prod(s) for s in tensors.values()), size


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", sorted(LAYER))
def test_parameters_are_the_elements_of_the_file(tmp_path, name, tied):
    layer, bias, more = LAYER[name]
    elements, _ = write(tmp_path / "m.gguf", name, [layer] * LAYERS, bias, more, tied)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert parameters(spec).total == elements
    assert spec.tied_embeddings is tied and spec.n_layers == LAYERS
    window = more.get("attention.sliding_window")
    assert {g.attention.window for g in spec.layers} <= {window, None}


@pytest.mark.parametrize(("name", "extra"), [("dots1", HEAD), ("glm4moe", HEAD | QKV), ("glm4moe", {})])
def test_leading_dense_layers_and_shared_experts(tmp_path, name, extra):
    dense, mixed = GATED | TWO | extra, weights(MATRICES, MIXED, SHARED) | TWO | extra
    elements, _ = write(tmp_path / "m.gguf", name, [dense, mixed, mixed], False, DOTS)
    counted = parameters(load_model(str(tmp_path / "m.gguf")))
    assert counted.total == elements
    assert counted.total - counted.active == 2 * (E - 2) * 3 * XF * D
