"""The blocks of one layer by the tensors of a GGUF file: each takes out what it reads, so that what is left over shows."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.checkpoint.gguf_metadata import GgufMetadata
from rooflinecli.importers.hf.decoder import set_only

Block = dict[str, Any]
Shape = tuple[int, ...]


@dataclass
class Layer:
    """The tensors of one layer that nobody has read yet, and the keys that say what they do not."""

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
        return DataError(f"{self.keys.file}: layer {self.index} {problem}; give the model's config.json")


def attention(layer: Layer, local: int | None, chunk: int | None) -> Block | None:
    """Softmax attention over heads of its own widths, or latent; None where the layer has none."""
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
    block: Block = {
        "kind": "mha" if shared == heads else "gqa",
        "n_heads": heads,
        "n_kv_heads": shared,
        "head_dim": key,
    }
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
    """Width of a query head; keys and values are as wide as the tensors say, or the file is refused."""
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
    """An MLP, gated or not, or a mixture with whatever runs beside its experts; none where there is none."""
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
    """Routed experts; the shared one, or a dense MLP beside them, is as wide as its matrices say."""
    down, up, gate = layer.weight("ffn_down_exps"), layer.weight("ffn_up_exps"), layer.weight("ffn_gate_exps")
    fused, router = layer.weight("ffn_gate_up_exps"), layer.weight("ffn_gate_inp")
    if down is None or router is None or (up is None and fused is None):
        raise layer.fail("lacks a matrix of its experts")
    shared, beside = layer.weight("ffn_up_shexp"), layer.weight("ffn_down_shexp")
    wide_gate = layer.weight("ffn_gate_shexp")
    width = dense or (beside[1] if shared and beside else 0)
    if (dense and shared) or (wide_gate is None and shared is not None and gate is not None):
        raise layer.fail("has a shared expert beside a dense MLP")
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
