"""Blocks of a decoder from the fields of a config, and the interpreter of decoder rows (families/*.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflinecli.importers.hf.layer_pattern import Override, merged, stack, windows
from rooflinecli.specs.field_reader import ConfigFields

Block = dict[str, Any]
Row = Mapping[str, Any]  # of families/*.yaml


def attention(
    f: ConfigFields,
    *,
    heads: str = "num_attention_heads",
    kv: str | None = "num_key_value_heads",
    n_kv: int | None = None,
    width: int | None = None,
    head_dim: bool = True,
    **more: Any,
) -> Block:
    """Head counts and head_dim of an attention block; a null head_dim is d_model / heads."""
    names = {"n_head": ("num_attention_heads",), "num_attention_heads": ("n_head",)}.get(heads, ())
    n = f.integer(heads, *names)
    shared = n_kv if n_kv is not None else f.integer(kv, null=n) if kv else n
    size = f.optional("head_dim") if head_dim else None
    width = width or f.integer("hidden_size")
    if size is None and width % n:
        raise f.fail(heads, f"{n} heads do not divide the hidden size {width}; give head_dim or another count")
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
    f: ConfigFields, kind: str, width: str = "intermediate_size", *, bias: bool = False, d_ff: int | None = None
) -> Block:
    """A dense block; the activation costs no shape and is kept as the config names it."""
    named = [f.raw(name) for name in ("hidden_activation", "hidden_act", "activation_function", "activation")]
    activation = next((name for name in named if isinstance(name, str)), "silu")
    return {"kind": kind, "d_ff": d_ff or f.integer(width), "activation": activation} | set_only({"bias": bias})


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


def decoder(f: ConfigFields, row: Row, *, block: Block | None = None, layers: list[Override] | None = None) -> Block:
    """A decoder as its row describes it (docs/add-model.md has the keys), with `block` for the row's attention and `layers` for its windows.

    In a row a switch is true, false, or the flag of the config that decides; a name of a field may be a list of the names it goes by.
    """
    for name, (allowed, remedy) in row.get("expect", {}).items():
        f.expect(name, tuple(allowed), remedy)
    width = f.integer(*_names(row.get("width", "hidden_size")))
    if block is None and "attention" in row:
        block = row_attention(f, row["attention"], width)
    context = f.integer(*_names(row["max_context"])) if "max_context" in row else None
    if "optional_context" in row:
        context = f.optional(*_names(row["optional_context"]))
    n = f.integer(*_names(row.get("layers", "num_hidden_layers")))
    if layers is None and "windows" in row:
        layers = _windows(f, row["windows"], n)
    if "experts" in row:
        base, mixed = _mixture(f, row, width, n)
        layers = merged(layers, mixed) if layers else mixed
    else:
        base = _feedforward(f, row["feedforward"], width)
    if "predictions" in row:
        leave_out_predictions(f, *_names(row["predictions"]))
    more: Block = {key: row[key] for key in ("embedding_norm", "final_norm") if key in row}
    more |= {key: _switch(f, row[key]) for key in ("parallel", "lm_head_bias") if key in row}
    if "norms" in row:
        more |= {"norms": count} if (count := _choice(f, row["norms"])) != "none" else {}
    if row.get("shared_norm"):  # one norm before both blocks where they are parallel
        more["norms"] = 1 if more["parallel"] else 2
    if "positions" in row:
        more["positions"] = dict(row["positions"])
        if "extra_rows" in row["positions"]:
            extra = more["positions"].pop("extra_rows")
            more["positions"]["length"] = (context or f.integer("max_position_embeddings")) + extra
    norm = row.get("norm", "rmsnorm")
    return frame(f, block, base, layers=layers or n, norm=norm, width=width, context=context, **more)


def _names(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def period(f: ConfigFields, given: int | Row) -> int:
    """Layers per full one: a number, or a field with its default."""
    return given if isinstance(given, int) else f.integer(given["field"], null=given.get("default"))


def _switch(f: ConfigFields, given: bool | str) -> bool:
    return f.flag(given) if isinstance(given, str) else given


def _choice(f: ConfigFields, given: Any) -> Any:
    """A value, or {flag: value}: the value where the flag is on, else none."""
    if not isinstance(given, dict):
        return given
    [(flag, value)] = given.items()
    return value if f.flag(flag) else "none"


def row_attention(f: ConfigFields, given: Row, width: int) -> Block:
    if given.get("kind") == "mla":
        return latent(f)
    more = dict(given)
    names = {key: more.pop(key) for key in ("heads", "kv", "head_dim") if key in more}
    window, both = more.pop("window", None), more.pop("bidirectional", None)
    more = {key: _choice(f, value) if key == "qk_norm" else _switch(f, value) for key, value in more.items()}
    if window:
        more["window"] = f.optional(window)
    block = attention(f, width=width, **names, **more)
    return block | {"causal": False} if both and f.flag(both) else block


def _feedforward(f: ConfigFields, given: Row, width: int) -> Block:
    """A dense block; `multiple` times the width where the config has no size."""
    more = dict(given)
    kind, bias = more.pop("kind"), _switch(f, more.pop("bias", False))
    names, multiple = more.pop("size", ["intermediate_size"]), more.pop("multiple", None)
    usual = multiple * width if multiple else None
    size = f.integer(*_names(names), null=usual) if names else usual
    more.pop("optional", None)
    return feedforward(f, kind, bias=bias, d_ff=size) | more


def _windows(f: ConfigFields, given: Row, n: int) -> list[Override]:
    """Which layers see a window where layer_types does not list them: all, all but one of `full_every`, or those from a layer on."""
    window = f.optional(given["size"])
    if "when" in given and not f.flag(given["when"]):
        window = None
    local = [given.get("usual", True)] * n
    if "full_every" in given:
        every = period(f, given["full_every"])
        full = 0 if given.get("full_first") else every - 1
        local = [i % every != full for i in range(n)]
    if "first" in given:
        usual = given["first"]["default"]
        first = f.integer(given["first"]["field"], null=n if usual is None else usual, least=0)
        local = [i >= first for i in range(n)]
    if "end" in given:
        end = f.integer(given["end"], null=0, least=0)
        local = [here and i < end for i, here in enumerate(local)]
    made = windows(f, local, window)
    if given.get("full_without_positions"):
        return [layer or {"attention": {"rotary": False}} for layer in made]
    return made


def _mixture(f: ConfigFields, row: Row, width: int, n: int) -> tuple[Block, list[Override]]:
    """The mixture of `experts`, on all layers or on those of `mixtures`, the others dense as `feedforward`."""
    more = dict(row["experts"])
    size, count, top_k = more.pop("size"), _names(more.pop("count")), more.pop("top_k", "num_experts_per_tok")
    optional = more.pop("optional_shared_d_ff", None)
    for key, value in more.items():
        if key == "n_shared" and isinstance(value, str):
            more[key] = f.integer(value, null=0, least=0)
        elif key == "shared_d_ff":
            more[key] = f.integer(*_names(value))
        elif key != "n_shared":
            more[key] = _switch(f, value)
    if optional and (shared := f.optional(optional)):
        more |= {"n_shared": 1, "shared_d_ff": shared}
    moe = experts(f, size, tuple(count), top_k, **more)
    if "mixtures" not in row:
        return moe, [{} for _ in range(n)]
    where = _places(f, row["mixtures"], n)
    if _switch(f, row["feedforward"].get("bias", False)):
        moe |= {"bias": False}  # that of the dense layers is not the experts'
    if row["feedforward"].get("optional"):
        f.optional("intermediate_size")  # of dense layers, which may not be there
        if all(where):
            return moe, [{} for _ in where]
    return sparse(_feedforward(f, row["feedforward"], width), moe, where)


def _places(f: ConfigFields, given: Row, n: int) -> list[bool]:
    """Which layers are mixtures."""
    if "every" in given:
        every, dense = f.integer(given["every"]), f.items(given["except"], int) or []
        return [i not in dense and (i + 1) % every == 0 for i in range(n)]
    first = f.integer(given["first"], null=given["default"], least=0) if "first" in given else 0
    return mixture_layers(f, [i >= first for i in range(n)])


def mixture_layers(f: ConfigFields, default: list[bool]) -> list[bool]:
    """Which layers are mixtures: by mlp_layer_types, else `default`."""
    listed = f.items("mlp_layer_types", str, len(default))
    return [kind == "sparse" for kind in listed] if listed else default
