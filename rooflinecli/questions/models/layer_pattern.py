"""The layers of a model in their order, as briefly as its file says them: `12 x (3 x gated-delta, gqa)`."""

from __future__ import annotations

from typing import Any

from rooflinecli.specs.model import ModelSpec


def pattern(spec: ModelSpec) -> str:
    """Mixer and feed-forward of each layer, runs and periods drawn together."""
    data = spec.document.data
    base = {key: data.get(key) for key in ("attention", "cross", "feedforward")}
    layers = data["layers"]
    if isinstance(layers, int):
        return _times(layers, _label(base))
    return ", ".join(_group(group, base) for group in layers)


def _group(group: dict[str, Any], base: dict[str, Any]) -> str:
    if "pattern" not in group:
        return _times(group.get("repeat", 1), _label(_over(group, base)))
    inside = ", ".join(_times(entry.get("repeat", 1), _label(_over(entry, base))) for entry in group["pattern"])
    return _times(group.get("repeat", 1), f"({inside})")


def _times(count: int, what: str) -> str:
    return what if count == 1 else f"{count} x {what}"


def _over(group: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The blocks of a layer: its own over the model's."""
    return {
        key: {**(under or {}), **group[key]} if isinstance(group.get(key), dict) else group.get(key, under)
        for key, under in base.items()
    }


def _label(blocks: dict[str, Any]) -> str:
    """gqa window 4096 + gated, or mamba2 alone."""
    attention, feedforward = blocks["attention"], blocks["feedforward"] or {}
    words = []
    if attention:
        bound = next((f" {name} {attention[name]}" for name in ("window", "chunk") if attention.get(name)), "")
        rate = (attention.get("sizes") or {}).get("rate")
        bound += f" and 1/{rate}" if rate else ""
        again = " (shared)" if attention.get("shared") else ""
        words.append(f"{attention.get('kind', 'gqa')}{bound}{again}")
    if blocks.get("cross"):
        words.append("cross")
    kind = feedforward.get("kind", "gated")
    if kind != "none":
        words.append(f"moe {feedforward['top_k']} of {feedforward['n_experts']}" if kind == "moe" else kind)
    return " + ".join(words) or "nothing"
