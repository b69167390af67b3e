"""granite_swa, granitemoe_swa, hyperclovax, internlm3, cohere2_moe, mimo_v2_flash. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.families import decoders, llama
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.importers.hf.vision_encoders import Block
from rooflinecli.specs.field_reader import ConfigFields


def _layers(f: ConfigFields) -> int:
    return f.whole("num_hidden_layers")


def _granite(f: ConfigFields, mlp: Block) -> Block:
    """A sink per head on every layer, a window on all but every fourth, the first one full."""
    bias = f.flag("attention_bias")
    local = windows(f, [i % 4 != 0 for i in range(_layers(f))], f.optional("sliding_window"))
    return frame(f, attention(f, qkv_bias=bias, out_bias=bias, sinks=True), mlp, layers=local)


def granite_swa(f: ConfigFields) -> Block:
    return _granite(f, feedforward(f, "gated", bias=f.flag("mlp_bias")))


def granitemoe_swa(f: ConfigFields) -> Block:
    """A mixture on every layer; a shared expert of its own width where the config gives one."""
    return _granite(f, decoders.granitemoe(f)["feedforward"])


def hyperclovax(f: ConfigFields) -> Block:
    """llama with a norm behind each block too, unless use_post_norm is off."""
    return llama.llama(f) | ({"norms": 4} if f.flag("use_post_norm") else {})


def internlm3(f: ConfigFields) -> Block:
    """llama whose two biases go together. Raises DataError where they do not: transformers refuses that too."""
    renamed = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}
    g = ConfigFields(
        {renamed.get(k, k): v for k, v in f.data.items()}, f.defaults, f.where, f.prefix, f.used, f.assumed
    )
    made = llama.llama(g)
    if g.flag("attention_bias") != g.flag("mlp_bias"):
        raise f.fail(
            "qkv_bias" if "qkv_bias" in f.data else "attention_bias",
            "differs from the bias of the MLP; give both the same",
        )
    f.used |= set(renamed)
    return made


def cohere2_moe(f: ConfigFields) -> Block:
    """cohere2 with mixtures behind the leading dense layers; a LayerNorm without bias, or an RMSNorm where rms_norm_eps says so."""
    n, bias = _layers(f), f.flag("attention_bias")
    first = f.whole("first_k_dense_replace", null=0, least=0)
    near, every = f.whole("prefix_dense_sliding_window_pattern", null=1), f.whole("sliding_window_pattern", null=4)
    usual = [bool((i + 1) % near) for i in range(min(first, n))] + [bool((i + 1) % every) for i in range(n - first)]
    local = windows(f, usual, f.optional("sliding_window"))
    listed = f.items("mlp_layer_types", str, n)
    where = [kind == "sparse" for kind in listed] if listed else [i >= first for i in range(n)]
    shared = f.whole("num_shared_experts", null=0, least=0)
    moe = experts(f, "intermediate_size", ("num_experts", "num_local_experts"), n_shared=shared)
    inner = f.optional("prefix_dense_intermediate_size")
    if not all(where) and not inner:
        raise f.fail("prefix_dense_intermediate_size", "required where layers are dense; add it")
    base, mixed = sparse(feedforward(f, "gated", d_ff=inner or moe["d_ff"]), moe, where)
    roped = [
        not layer and (where[i] or near != 1) for i, layer in enumerate(local)
    ]  # dense layers in front keep positions
    plain: list[Override] = [{"attention": {"rotary": False}} if here else {} for here in roped]
    norm = "layernorm_nobias" if f.data.get("rms_norm_eps") is None else "rmsnorm"
    block = attention(f, qkv_bias=bias, out_bias=bias)
    return frame(f, block, base, layers=merged(local, plain, mixed), norm=norm, parallel=True, norms=1)


def mimo_v2(f: ConfigFields) -> Block:
    """Values narrower than keys; layers with a window have twice the key/value heads and a sink per head."""
    n, bias = _layers(f), f.flag("attention_bias")
    size = f.optional("sliding_window_size")  # as on the Hub: tokens before the query
    window = size + 1 if size else f.optional("sliding_window")
    f.used.add("sliding_window")
    usual = [i != 0 and bool((i + 1) % 6) for i in range(n)]
    places = windows(f, _switched(f, "hybrid_layer_pattern", n) or usual, window)
    heads = attention(f, qkv_bias=bias)
    wide, keys = f.whole("v_head_dim"), 1 if heads["kind"] == "mqa" else heads["n_heads"]
    keys = heads["n_kv_heads"] if heads["kind"] == "gqa" else keys
    if heads["n_heads"] % (2 * keys):
        raise f.fail("num_key_value_heads", f"twice {keys} do not divide {heads['n_heads']} heads; give a divisor")
    _same_in_windows(f, heads["n_heads"], 2 * keys, heads["head_dim"], wide)
    block = heads | {"kind": "asymmetric-gqa", "n_kv_heads": keys, "v_head_dim": wide}
    twice: list[Override] = [{"attention": {"n_kv_heads": 2 * keys, "sinks": True}} if here else {} for here in places]
    moe = experts(f, "moe_intermediate_size", ("n_routed_experts", "num_local_experts"))
    listed = f.items("mlp_layer_types", str, n)
    usual = _switched(f, "moe_layer_freq", n) or [i > 0 for i in range(n)]
    where = [kind == "sparse" for kind in listed] if listed else usual
    base, mixed = sparse(feedforward(f, "gated"), moe, where)
    return frame(f, block, base, layers=merged(places, twice, mixed))


def _switched(f: ConfigFields, name: str, n: int) -> list[bool] | None:
    """A list of 0 and 1, one a layer, as files on the Hub write it."""
    listed = f.items(name, int, n)
    return [bool(switch) for switch in listed] if listed else None


def _same_in_windows(f: ConfigFields, heads: int, keys: int, width: int, wide: int) -> None:
    """What files on the Hub say of layers with a window is what the class makes of them. Raises DataError where it is not."""
    of = {"num_attention_heads": heads, "num_key_value_heads": keys, "head_dim": width, "v_head_dim": wide}
    for name, made in of.items():
        f.expect(f"swa_{name}", (made, None), f"the class has {made}; mend it")
    f.expect("add_swa_attention_sink_bias", (True, None), "the class has a sink on layers with a window; mend it")
    f.expect("add_full_attention_sink_bias", (False, None), "the class has no sink on other layers; mend it")
