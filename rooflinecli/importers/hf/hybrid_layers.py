"""Shared readers of hybrid models: the mixer of each layer, and the blocks of state-space mixers."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.blocks import Block, set_only
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields

# How files name a layer's mixer: transformers 5, and older files on the Hub
NAMES = {
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "recurrent": "recurrent",
    "full_attention": "attention",
    "attention": "attention",
    "sliding_attention": "attention",
    "hybrid": "hybrid",
    "mlp": "mlp",
    "moe": "moe",
}


def layer_kinds(f: ConfigFields, names: tuple[str, ...], default: list[str], allowed: tuple[str, ...]) -> list[str]:
    """The mixer of each layer: the first list of these names that the config gives, else `default`. Raises DataError."""
    length = len(default) or None
    for name in names:
        listed = f.items(name, str, length)
        if not listed:
            continue
        kinds = [NAMES.get(kind, "") for kind in listed]
        for name_in_config, kind in zip(listed, kinds, strict=True):
            if kind not in allowed:
                raise f.fail(
                    name, f"'{name_in_config}' is not a layer kind supported here; supported: {', '.join(allowed)}"
                )
        return kinds
    return default


def placed(kinds: list[str], blocks: dict[str, Block]) -> list[Override]:
    """Overrides that give each layer the mixer of its kind."""
    return [{"attention": blocks[kind]} for kind in kinds]


def ssd(
    f: ConfigFields,
    *,
    heads: int,
    head_dim: int,
    inner: int,
    field: str,
    groups: str,
    state: str,
    taps: str,
    chunk: str,
    **more: Any,
) -> Block:
    """A Mamba-2 block. Raises DataError where heads times their width is not the inner width."""
    if heads * head_dim != inner:
        raise f.fail(field, f"{heads} heads of {head_dim} are not the inner width {inner}; give another count")
    n = f.integer(groups)
    if heads % n:
        raise f.fail(groups, f"{n} groups do not divide {heads} heads; give a divisor")
    sizes = {"state": f.integer(state), "taps": f.integer(taps), "groups": n, "chunk": f.integer(chunk)}
    block: Block = {"kind": "mamba2", "n_heads": heads, "head_dim": head_dim, "sizes": sizes}
    return block | set_only(more)


def selective(f: ConfigFields, inner: int, *, state: str, taps: str, rank: int, **more: Any) -> Block:
    """A Mamba-1 block of `inner` channels."""
    sizes = {"state": f.integer(state), "taps": f.integer(taps), "rank": rank}
    return {"kind": "mamba", "n_heads": inner, "head_dim": 1, "sizes": sizes} | set_only(more)
