"""An optimizer as YAML describes it: what it keeps per parameter, and what it multiplies. optimizers/*.yaml ship in the package."""

from functools import lru_cache
from pathlib import Path

from pydantic import field_validator

from rooflinecli.core import units
from rooflinecli.core.errors import unknown
from rooflinecli.specs.figure import Spec, validate
from rooflinecli.specs.yaml_loader import read

_FOLDER = Path(__file__).resolve().parent.parent / "optimizers"


class Optimizer(Spec):
    """Bytes per parameter of the master copy and of the optimizer state; `steps` Newton-Schulz steps over the momentum of every matrix.

    factors: square fp32 matrices kept for either side of a matrix; a side longer than `widest` has none, or is cut into blocks of it where
    `blocked`. products: products with them in a step, roots: FLOPs per cubed side and step to renew roots or bases.
    """

    name: str
    master: float
    state: float
    steps: float = 0.0
    factors: float = 0.0
    products: float = 0.0
    roots: float = 0.0
    widest: float = 1.0e9
    blocked: bool = False
    source: str
    note: str = ""

    @field_validator("master", "state", mode="before")
    @classmethod
    def _bytes(cls, value: object) -> object:
        return units.parse(value, "B") if isinstance(value, str) else value

    @property
    def bytes(self) -> float:
        """Bytes per parameter in addition to working weights and gradients."""
        return self.master + self.state


@lru_cache(maxsize=1)
def optimizers() -> dict[str, Optimizer]:
    """All optimizers by file name."""
    return {path.stem: validate(Optimizer, read(path, base="optimizers")) for path in sorted(_FOLDER.glob("*.yaml"))}


def load_optimizer(name: str) -> Optimizer:
    """The optimizer of this name. Raises UsageError listing what exists."""
    found = optimizers().get(name.lower())
    if found is None:
        raise unknown("optimizer", name, optimizers(), option="optimizer")
    return found
