"""Models that the JAX transformer can build: every layer's sizes checked, or one sentence about the unsupported part."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Json
from rooflinecli.specs.document import Document
from rooflinecli.specs.figure import differs
from rooflinecli.specs.model import AttentionSpec, LayerSpec, ModelSpec, load_model, model_from

ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_new", "gelu_pytorch_tanh", "silu", "swish", "relu", "relu2")


def scaled(name: str, layers: int | None, d_model: int | None, vocab: int | None) -> ModelSpec:
    """The model called `name`, scaled down where asked: heads, d_ff and key/value heads shrink with the width.

    Raises UsageError for what cannot be scaled or built.
    """
    spec = load_model(name)
    data = {k: v for k, v in spec.to_dict(differs).items() if k != "parameters_published"}
    data["layers"] = [_layer(group, spec.d_model, d_model) for group in _first(spec.layers, layers)]
    data |= {k: v for k, v in (("d_model", d_model), ("vocab_size", vocab)) if v is not None}
    small = model_from(Document(data, spec.document.path))
    check(small)
    return small


def _first(groups: list[LayerSpec], layers: int | None) -> list[LayerSpec]:
    """The first `layers` layers."""
    if layers is None:
        return groups
    kept: list[LayerSpec] = []
    for group in groups:
        take = min(group.repeat, layers - sum(g.repeat for g in kept))
        if take > 0:
            kept.append(group.with_changes(repeat=take))
    return kept


def _layer(group: LayerSpec, old: int, new: int | None) -> Json:
    """A layer group as data, its width scaled from `old` to `new`: head_dim stays, heads and d_ff shrink in proportion."""
    data = group.to_dict(lambda field, value: value is not None)
    if new is None:
        return data
    attention, feedforward = data.get("attention"), data["feedforward"]
    if attention:
        heads = max(1, round(attention["n_heads"] * new / old))
        share = attention["n_heads"] // (attention.get("n_kv_heads") or attention["n_heads"])
        kv = max(1, heads // share)
        attention |= {"n_heads": heads - heads % kv, "n_kv_heads": kv}
    for width in ("d_ff", "shared_d_ff"):
        if feedforward.get(width):
            feedforward[width] = max(8, round(feedforward[width] * new / old / 8) * 8)
    return data


def check(spec: ModelSpec) -> None:
    """Raises UsageError naming what the JAX transformer cannot build."""
    why = _global(spec)
    for group in spec.layers:
        why = why or _attention(group.attention) or _feedforward(group)
    if why:
        raise UsageError(
            f"{spec.name}: measure model builds decoder transformers with MHA or GQA, dense or with experts, and this one has {why}; "
            "try gpt2 or llama-3.2-1b with --layers and --d-model"
        )


def _global(spec: ModelSpec) -> str:
    if not spec.vocab_size or spec.patches or spec.towers or not spec.lm_head:
        return "no vocabulary or language-model head"
    if spec.both_ways:
        return "attention both ways"
    if spec.before or spec.after or any(group.pieces or group.cross for group in spec.layers):
        return "modules outside its layers"
    if spec.embedding_dim or spec.embedding_norm or spec.pre_norm or spec.n_classes or spec.projection_dim:
        return "an embedding of another width, or norms around it"
    if spec.positions.kind not in ("rotary", "learned", "none"):
        return f"{spec.positions.kind} positions"
    return ""


def _attention(a: AttentionSpec | None) -> str:
    if a is None or a.kind not in ("mha", "mqa", "gqa"):
        return "no attention, or attention of another kind"
    if a.chunk or a.window or a.sinks or not a.causal:
        return "windows, chunks, sinks or bidirectional attention"
    return f"a {a.qk_norm} q/k norm" if a.qk_norm not in ("none", "head") else ""


def _feedforward(group: LayerSpec) -> str:
    f = group.feedforward
    if f.kind not in ("dense", "gated", "moe"):
        return f"a {f.kind} feed-forward"
    if f.kind == "moe" and (f.latent_dim or f.score_bias or f.shared_gate or f.bias):
        return "experts with biases, a latent width or a shared gate"
    if f.activation not in ACTIVATIONS:
        return f"the activation {f.activation}"
    return (
        f"{group.norms} norms per layer"
        if group.norms not in (1, 2) or (group.norms == 1 and not group.parallel)
        else ""
    )
