"""Recomputation before the backward pass of a layer: nothing, some modules or operations, or the forward pass.

`op` is torchtitan's selective checkpointing per operation: outputs of attention and of every second matmul are kept, the
rest runs again; counted as half of each matmul. An early stop leaves out what only the layer's output needs, its last
projection: no gradient reads it (torch.utils.checkpoint without re-entry, and XLA, which drops unused results).
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.core.record import Json
from rooflinecli.ledger.ops import Op
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.snapshots import packaged

PRE_NORM = 2  # norms of a layer whose branches start with one
LAST = ("feedforward.down", "moe.shared_down", "residual")  # what only the output of a pre-norm layer needs


def modules() -> dict[str, Json]:
    """Megatron-LM's --recompute-modules: `again`, the rows that run again, and `drops`, by row, which of its saved tensors (by place) are
    no longer kept."""
    return packaged(__file__)


def share(layers: Number | None, all_layers: Number) -> Number:
    """Fraction of the layers that are recomputed: `layers` of them, or all."""
    return 1.0 if layers is None else num.minimum(layers, all_layers) / all_layers


def recomputed_ops(layout: Layout, forward: list[Op], early_stop: bool = False) -> list[Op]:
    """Forward kernels of a layer that recomputation repeats. Fused attention repeats its scores inside its own backward."""
    if layout.recompute == "full":
        return [op for op in forward if op.name not in LAST] if early_stop else forward
    if layout.recompute == "op":
        again = [op for op in forward if op.name not in LAST and op.gradient is None]
        return [op if op.group == "elementwise" else op._replace(count=op.count * 0.5) for op in again]
    if layout.recompute == "selective":
        names = recomputed_rows(layout)
        scores = not layout.flash and "core_attn" in layout.recompute_modules
        return [op for op in forward if op.name in names or (scores and op.gradient and op.gradient.scores)]
    return []


def recomputed_rows(layout: Layout) -> set[str]:
    """Rows that selective recomputation runs again."""
    chosen = layout.recompute_modules if layout.recompute == "selective" else ()
    return {name for module in chosen for name in modules()[module]["again"]}


def dropped_tensors(layout: Layout) -> dict[str, tuple[int, ...]]:
    """By row, the places of the saved tensors that selective recomputation drops."""
    dropped: dict[str, tuple[int, ...]] = {}
    for module in layout.recompute_modules if layout.recompute == "selective" else ():
        for row, places in modules()[module]["drops"].items():
            dropped[row] = (*dropped.get(row, ()), *places)
    return dropped


def uses_early_stop(early_stop: Number, norms: float) -> bool:
    """Whether the framework stops early, and no norm after the last projection needs its output."""
    return num.present(early_stop) and norms <= PRE_NORM
