"""Blocks and components of a model from the fields of a config; and which layers have what, with their overrides, as the shortest `layers:`
a person would write: a number, runs, or a repeated pattern.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.core.record import Json
from rooflinecli.specs.field_reader import ConfigFields
from rooflinecli.specs.snapshots import table

Block = Json
IGNORED: Json = table(Path(__file__).with_name("ignored_fields.yaml"))


def attention(
    f: ConfigFields,
    *,
    heads: str = "num_attention_heads",
    kv: str | None = "num_key_value_heads",
    n_kv: int | None = None,
    width: int | None = None,
    head_dim: bool = True,
    n: int | None = None,
    size: int | None = None,
    **more: Any,
) -> Block:
    """Head counts and head_dim of an attention block; a null head_dim is d_model / heads. `n` heads of `size` where the fields have those of other layers."""
    names = {"n_head": ("num_attention_heads",), "num_attention_heads": ("n_head",)}.get(heads, ())
    n = n or f.integer(heads, *names)
    shared = n_kv if n_kv is not None else f.integer(kv, null=n) if kv else n
    size = size or (f.optional("head_dim") if head_dim else None)
    width = width or f.integer("hidden_size")
    if size is None and width % n:
        remedy = "give head_dim or another count" if head_dim else "give another count"
        raise f.fail(heads, f"{n} heads do not divide the width {width}; {remedy}")
    if n % shared:
        raise f.fail(kv or heads, f"{shared} key/value heads do not divide {n} heads; give a divisor")
    kind = "mha" if shared == n else "mqa" if shared == 1 else "gqa"
    block: Block = {"kind": kind, "n_heads": n}
    if kind == "gqa":
        block["n_kv_heads"] = shared
    return block | {"head_dim": size or width // n} | set_only(more)


def latent(f: ConfigFields) -> Block:
    """Latent attention; attention_bias is on the two down-projections and the output."""
    bias = f.flag("attention_bias")
    block = {"kind": "mla", "n_heads": f.integer("num_attention_heads"), "q_lora_rank": f.optional("q_lora_rank")}
    widths = {name: f.integer(name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    return set_only(block | widths | {"qkv_bias": bias, "out_bias": bias})


def set_only(block: Block) -> Block:
    """Drop the fields of a block that are the format's defaults: false, none and zero."""
    return {key: value for key, value in block.items() if value not in (False, None, 0, "none")}


def feedforward(
    f: ConfigFields,
    kind: str,
    width: str = "intermediate_size",
    *,
    bias: bool = False,
    d_ff: int | None = None,
    fused: bool = False,
) -> Block:
    """A dense block; the activation costs no shape and is kept as the config names it."""
    named = [f.raw(name) for name in ("hidden_activation", "hidden_act", "activation_function", "activation")]
    activation = next((name for name in named if isinstance(name, str)), "silu")
    return {"kind": kind, "d_ff": d_ff or f.integer(width), "activation": activation} | set_only(
        {"bias": bias, "fused": fused}
    )


def frame(
    f: ConfigFields,
    attention: Block | None,
    feedforward: Block,
    *,
    layers: int | list[Override],
    norm: str = "rmsnorm",
    width: int | None = None,
    context: int | None = None,
    **more: Any,
) -> Block:
    """A decoder: dimensions, vocabulary, tying, and the layers as briefly as they can be written."""
    result = {
        "d_model": width or f.integer("hidden_size"),
        "vocab_size": f.integer("vocab_size"),
        "tied_embeddings": f.flag("tie_word_embeddings"),
        "norm": norm,
        "max_context": context or f.optional("max_position_embeddings"),
        **set_only({k: v for k, v in more.items() if k not in ("norms", "final_norm")}),
    }
    result |= {k: more[k] for k in ("norms", "final_norm") if k in more}
    result |= {"attention": attention, "feedforward": feedforward}
    return result | {"layers": layers if isinstance(layers, int) else stack(layers)}


def experts(
    f: ConfigFields, width: str, count: tuple[str, ...], top_k: str = "num_experts_per_tok", **more: Any
) -> Block:
    """A mixture of gated experts."""
    n = f.integer(*count)
    chosen = f.integer(top_k)
    if chosen > n:
        raise f.fail(top_k, f"{chosen} exceeds the {n} experts; give at most that many")
    base = feedforward(f, "moe", width)
    return base | {"n_experts": n, "top_k": chosen} | set_only(more)


def sparse(dense: Block, moe: Block, where: list[bool]) -> tuple[Block, list[Override]]:
    """The base feed-forward and the per-layer overrides when some layers are dense and others a mixture."""
    if all(where):
        return moe, [{} for _ in where]
    return dense, [{"feedforward": moe} if here else {} for here in where]


def leave_out_predictions(f: ConfigFields, *names: str) -> None:
    """Note that the layers of multi-token prediction, whose number is the field `names`, are not counted."""
    extra = f.integer(*names, null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")


def mixture_layers(f: ConfigFields, default: list[bool]) -> list[bool]:
    """Which layers are mixtures: by mlp_layer_types, else `default`."""
    listed = f.items("mlp_layer_types", str, len(default))
    return [kind == "sparse" for kind in listed] if listed else default


def mha(v: ConfigFields, heads: str | list[str], width: int, **more: Any) -> Block:
    """Bidirectional attention whose heads fill the width; `heads` are the names that their number goes by."""
    names = [heads] if isinstance(heads, str) else heads
    n = v.integer(*names)
    if width % n:
        raise v.fail(names[0], f"{n} heads do not divide the width {width}; give another count")
    block = {"kind": "mha", "n_heads": n, "head_dim": width // n, "causal": False}
    return block | {key: value for key, value in more.items() if value not in (False, "none")}


def linear(name: str, width: int, **more: Any) -> Block:
    return {"kind": "linear", "name": name, "width": width, **{k: v for k, v in more.items() if v not in (None, 0)}} | (
        {"bias": False} if more.get("bias") is False else {}
    )


def patches(
    v: ConfigFields, width: int, *, bias: bool, channels: str = "num_channels", deep: int = 1, less: int = 0
) -> Block:
    """The convolution that makes a token of each patch."""
    return linear("patches", width, input=v.side("patch_size") ** 2 * v.integer(channels) * deep, bias=bias, less=less)


Override = Json
_LONGEST_PERIOD = 12
_LATEST_START = 12  # layers searched for the start of a repeated pattern


def stack(layers: list[Override]) -> int | list[Json]:
    """`layers` for a spec, from what each layer overrides, in order."""
    if not any(layers):
        return len(layers)
    best, fewest = _runs(layers), lambda groups: sum(1 + len(group.get("pattern", ())) for group in groups)
    for start in range(min(_LATEST_START, len(layers))):
        for period in range(2, min(_LONGEST_PERIOD, (len(layers) - start) // 2) + 1):
            best = min(best, _periodic(layers, start, period), key=fewest)
    return best


def _periodic(layers: list[Override], start: int, period: int) -> list[Json]:
    """Runs up to `start`, then as often as it fits what the next `period` layers are, then runs."""
    first = layers[start : start + period]
    count = 1
    while layers[start + count * period : start + (count + 1) * period] == first:
        count += 1
    if count == 1:
        return _runs(layers)
    pattern = [{k: v for k, v in run.items() if (k, v) != ("repeat", 1)} for run in _runs(first)]
    return [*_runs(layers[:start]), {"repeat": count, "pattern": pattern}, *_runs(layers[start + count * period :])]


def _runs(layers: list[Override]) -> list[Json]:
    groups: list[Json] = []
    for layer in layers:
        if groups and {k: v for k, v in groups[-1].items() if k != "repeat"} == layer:
            groups[-1]["repeat"] += 1
        else:
            groups.append({"repeat": 1, **layer})
    return groups


def merged(*overrides: list[Override]) -> list[Override]:
    """Several overrides of the same layers as one; blocks merge field by field."""
    result: list[Override] = []
    for parts in zip(*overrides, strict=True):
        layer: Override = {}
        for part in parts:
            for key, value in part.items():
                layer[key] = {**layer.get(key, {}), **value}
        result.append(layer)
    return result


def windows(
    fields: ConfigFields, default: list[bool], window: int | None, name: str = "sliding_attention", key: str = "window"
) -> list[Override]:
    """Which layers see a window: `layer_types` where the config lists them, else `default`."""
    types = fields.items("layer_types", str, len(default))
    for kind in types or []:
        if kind not in (name, "full_attention", "attention"):
            raise fields.fail(
                "layer_types", f"'{kind}' is not a supported attention; supported: full_attention, {name}"
            )
    local = [kind == name for kind in types] if types else default
    return [{"attention": {key: window}} if here and window else {} for here in local]


def layer_kinds(f: ConfigFields, names: tuple[str, ...], default: list[str], allowed: tuple[str, ...]) -> list[str]:
    """The mixer of each layer: the first list of these names that the config gives, else `default`. Raises DataError."""
    length = len(default) or None
    for name in names:
        listed = f.items(name, str, length)
        if not listed:
            continue
        kinds = [IGNORED["mixers"].get(kind, "") for kind in listed]
        for name_in_config, kind in zip(listed, kinds, strict=True):
            if kind not in allowed:
                raise f.fail(
                    name, f"'{name_in_config}' is not a layer kind supported here; supported: {', '.join(allowed)}"
                )
        return kinds
    return default


def placed(kinds: list[str], blocks: dict[str, Json]) -> list[Override]:
    """Overrides that give each layer the mixer of its kind."""
    return [{"attention": blocks[kind]} for kind in kinds]
