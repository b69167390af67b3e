"""How many parameters a model has: total, active per token, embedding."""

from __future__ import annotations

from functools import lru_cache

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ledger import Layer, Ledger, product, row_parameters
from rooflinecli.specs.model import ModelSpec


@dataclass(frozen=True)
class Parameters:
    """Exact counts. `active` includes the input embedding; `active_without_embedding` is the other convention in use."""

    total: int
    active: int
    active_without_embedding: int
    embedding: int


def parameters(spec: ModelSpec) -> Parameters:
    """Parameters of all towers, to the unit."""
    return _counted(ledger(spec))


@lru_cache(maxsize=64)
def _counted(ledger: Ledger) -> Parameters:
    spec = ledger.spec
    outer = int(row_parameters(ledger.stem, ledger.axes) + row_parameters(ledger.head, ledger.axes))
    inner = sum(layer.repeat * layer_parameters(layer) for layer in ledger.layers)
    idle = sum(layer.repeat * _idle(layer) for layer in ledger.layers)
    embedding = sum(
        int(product(axes, ledger.axes)) for row in ledger.stem if row.name == "embedding" for axes in row.params
    )
    towers = [parameters(tower) for tower in spec.towers]
    total = outer + inner + sum(t.total for t in towers)
    active = total - idle - sum(t.total - t.active for t in towers)
    # A tied table is read as the LM head too, so it stays active in both conventions.
    hidden = 0 if spec.tied_embeddings and spec.lm_head else embedding
    hidden += sum(t.active - t.active_without_embedding for t in towers)
    return Parameters(total, active, active - hidden, embedding + sum(t.embedding for t in towers))


def layer_parameters(layer: Layer) -> int:
    """Parameters of one layer of a group."""
    return int(row_parameters(layer.rows, _unit_sizes(layer)))


def _unit_sizes(layer: Layer) -> dict[str, int]:
    return layer.sizes({"B": 1, "S": 1, "T": 1, "O": 1, "Z": 1, **layer.axes})


def _idle(layer: Layer) -> int:
    """Parameters of the experts a token does not visit."""
    if not layer.moe:
        return 0
    sizes = _unit_sizes(layer)
    grouped = sum(
        int(product(axes, sizes)) for row in layer.rows if row.kind == "grouped_matmul" for axes in row.params
    )
    return grouped // layer.axes["E"] * (layer.axes["E"] - layer.axes["top_k"])
