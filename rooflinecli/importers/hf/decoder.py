"""What the families share: head counts, the frame of a decoder, mixtures of experts."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.specs.field_reader import ConfigFields

Block = dict[str, Any]


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
    n = f.whole(heads, *names)
    shared = n_kv if n_kv is not None else f.whole(kv, null=n) if kv else n
    size = f.optional("head_dim") if head_dim else None
    width = width or f.whole("hidden_size")
    if size is None and width % n:
        raise f.fail(heads, f"{n} heads do not divide the hidden size {width}; give head_dim or another count")
    if n % shared:
        raise f.fail(kv or heads, f"{shared} key/value heads do not divide {n} heads; give a divisor")
    kind = "mha" if shared == n else "mqa" if shared == 1 else "gqa"
    block: Block = {"kind": kind, "n_heads": n}
    if kind == "gqa":
        block["n_kv_heads"] = shared
    return block | {"head_dim": size or width // n} | set_only(more)


def set_only(block: Block) -> Block:
    """The fields of a block that say something: false, none and zero are the format's defaults."""
    return {key: value for key, value in block.items() if value not in (False, None, 0, "none")}


def feedforward(
    f: ConfigFields, kind: str, width: str = "intermediate_size", *, bias: bool = False, d_ff: int | None = None
) -> Block:
    """A dense block; the activation costs no shape and is kept as the config names it."""
    named = [f.raw(name) for name in ("hidden_activation", "hidden_act", "activation_function", "activation")]
    activation = next((name for name in named if isinstance(name, str)), "silu")
    return {"kind": kind, "d_ff": d_ff or f.whole(width), "activation": activation} | set_only({"bias": bias})


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
        "d_model": width or f.whole("hidden_size"),
        "vocab_size": f.whole("vocab_size"),
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
    n = f.whole(*count)
    chosen = f.whole(top_k)
    if chosen > n:
        raise f.fail(top_k, f"{chosen} exceeds the {n} experts; give at most that many")
    base = feedforward(f, "moe", width)
    return base | {"n_experts": n, "top_k": chosen} | set_only(more)


def sparse(dense: Block, moe: Block, where: list[bool]) -> tuple[Block, list[Override]]:
    """The base feed-forward and the per-layer overrides when some layers are dense and others a mixture."""
    if all(where):
        return moe, [{} for _ in where]
    return dense, [{"feedforward": moe} if here else {} for here in where]
