"""Components of a model before its layers, after them, or inside each one: a kind is a file of this folder."""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.ledger.ledger import Derived
from rooflinecli.specs.layers import ComponentSpec


@dataclass(frozen=True)
class PlacedComponent:
    """Where a component is: the name of its rows, the prefix of its axes, and d_model."""

    name: str
    tag: str
    width: int


def positions(spec: ComponentSpec, at: PlacedComponent) -> tuple[str, Derived]:
    """The axis of the positions that a piece runs over for each sequence, and how its size follows from the tokens."""
    if spec.once:
        return "one", ()
    if spec.merge == spec.spread == 1 and not spec.less and spec.positions is None:
        return "S", ()
    if spec.positions is not None:
        fixed = float(spec.positions)
        return f"{at.tag}_tokens", ((f"{at.tag}_tokens", lambda s: fixed),)
    axis, each, less = f"{at.tag}_tokens", spec.spread / spec.merge, float(spec.less)
    if not less:
        return axis, ((axis, lambda s: s["S"] * each),)
    return axis, ((axis, lambda s: (s["S"] - less) * each),)
