"""Rows -> kernels of a forward pass: prefill (and training) over S tokens, or one decode step over a context of T; and model FLOPs
of a pass over all devices, without sharding and recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rooflinecli.core.derivation import label
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import counts
from rooflinecli.ledger.ledger import Contraction, Ledger, Row, Sizes, elements, product
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.ledger.ops import Op, matmul
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.specs.layout import WHOLE


class ForwardPass(CountingMode):
    """A forward pass counted in one mode."""

    __slots__ = ()

    def ops(self, rows: Iterable[Row], sizes: Sizes, outer: bool = False) -> list[Op]:
        """The kernels of these rows: one for each that does work, and as many as a mixer takes."""
        result = []
        for row in rows:
            if row.is_saved and self.decode:
                continue
            if row.contraction is not None:
                count = self._experts if row.kind == "grouped_matmul" else self._outer if outer else self._matmul
                result.append(count(row, row.contraction, sizes))
            elif row.mixer is not None:
                result += row.mixer.ops(row.name, self, sizes)
            elif row.reads or row.writes:
                result.append(self._elementwise(row, sizes))
        return result

    def _matmul(self, row: Row, c: Contraction, sizes: Sizes) -> Op:
        f = self.formats
        return _dense(row, c, sizes, f.compute, (f.matmul_input, f.weight, f.activation), f.variant)

    def _outer(self, row: Row, c: Contraction, sizes: Sizes) -> Op:
        """Before and after the layers, where formats stay wide."""
        f = self.formats
        width = f.head_weight or f.outer_weight
        return _dense(row, c, sizes, f.outer_compute, (f.activation, width, f.activation), "")

    def _experts(self, row: Row, c: Contraction, sizes: Sizes) -> Op:
        """The experts held here, of which a small batch reaches some."""
        f, held = self.formats, sizes["X"]
        tokens, k, n = held * product(c.m, sizes), product(c.k, sizes), product(c.n, sizes)
        active = counts.active_experts(sizes["E"], sizes["top_k"], sizes["B"] * sizes["S"] * sizes["E"] / held) * (
            held / sizes["E"]
        )
        flops = counts.matmul_flops(tokens, k, n)
        weights = counts.bytes_of(active * k * n, f.expert_weight)
        return Op(
            name=row.name, kind="grouped_matmul", dtype=f.expert_compute or f.compute,
            flops=flops if self.imbalance is None else flops * self.imbalance,
            bytes=counts.matmul_bytes(tokens, k, n, f.matmul_input, 0, f.activation) + weights, k=k, n=sizes["Fe"], quantized=tokens * k,
            ramp=active / tokens, variant=f.variant,
        )  # fmt: skip

    def _elementwise(self, row: Row, sizes: Sizes) -> Op:
        read = elements(row.reads, sizes)
        moved = counts.bytes_of(read + elements(row.writes, sizes), self.formats.activation)
        if self.dropout and row.masks:
            moved = moved + elements(row.masks, sizes)
        return Op(
            name=row.name, kind=row.kind, dtype=self.formats.compute, flops=0.0, bytes=moved, quantized=0.0 if row.linear else read,
            variant="qk_norm" if row.name.endswith("qk_norm") else "",
        )  # fmt: skip


def _dense(row: Row, c: Contraction, sizes: Sizes, dtype: str, element: tuple[float, float, float], variant: str) -> Op:
    """A matmul; `element` holds the bytes of an element of its input, weight and result."""
    m, k, n = product(c.m, sizes), product(c.k, sizes), product(c.n, sizes)
    copies = product(c.g, sizes) if c.g else None  # block-diagonal: independent matmuls in one kernel
    flops, moved = counts.matmul_flops(m, k, n), counts.matmul_bytes(m, k, n, *element)
    if copies is not None:
        flops, moved = flops * copies, moved * copies
    return matmul(row.name, dtype, flops, moved, m, k, n, 1 / k, variant)


def ledger_flops(
    ledger: Ledger, forward: ForwardPass, lift: PlainLift, batch: Number, queries: Number, keys: Number, logits: Number
) -> Number:
    """Sum of the FLOPs of every row, each layer as often as it repeats."""
    work = pass_axis_sizes(batch, queries, keys, logits, WHOLE)
    document = ledger.document
    total: Number = 0.0
    for group in ledger.layers:
        sizes = layer_sizes(group, work, WHOLE, document, lift)
        total = total + rows_flops(group.rows, forward, sizes) * float(group.repeat)
    total = total + rows_flops(
        (*ledger.stem, *ledger.head_rows(logits)), forward, stem_head_axis_sizes(ledger, work, WHOLE, document, lift)
    )
    if not forward.decode:
        for tower in ledger.reading:
            uncached = forward if forward.cached is None else replace(forward, cached=None)
            length = tower.length
            total = total + ledger_flops(tower.ledger, uncached, lift, tower.inputs(batch), length, length, logits)
    return total


def predicting_flops(
    ledger: Ledger, forward: ForwardPass, lift: PlainLift, batch: Number, seq: Number, depth: float
) -> Number:
    """FLOPs of `depth` MTP modules (DeepSeek-V3, section 2.2): the ledger's mtp_block, the head again, and
    a projection of the token and the stream, 2 D wide, to D."""
    work, layer = pass_axis_sizes(batch, seq, seq, seq, WHOLE), 0.0
    for group in ledger.mtp_block:
        sizes = layer_sizes(group, work, WHOLE, ledger.document, lift)
        layer = layer + rows_flops(group.rows, forward, sizes)
    head = rows_flops(ledger.head, forward, stem_head_axis_sizes(ledger, work, WHOLE, ledger.document, lift))
    joined = counts.matmul_flops(product(("B", "S"), sizes), 2 * sizes["D"], sizes["D"])
    return depth * (layer + head + joined)


def rows_flops(rows: tuple[Row, ...], forward: ForwardPass, sizes: Sizes) -> Number:
    """FLOPs of matmuls and sequence mixers; what is left is bandwidth."""
    total: Number = 0.0
    for row in rows:
        if row.is_saved and forward.decode:
            continue
        c = row.contraction
        if c is not None:
            flops = counts.matmul_flops(product((*c.g, *c.m), sizes), product(c.k, sizes), product(c.n, sizes))
        elif row.mixer is not None:
            flops = row.mixer.flops(forward, sizes)
        else:
            continue
        total = total + (flops if flops.__class__ is float else label(flops, f"F[{row.name}]", "FLOP"))
    return total
