"""Compulsory bytes of a program: used arguments, each once and only the parts looked up, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.measure.flat_jaxpr import Flat, Value, flatten

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr

SLICING = ("gather", "dynamic_slice", "slice")


def compulsory(jaxpr: Jaxpr | ClosedJaxpr, donated: bool) -> tuple[float, float]:
    """(bytes that must be read, bytes that must be written); `donated` when results may overwrite arguments."""
    flat = flatten(jaxpr)
    read = sum(_looked_at(flat, value, donated) for value in flat.ins)
    return read, sum({id(v): v.bytes for v in flat.outs}.values())


def _looked_at(flat: Flat, value: Value, donated: bool) -> float:
    """Bytes of a value that its program reads at least."""
    total = value.bytes if any(v is value for v in flat.outs) and not donated else 0.0
    for node in flat.nodes:
        places = [i for i, v in enumerate(node.ins) if v is value]
        for i in places:
            if i == 0 and node.name in SLICING:
                total += node.outs[0].bytes
            elif i == 0 and donated and node.name.startswith(("dynamic_update_slice", "scatter")):
                continue
            elif node.name in ("cond", "while"):
                continue  # which branch is taken, and how often, is not known
            elif node.name == "scan" and i < node.params["num_consts"]:
                body = flatten(node.params["jaxpr"])
                total += node.params["length"] * _looked_at(body, body.ins[len(body.ins) - len(node.ins) + i], False)
            else:
                total += value.bytes
    return min(total, value.bytes)
