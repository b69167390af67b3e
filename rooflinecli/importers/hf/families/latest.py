"""Mixtures of experts with a part of their own beside the usual: mistral4, axk1, longcat_flash, flint, kolibri1, laguna, step3p5.
Source: transformers 5.23 models of those names."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.families import deepseek
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.importers.hf.vision_encoders import Block, linear, values
from rooflinecli.specs.field_reader import ConfigFields


def _layers(f: ConfigFields) -> int:
    return f.whole("num_hidden_layers")


def _where(f: ConfigFields, default: list[bool]) -> list[bool]:
    """Which layers are mixtures: as mlp_layer_types lists them, else `default`."""
    listed = f.items("mlp_layer_types", str, len(default))
    return [kind == "sparse" for kind in listed] if listed else default


def axk1(f: ConfigFields) -> Block:
    """DeepSeek-V3 with a norm behind each mixture."""
    n, first = _layers(f), f.whole("first_k_dense_replace", null=1, least=0)
    f.expect(
        "moe_layer_freq",
        (1, None),
        "only a mixture on every layer after the dense ones is known; write the model as YAML",
    )
    where = _where(f, [i >= first for i in range(n)])
    shared = f.whole("n_shared_experts", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("n_routed_experts", "num_local_experts"), n_shared=shared)
    f.optional("intermediate_size")  # of dense layers, which may not be there
    dense = moe if all(where) else feedforward(f, "gated")
    extra = f.whole("num_nextn_predict_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    mixed: list[Override] = [{"feedforward": moe, "norms": 3} if here else {} for here in where]
    return frame(f, deepseek.latent(f), dense, layers=mixed)


def longcat(f: ConfigFields) -> Block:
    """Two latent attentions and two MLPs a layer, and one mixture beside the second half; some experts compute nothing."""
    n, width, bias = f.whole("num_layers", "num_hidden_layers"), f.whole("hidden_size"), f.flag("router_bias")
    zero, real = f.whole("zero_expert_num", null=0, least=0), f.whole("n_routed_experts", "num_local_experts")
    chosen = f.whole("moe_topk", "num_experts_per_tok")
    if chosen > real + zero:
        raise f.fail("moe_topk", f"{chosen} exceeds the {real + zero} experts; give at most that many")
    inner, dense = (
        f.whole("expert_ffn_hidden_size", "moe_intermediate_size"),
        f.whole("ffn_hidden_size", "intermediate_size"),
    )
    met = max(round(chosen * real / (real + zero)), 1)
    mlp = feedforward(f, "gated", d_ff=dense)
    moe = mlp | {"kind": "moe", "d_ff": inner, "n_experts": real, "top_k": met, "n_shared": 1, "shared_d_ff": dense}
    moe |= {"router_bias": True} if bias else {}
    pieces = (
        [linear("zero_router", zero, bias=bias), values("zero_experts", zero, width=2 * inner * width)] if zero else []
    )
    if zero:
        f.notes.append(
            f"{zero} of {real + zero} experts compute nothing: of the {chosen} that a token is sent to, {met} are counted, as an even router has it."
        )
    f.optional("num_key_value_heads")
    both = f.whole("qk_nope_head_dim") + f.whole("qk_rope_head_dim")
    f.expect("qk_head_dim", (both, None), f"qk_nope_head_dim and qk_rope_head_dim come to {both}; make them agree")
    pair: list[Override] = [{"feedforward": moe} | ({"pieces": pieces} if pieces else {}), {}]
    return frame(f, deepseek.latent(f), mlp, layers=pair * n)


def _mixture(
    f: ConfigFields, block: Block, local: list[Override], where: list[bool], count: tuple[str, ...], **more: Any
) -> Block:
    """Experts of moe_intermediate_size with a shared one of its own width."""
    moe = experts(
        f,
        "moe_intermediate_size",
        count,
        n_shared=1,
        shared_d_ff=f.whole("shared_expert_intermediate_size", "share_expert_dim"),
        **more,
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    return frame(f, block, base, layers=merged(local, mixed))


def flint(f: ConfigFields) -> Block:
    """qwen3_moe with a sink per head, a shared expert, and a window on most layers."""
    n, only = _layers(f), f.items("mlp_only_layers", int)
    step = f.whole("decoder_sparse_step")
    where = [i not in ([0, 1] if only is None else only) and (i + 1) % step == 0 for i in range(n)]
    local = windows(f, [not (i < 2 or i % 4 == 1 or i == n - 1) for i in range(n)], f.optional("sliding_window"))
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head", sinks=True)
    return _mixture(f, block, local, where, ("num_experts", "num_local_experts"))


def kolibri(f: ConfigFields) -> Block:
    """A mixture on every layer, four norms, a window on four layers of five."""
    n = _layers(f)
    local = windows(f, [(i + 1) % 5 != 0 for i in range(n)], f.optional("sliding_window"))
    made = _mixture(f, attention(f, qk_norm="head"), local, [True] * n, ("num_local_experts", "num_experts"))
    return made | {"norms": 4}


def _gated_heads(
    f: ConfigFields, heads: list[int], local: list[Override], whole: bool = False, **more: Any
) -> list[Override]:
    """Attention of each layer's own heads with a gate for each head (or as wide as all, where `whole`)."""
    made: list[Override] = []
    for count, seen in zip(heads, local, strict=True):
        g = ConfigFields({**f.data, "num_attention_heads": count}, f.defaults, f.where, f.prefix)
        block = attention(g, **more) | seen.get("attention", {})
        gate = {} if whole else {"pieces": [linear("head_gate", count, bias=False)]}
        made.append({"attention": block | ({"out_gate": True} if whole else {})} | gate)
    f.used |= {"num_attention_heads", "num_key_value_heads", "head_dim"}
    return made


def laguna(f: ConfigFields) -> Block:
    """Head counts by layer, a gate of the output for each head or as wide as all of them; the router's correction is a parameter."""
    n, bias = _layers(f), f.flag("attention_bias")
    heads = f.items("num_attention_heads_per_layer", int, n) or [f.whole("num_attention_heads")] * n
    local = windows(f, [False] * n, f.optional("sliding_window"))
    gating = f.raw("gating")
    f.expect(
        "gating",
        (True, "per-head", "per-element", "per_element"),
        "only gates per head or per element are read; write the model as YAML",
    )
    layers = _gated_heads(
        f, heads, local, gating not in (True, "per-head"), qkv_bias=bias, out_bias=bias, qk_norm="head"
    )
    where = _where(f, [i > 0 for i in range(n)])
    shared = f.whole("shared_expert_intermediate_size")
    moe = experts(
        f,
        "moe_intermediate_size",
        ("num_experts", "num_local_experts"),
        n_shared=1,
        shared_d_ff=shared,
        score_bias=True,
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    return frame(f, None, base, layers=merged_blocks(layers, mixed))


def merged_blocks(*parts: list[Override]) -> list[Override]:
    """Overrides of the same layers as one, each key of one of them alone."""
    return [{key: value for part in layer for key, value in part.items()} for layer in zip(*parts, strict=True)]


def step3(f: ConfigFields) -> Block:
    """Layers with a window have a head count of their own; a gate for each head."""
    n = _layers(f)
    extra = f.whole("num_nextn_predict_layers", null=0, least=0)
    data = dict(f.data)
    for name in ("layer_types", "mlp_layer_types"):
        if extra and isinstance(data.get(name), list) and len(data[name]) == n + extra:
            data[name] = data[name][:n]
    g = ConfigFields(data, f.defaults, f.where, f.prefix, f.used, f.assumed)
    f.expect("attention_bias", (False, None), "the class builds no biases; mend it")
    f.expect("mlp_bias", (False, None), "the class builds no biases; mend it")
    other = f.raw("attention_other_setting")
    own = other.get("num_attention_heads") if isinstance(other, dict) else None
    count = f.whole("num_attention_heads")
    near = f.whole("num_sliding_attention_heads", null=own if isinstance(own, int) else count)
    local = windows(g, [False] * n, f.optional("sliding_window"))
    kinds = g.items("layer_types", str, n) or ["full_attention"] * n
    heads = [near if kind == "sliding_attention" else count for kind in kinds]
    layers = _gated_heads(f, heads, local, qk_norm="head")
    first = f.whole("first_k_dense_replace", null=3, least=0)
    listed = f.raw("moe_layers_enum")
    named = {int(i) for i in listed.split(",") if i.strip().isdigit()} if isinstance(listed, str) else None
    where = _where(g, [i in named if named is not None else i >= first for i in range(n)])
    f.optional("n_shared_experts")
    moe = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_experts", "moe_num_experts"),
        "num_experts_per_tok",
        n_shared=1,
        shared_d_ff=f.whole("share_expert_dim"),
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    f.used |= {"mtp_layer_types", "mtp_mlp_layer_types"}
    return frame(f, None, base, layers=merged_blocks(layers, mixed))
