"""The training software whose constants price a step: the one that was named, or what runs like this one use when none is.

Rule for an unnamed stack, scored on 774 published GPU runs asked without their software (docs/accuracy.md): narrow formats, chips with
fp4 units and mixtures of experts are trained with NVIDIA's tuned recipes; weights sharded by ZeRO-3 with PyTorch FSDP; everything else
with a stack between those recipes and eager PyTorch, and a wider interval.
"""

from __future__ import annotations

from rooflinecli.ledger.ledger import Ledger
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Layout

UNNAMED = Layout.software
TUNED, SHARDED, TYPICAL = "megatron-bridge", "pytorch", "typical"


def default_stack(chip: Chip, formats: Formats, ledger: Ledger) -> str:
    """The stack of a question that names none, where weights are not sharded by ZeRO-3."""
    if chip.spec.kind != "gpu" or chip.spec.vendor != "nvidia":
        return UNNAMED
    tuned = formats.compute in ("fp8", "fp4") or "fp4" in chip.spec.peak or ledger.moe_layers
    return TUNED if tuned else TYPICAL


def training_stack(layout: Layout, default: str) -> str:
    """Name of the row of the training tables that a layout reads."""
    if layout.software != UNNAMED or default == UNNAMED:
        return layout.software
    return SHARDED if layout.zero >= 3 else default
