"""An optimizer as YAML describes it: what it keeps per parameter, and what it multiplies. optimizers/*.yaml ship in the package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated

from rooflinecli.core.errors import unknown
from rooflinecli.specs.figure import FileSpec, WithUnit
from rooflinecli.specs.snapshots import load

_FOLDER = Path(__file__).resolve().parent.parent / "optimizers"


class Optimizer(FileSpec):
    """Bytes per parameter of the master copy and of the optimizer state; `steps` Newton-Schulz steps over the momentum of every matrix.

    factors: square fp32 matrices kept for either side of a matrix; a side longer than `widest` has none, or is cut into blocks of it where
    `blocked`. products: products with them in a step, roots: FLOPs per cubed side and step to renew roots or bases.
    """

    name: str
    master: Annotated[float, WithUnit("B")]
    state: Annotated[float, WithUnit("B")]
    steps: float = 0.0
    factors: float = 0.0
    products: float = 0.0
    roots: float = 0.0
    widest: float = 1.0e9
    blocked: bool = False
    source: str
    note: str = ""

    @property
    def bytes(self) -> float:
        """Bytes per parameter in addition to working weights and gradients."""
        return self.master + self.state


@lru_cache(maxsize=1)
def optimizers() -> dict[str, Optimizer]:
    """All optimizers by file name."""
    return {path.stem: load(Optimizer, path, "optimizers") for path in sorted(_FOLDER.glob("*.yaml"))}


def load_optimizer(name: str) -> Optimizer:
    """The optimizer of this name. Raises UsageError listing what exists."""
    found = optimizers().get(name.lower())
    if found is None:
        raise unknown("optimizer", name, optimizers(), option="optimizer")
    return found
