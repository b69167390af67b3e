"""What an optimizer makes of every matrix in the layers: products that orthogonalise its momentum, factors on its sides."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.lift import Plain
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import training
from rooflinecli.ledger.ledger import Ledger, product
from rooflinecli.memory.parameters import device_parameters
from rooflinecli.phases.axis_sizes import layer_sizes, work_sizes
from rooflinecli.specs.layout import WHOLE
from rooflinecli.specs.optimizer import Optimizer


def matrices(book: Ledger, lift: Plain) -> Iterator[tuple[Number, Number, Number]]:
    """Height and width of the matrices in the layers, and how many of each there are."""
    work = work_sizes(1.0, 1.0, 1.0, 1.0, WHOLE)
    for group in book.layers:
        sizes = layer_sizes(group, work, WHOLE, book.document, lift)
        for row in group.rows:
            c = row.contraction
            if c is not None and c.weight:
                copies = product(tuple(axis for axis in c.g if axis in c.w), sizes) * float(group.repeat)
                yield product(c.k, sizes), product(c.n, sizes), copies


def orthogonalised_flops(book: Ledger, steps: float, lift: Plain) -> Number:
    """FLOPs of Newton-Schulz steps over the momentum of every matrix in the layers, each once."""
    total: Number = 0.0
    for a, b, copies in matrices(book, lift):
        total = total + training.newton_schulz_flops(num.minimum(a, b), num.maximum(a, b), steps) * copies
    return total


def preconditioner_bytes(book: Ledger, optimizer: Optimizer, lift: Plain) -> Number:
    """Bytes per parameter of the model that an optimizer keeps in square factors on the sides of every matrix in the layers, in fp32."""
    total: Number = 0.0
    for a, b, copies in matrices(book, lift):
        for side, other in ((a, b), (b, a)):
            held = f.factor_bytes(side, other, optimizer.widest, optimizer.factors, float(optimizer.blocked))
            total = total + held * copies
    return total / device_parameters(book, WHOLE, lift).total


def preconditioning_flops(book: Ledger, optimizer: Optimizer, lift: Plain) -> Number:
    """FLOPs of one step over every matrix in the layers: products with their factors, and the roots or bases renewed now and then."""
    total: Number = 0.0
    for a, b, copies in matrices(book, lift):
        for side, other in ((a, b), (b, a)):
            blocked = float(optimizer.blocked)
            done = training.preconditioning_flops(
                side, other, optimizer.widest, optimizer.products, optimizer.roots, blocked
            )
            total = total + done * copies
    return total
