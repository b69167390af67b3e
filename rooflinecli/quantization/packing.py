"""What readers of quantized checkpoints share: widths, groups, and the modules left in 16 bits."""

from __future__ import annotations

from typing import Any

from rooflinecli.specs.field_reader import ConfigFields

Stored = dict[str, Any]
_INT = {n: "int4" if n <= 4 else "int8" for n in range(1, 9)}


def grouping(f: ConfigFields, name: str = "group_size", null: int = 128) -> Stored:
    """Weights per scale; -1 is one scale per output."""
    size = f.whole(name, null=null, least=-1)
    return {"group_size": size} if size > 0 else {}


def integers(f: ConfigFields, allowed: tuple[int, ...], *names: str, null: int | None = None) -> Stored:
    """The width of a weight. Raises DataError for one that the format has not."""
    bits = f.whole(*names, null=null)
    if bits not in allowed:
        raise f.fail(names[0], f"{bits}-bit integers are not known; known: {', '.join(map(str, allowed))}")
    return {"dtype": _INT[bits], "bits": bits, "weight_only": True}


def keeping(f: ConfigFields, result: Stored, *skipped: str) -> Stored:
    """Quantized linear layers, but for the modules that the config names."""
    names = [module for name in skipped for module in f.items(name, str) or []]
    return {"applies_to": "linear"} | result | ({"kept": names} if names else {})
