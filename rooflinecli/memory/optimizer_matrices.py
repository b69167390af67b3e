"""Optimizers that work on whole matrices: orthogonalized momentum (Muon), factors on the sides of a matrix (Shampoo, SOAP)."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import training
from rooflinecli.ledger.ledger import Ledger, product
from rooflinecli.memory.parameters import device_parameters
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.specs.layout import WHOLE
from rooflinecli.specs.optimizer import Optimizer


def matrices(ledger: Ledger, lift: PlainLift) -> Iterator[tuple[Number, Number, Number]]:
    """Height and width of the matrices in the layers, and how many of each there are."""
    work = pass_axis_sizes(1.0, 1.0, 1.0, 1.0, WHOLE)
    for group in ledger.layers:
        sizes = layer_sizes(group, work, WHOLE, ledger.document, lift)
        for row in group.rows:
            c = row.contraction
            if c is not None and c.weight:
                copies = product(tuple(axis for axis in c.g if axis in c.w), sizes) * float(group.repeat)
                yield product(c.k, sizes), product(c.n, sizes), copies


def orthogonalization_flops(ledger: Ledger, steps: float, lift: PlainLift) -> Number:
    """FLOPs of Newton-Schulz steps over the momentum of every matrix in the layers, each once."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        total = total + training.newton_schulz_flops(num.minimum(a, b), num.maximum(a, b), steps) * copies
    return total


def preconditioner_bytes(ledger: Ledger, optimizer: Optimizer, lift: PlainLift) -> Number:
    """Bytes per parameter of the model that an optimizer keeps in square factors on the sides of every matrix in the layers, in fp32."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        for side, other in ((a, b), (b, a)):
            size = f.factor_bytes(side, other, optimizer.widest, optimizer.factors, float(optimizer.blocked))
            total = total + size * copies
    return total / device_parameters(ledger, WHOLE, lift).total


def preconditioning_flops(ledger: Ledger, optimizer: Optimizer, lift: PlainLift) -> Number:
    """FLOPs of one step over every matrix in the layers: products with their factors, and the roots or bases renewed now and then."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        for side, other in ((a, b), (b, a)):
            blocked = float(optimizer.blocked)
            flops = training.preconditioning_flops(
                side, other, optimizer.widest, optimizer.products, optimizer.roots, blocked
            )
            total = total + flops * copies
    return total
