"""deepseek_v2, deepseek_v3, kimi_k2: latent attention, leading dense layers, shared experts; and glm4_moe, which shares the layout.

The router's score-correction bias is a buffer in transformers, not a parameter, and is not counted.
Source: transformers 5.23 models/{deepseek_v2,deepseek_v3,glm4_moe}; kimi_k2 runs the code of deepseek_v3.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, set_only, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged
from rooflinecli.specs.field_reader import ConfigFields


def latent(f: ConfigFields) -> dict[str, Any]:
    """attention_bias is on the two down-projections and the output."""
    bias = f.flag("attention_bias")
    block = {"kind": "mla", "n_heads": f.whole("num_attention_heads"), "q_lora_rank": f.optional("q_lora_rank")}
    widths = {name: f.whole(name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    return set_only(block | widths | {"qkv_bias": bias, "out_bias": bias})


def _mixture(
    f: ConfigFields, block: dict[str, Any], bias: bool = False, over: list[Override] | None = None
) -> dict[str, Any]:
    """Dense layers first, then mixtures with n_shared_experts that every token visits; `bias` on the MLPs and the shared expert."""
    n = f.whole("num_hidden_layers")
    first = f.whole("first_k_dense_replace", null=0, least=0)
    f.expect(
        "moe_layer_freq",
        (1, None),
        "only a mixture on every layer after the dense ones is known; write the model as YAML",
    )
    moe = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_local_experts", "num_experts"),
        n_shared=f.whole("n_shared_experts", null=0, least=0),
        shared_bias=bias,
    )
    if bias:
        moe["bias"] = False
    listed = f.items("mlp_layer_types", str, n)
    where = [kind == "sparse" for kind in listed] if listed else [i >= first for i in range(n)]
    base, mixed = sparse(feedforward(f, "gated", bias=bias), moe, where)
    extra = f.whole("num_nextn_predict_layers", "num_mtp_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    return frame(f, block, base, layers=merged(over, mixed) if over else mixed)


def deepseek(f: ConfigFields) -> dict[str, Any]:
    return _mixture(f, latent(f))


def deepseek_v2(f: ConfigFields) -> dict[str, Any]:
    """The one of these types whose mlp_bias is read."""
    return _mixture(f, latent(f), f.flag("mlp_bias"))


def deepseek_v32(f: ConfigFields, shared: list[bool] | None = None) -> dict[str, Any]:
    """Latent attention over the keys that an indexer picks; a layer where `shared` is true takes those of the layer before."""
    sizes = {
        "index_heads": f.whole("index_n_heads"),
        "index_width": f.whole("index_head_dim"),
        "index_top": f.whole("index_topk"),
    }
    block = {**latent(f), "kind": "sparse-mla", "sizes": sizes}
    again = {"attention": {"sizes": {**sizes, "index_reused": 1}}}
    return _mixture(f, block, over=[again if here else {} for here in shared] if shared and any(shared) else None)


def glm4_moe(f: ConfigFields) -> dict[str, Any]:
    """attention_bias is on q, k and v only; use_qk_norm normalizes per head."""
    norm = "head" if f.flag("use_qk_norm") else "none"
    return _mixture(f, attention(f, qkv_bias=f.flag("attention_bias"), qk_norm=norm))
