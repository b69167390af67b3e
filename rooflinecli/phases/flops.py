"""Model FLOPs: what the mathematics of a pass needs over all devices, sharding and recomputation aside."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.derivation import label
from rooflinecli.core.lift import Plain
from rooflinecli.core.num import Number
from rooflinecli.formulas import counts
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, product
from rooflinecli.phases.axis_sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.phases.forward import Pass
from rooflinecli.specs.layout import WHOLE


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
        for tower in book.reading:
            total = total + ledger_flops(
                tower.book, _whole(forward), lift, tower.inputs(batch), tower.length, tower.length, logits
            )
    return total


def _whole(forward: Pass) -> Pass:
    """The pass of a tower: no cache holds a part of its input."""
    return forward if forward.cached is None else replace(forward, cached=None)


def predicting_flops(book: Ledger, forward: Pass, lift: Plain, batch: Number, seq: Number, depth: float) -> Number:
    """FLOPs of `depth` modules that predict further tokens (DeepSeek-V3, section 2.2): a layer as the last, the head again, and
    a projection of the token and the stream, 2 D wide, to D."""
    work, group = work_sizes(batch, seq, seq, seq, WHOLE), book.layers[-1]
    sizes = layer_sizes(group, work, WHOLE, book.document, lift)
    layer = rows_flops(group.rows, forward, sizes)
    head = rows_flops(book.head, forward, outer_sizes(book, work, WHOLE, book.document, lift))
    joined = counts.matmul_flops(product(("B", "S"), sizes), 2 * sizes["D"], sizes["D"])
    return depth * (layer + head + joined)


def rows_flops(rows: tuple[Row, ...], forward: Pass, sizes: Sizes) -> Number:
    """FLOPs of matmuls and sequence mixers; what is left is bandwidth."""
    total: Number = 0.0
    for row in rows:
        if row.kept and forward.decode:
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
