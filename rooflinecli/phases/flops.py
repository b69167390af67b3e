"""Model FLOPs of a pass over all devices, without sharding and recomputation."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.derivation import label
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import counts
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, product
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import WHOLE


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
