"""gemma3, and gemma3n and gemma4: a small embedding for each layer, and last layers that read the cache of earlier ones.

Source: transformers 5.24 models/{gemma3,gemma3n,gemma4}/modeling_*.py and configuration_*.py.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.blocks import Block, Row, attention, feedforward, frame, linear, norm, table, values
from rooflinecli.importers.hf.decoder import decoder, row_attention
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import MISSING, ConfigFields


def gemma3(f: ConfigFields, row: Row) -> Block:
    """Every sixth layer is global unless the config differs; bidirectional, half a window is before a token."""
    block = row_attention(f, row["attention"], f.integer("hidden_size"))
    period = f.integer("sliding_window_pattern", "_sliding_window_pattern", null=6)
    window = f.optional("sliding_window")
    if window and block.get("causal") is False:
        window = window // 2 + 1
    local = [(i + 1) % period != 0 for i in range(f.integer("num_hidden_layers"))]
    return decoder(f, row, block=block, layers=windows(f, local, window))


def _common(f: ConfigFields) -> Block:
    """q and k normalized per head; attention_bias on q, k, v and o."""
    both = "bidirectional attention over the text is not supported here; write the model as YAML"
    f.expect("use_bidirectional_attention", (None, False, "vision"), both)  # vision: within an image alone
    bias = f.flag("attention_bias")
    return attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")


def _kinds(f: ConfigFields, period: int) -> list[bool]:
    """Sliding-window layers: by layer_types, else all but every n-th."""
    n = f.integer("num_hidden_layers")
    listed = f.items("layer_types", str, n)
    return [kind == "sliding_attention" for kind in listed] if listed else [(i + 1) % period != 0 for i in range(n)]


def _reused(f: ConfigFields, local: list[bool]) -> list[bool]:
    """Which layers read what an earlier one cached. Raises DataError where none of their kind is left to keep it."""
    own = len(local) - f.integer("num_kv_shared_layers", null=0, least=0)
    if own < 1 or set(local[:own]) != set(local):
        raise f.fail(
            "num_kv_shared_layers", f"leaves {max(own, 0)} layers to keep a cache, and not one of each kind; give fewer"
        )
    return [i >= own for i in range(len(local))]


def _sharing(base: Block, reused: list[bool]) -> list[Override]:
    heads = base.get("n_kv_heads", 1 if base["kind"] == "mqa" else base["n_heads"])
    again = {"attention": {"kind": "shared-kv", "n_kv_heads": heads}}
    return [again if here else {} for here in reused]


def _per_layer(f: ConfigFields, layers: int) -> tuple[int, list[Block], list[Block]]:
    """Width of the per-layer embedding, the pieces before the layers, and the pieces inside each layer."""
    width = f.integer("hidden_size_per_layer_input", null=0, least=0)
    rows = f.integer("vocab_size_per_layer_input")
    if not width:
        return 0, [], []
    before = [
        table("per_layer_embedding", rows, width=layers * width),
        linear("per_layer_projection", layers * width, bias=False),
        norm("per_layer_norm", "rmsnorm", width=width, spread=layers),
    ]
    inside = [
        linear("per_layer_gate", width, bias=False),
        linear("per_layer_out", f.integer("hidden_size"), input=width, bias=False),
    ]
    return width, before, inside


def _altup(f: ConfigFields) -> tuple[list[Block], list[Block], list[Block]]:
    """Copies of the stream (AltUp) with a low-rank residual (LAuReL): before the layers, after them, inside each."""
    width, n, rank = f.integer("hidden_size"), f.integer("altup_num_inputs"), f.integer("laurel_rank")
    more = (n - 1) * width
    before = [linear("altup_in", more, bias=False)] if more else []
    after = [linear("altup_out", width, input=more, bias=False)] if more else []
    inside = [
        norm("altup_norm", "rmsnorm", spread=2),  # to predict the streams, and to correct them
        linear("altup_router", n, bias=False, spread=2),
        linear("altup_predict", n * n, input=n, bias=False),
        linear("altup_correct", n, input=n, bias=False),
        {"kind": "altup", "name": "altup_streams", "rows": n},
        {"kind": "scale", "name": "altup_scale"},
        linear("laurel_in", rank, bias=False),
        linear("laurel_out", width, input=rank, bias=False),
    ]
    return before, after, inside


def gemma3n(f: ConfigFields) -> Block:
    """Four norms a layer, one behind the embedding of the layer and one behind the low-rank residual."""
    local = _kinds(f, 5)
    reused, base, n = _reused(f, local), _common(f), len(local)
    sizes = f.raw("intermediate_size")
    widths = f.items("intermediate_size", int, n) if isinstance(sizes, list) else [f.integer("intermediate_size")] * n
    if not widths or min(widths) < 1:
        raise f.fail("intermediate_size", "expected a width of each layer, or one for all")
    mlp = feedforward(f, "gated", d_ff=widths[0])
    ffn: list[Override] = [{"feedforward": {"d_ff": w}} if w != widths[0] else {} for w in widths]
    layer, embedded, own = _per_layer(f, n)
    if not layer:
        raise f.fail("hidden_size_per_layer_input", "0 is not supported here; give the width of the layers' embeddings")
    before, after, streams = _altup(f)
    stack = merged(windows(f, local, f.optional("sliding_window")), _sharing(base, reused), ffn)
    return frame(f, base, mlp, layers=stack, norms=6, pieces=[*own, *streams], before=[*embedded, *before], after=after)


def _full_heads(f: ConfigFields, local: list[bool]) -> list[Override]:
    """Head widths and counts of the layers that see everything: as the config lists them, else one for all."""
    listed = f.raw("per_layer_config")
    if listed is not MISSING and listed is not None:
        return _listed(f, listed, len(local))
    overrides: Block = {"head_dim": f.integer("global_head_dim", null=512)}
    keys = f.optional("num_global_key_value_heads")
    if keys and f.flag("attention_k_eq_v"):
        overrides["num_key_value_heads"] = keys
    return [{} if here else overrides for here in local]


def _listed(f: ConfigFields, listed: Any, n: int) -> list[Override]:
    """per_layer_config: layer number -> fields that differ."""
    f.used |= {"global_head_dim", "num_global_key_value_heads"}
    overrides: list[Override] = [{} for _ in range(n)]
    for key, value in listed.items() if isinstance(listed, dict) else ():
        inner = ConfigFields(
            value if isinstance(value, dict) else {}, {}, f.where, (*f.prefix, "per_layer_config", str(key))
        )
        if not str(key).isdigit() or int(key) >= n:
            raise f.fail("per_layer_config", f"'{str(key)[:20]}' is not one of the {n} layers")
        overrides[int(key)] = {
            name: inner.integer(name) for name in ("head_dim", "num_key_value_heads") if name in inner.data
        }
        inner.finish(frozenset())
    return overrides


def gemma4(f: ConfigFields) -> Block:
    """Full-attention layers have another head width, and keys may serve as values; experts are in addition to the MLP."""
    local = [*_kinds(f, 6)[:-1], False]  # the last layer always has full attention
    f.used.add("layer_types")
    reused, n = _reused(f, local), len(local)
    heads: list[Override] = []
    for here, again, own in zip(local, reused, _full_heads(f, local), strict=True):
        data = {**f.defaults, **f.data, **own}
        one = _common(ConfigFields(data, {}, f.where, f.prefix))
        one |= {"window": f.optional("sliding_window")} if here else {}
        one |= {"same_values": True} if f.flag("attention_k_eq_v") and not here and not again else {}
        keys = one.get("n_kv_heads", 1 if one["kind"] == "mqa" else one["n_heads"])
        one |= {"kind": "shared-kv", "n_kv_heads": keys} if again else {}
        heads.append(one)
    f.used |= {"num_attention_heads", "num_key_value_heads", "head_dim", "attention_bias", "sliding_window"}
    double = f.flag("use_double_wide_mlp")
    ffn, norms = _feedforward(f), 4
    width_key = "shared_d_ff" if ffn["kind"] == "moe" else "d_ff"
    width, before, inside = _per_layer(f, n)
    norms += 1 if width else 0
    if ffn["kind"] == "moe":
        norms += 3
        inside += [values("router_scale"), values("expert_scale", width=ffn["n_experts"])]
    blocks: list[Override] = [
        {"attention": one} | ({"feedforward": {width_key: 2 * ffn[width_key]}} if double and again else {})
        for one, again in zip(heads, reused, strict=True)
    ]
    return frame(f, None, ffn, layers=blocks, norms=norms, pieces=inside, before=before)


def _feedforward(f: ConfigFields) -> Block:
    """A gated MLP; with enable_moe_block, routed experts with the MLP as the shared expert."""
    mlp = feedforward(f, "gated")
    count, chosen, width = f.optional("num_experts"), f.optional("top_k_experts"), f.optional("moe_intermediate_size")
    if not f.flag("enable_moe_block"):
        return mlp
    if not count or not chosen or not width or chosen > count:
        raise f.fail("enable_moe_block", "needs num_experts, top_k_experts of them and moe_intermediate_size; add them")
    return mlp | {
        "kind": "moe",
        "d_ff": width,
        "n_experts": count,
        "top_k": chosen,
        "n_shared": 1,
        "shared_d_ff": mlp["d_ff"],
    }
