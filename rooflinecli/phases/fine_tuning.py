"""Training recipes: all parameters, adapters of frozen weights, or a policy with a reference model (DPO)."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import fine_tuning
from rooflinecli.ledger.ledger import Row, Sizes, product
from rooflinecli.ledger.ops import Op, matmul
from rooflinecli.quantization.formats import Formats


@dataclass(frozen=True, eq=False, repr=False)
class Recipe:
    """frozen: base weights get no gradients, adapters do. reference: one more model, forward only. quantized: base in NF4.

    passes is what a step costs in forward passes of the base model; adapters come on top.
    """

    frozen: bool = False
    reference: bool = False
    quantized: bool = False

    @property
    def passes(self) -> float:
        return (2.0 if self.frozen else 3.0) + (1.0 if self.reference else 0.0)


NF4 = (64.0, 256.0)  # weights per constant, constants per constant of theirs
RECIPE = {
    "full": Recipe(),
    "lora": Recipe(frozen=True),
    "qlora": Recipe(frozen=True, quantized=True),
    "dpo": Recipe(reference=True),
}


_TARGETS: dict[str, str | tuple[str, ...]] = {
    "all": "",
    "attention": "attention.",
    "qkv": ("attention.q", "attention.kv"),
}


def lora_target_rows(rows: tuple[Row, ...], targets: str = "all") -> list[Row]:
    """Weight matmuls with an adapter: the dense linear layers of a block, of its attention, or q, k and v alone."""
    return [
        row
        for row in rows
        if row.kind == "matmul"
        and row.contraction is not None
        and row.contraction.weight
        and row.name.startswith(_TARGETS[targets])
    ]


def adapted(rows: tuple[Row, ...], sizes: Sizes, targets: str = "all") -> Iterator[tuple[Row, Number, Number, Number]]:
    """Rows with an adapter: tokens, and the widths in and out of its matrices, each of which has a down projection of its own."""
    for row in lora_target_rows(rows, targets):
        c = row.contraction
        assert c is not None
        yield row, product(c.m, sizes), product(c.k, sizes) * row.parts, product(c.n, sizes)


def adapter_parameters(rows: tuple[Row, ...], sizes: Sizes, rank: Number, targets: str = "all") -> Number:
    """Adapter parameters of a layer on one device of a replica."""
    each = (fine_tuning.adapter_parameters(rank, k, n) for _, _, k, n in adapted(rows, sizes, targets))
    return sum(each, 0.0)


def adapter_ops(rows: tuple[Row, ...], sizes: Sizes, rank: Number, formats: Formats, targets: str = "all") -> list[Op]:
    """Forward kernels of the adapters of a layer."""
    ops = []
    for row, m, k, n in adapted(rows, sizes, targets):
        flops, moved = fine_tuning.adapter_flops(m, rank, k, n), fine_tuning.adapter_bytes(m, k, n, formats.activation)
        ops.append(matmul(f"{row.name}.adapter", formats.outer_compute, flops, moved, m, k, n, 1 / k))
    return ops


def dequantization_ops(rows: tuple[Row, ...], sizes: Sizes, formats: Formats) -> list[Op]:
    """Kernels that dequantize the base weights before a pass."""
    weights = sum(product(row.contraction.w, sizes) for row in lora_target_rows(rows) if row.contraction)
    moved = fine_tuning.dequantize_bytes(weights, fine_tuning.nf4_bytes(*NF4), formats.activation)
    return [Op(name="dequantize", kind="elementwise", dtype=formats.compute, flops=0.0, bytes=moved)]
