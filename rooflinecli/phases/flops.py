"""Model FLOPs: what the mathematics of a pass needs over all devices, sharding and recomputation aside."""

from __future__ import annotations

from rooflinecli.derivation import label
from rooflinecli.formulas import counts
from rooflinecli.layers.build import towers
from rooflinecli.ledger import Ledger, Row, Sizes, product
from rooflinecli.lift import Plain
from rooflinecli.num import Number
from rooflinecli.phases.forward import Pass
from rooflinecli.phases.sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.specs.plan import WHOLE


def ledger_flops(
    book: Ledger, forward: Pass, lift: Plain, batch: Number, queries: Number, keys: Number, logits: Number
) -> Number:
    """Sum of the FLOPs of every row, each layer as often as it repeats."""
    work = work_sizes(batch, queries, keys, logits, WHOLE)
    document = book.document
    total: Number = 0.0
    for group in book.layers:
        sizes = layer_sizes(group, work, WHOLE, document, lift)
        total = total + rows_flops(group.rows, forward, sizes) * float(group.repeat)
    total = total + rows_flops((*book.stem, *book.head), forward, outer_sizes(book, work, WHOLE, document, lift))
    if not forward.decode:
        for tower, length in towers(book):
            total = total + ledger_flops(tower, forward, lift, batch, length, length, logits)
    return total


def rows_flops(rows: tuple[Row, ...], forward: Pass, sizes: Sizes) -> Number:
    """FLOPs of matmuls and sequence mixers; what is left is bandwidth."""
    total: Number = 0.0
    for row in rows:
        c = row.contraction
        if c is not None:
            flops = counts.matmul_flops(product((*c.g, *c.m), sizes), product(c.k, sizes), product(c.n, sizes))
        elif row.mixer is not None:
            flops = row.mixer.flops(forward, sizes)
        else:
            continue
        total = total + (flops if flops.__class__ is float else label(flops, f"F[{row.name}]", "FLOP"))
    return total
