"""The backward pass, by transposing rows: y = x . W gives dx = dy . W^T and dW = x^T . dy, each with the FLOPs of the row.

A sequence mixer says itself what its gradient costs. Other rows that are not contractions read what they wrote and write
what they read; those that are not linear read their input again. A narrow format quantizes the gradient of the output
once, for both halves.
"""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.ledger.ops import GROUPS, Op

GRADIENT_BYTES = 4.0  # the weight gradient is added to an fp32 main gradient
MATMULS = ("matmul", "grouped_matmul")


def input_gradients(forward: list[Op], activation: float = 2.0) -> list[Op]:
    """Kernels that carry the gradient back to the inputs of these forward kernels."""
    return [_input_gradient(op, activation) for op in forward]


def _input_gradient(op: Op, activation: float) -> Op:
    if op.kind in MATMULS:
        return _backward_op(op, "input_gradient", op.flops, op.bytes, op.flops / (2 * op.k))
    if op.gradient is not None:
        flops = op.flops if op.gradient.flops == 1.0 else op.flops * op.gradient.flops
        return _backward_op(op, "gradient", flops, op.gradient.bytes, op.quantized)
    if op.kind not in GROUPS:
        raise TypeError(f"{op.name}: a kernel of class {op.kind} says nothing of its gradient")
    return _backward_op(op, "gradient", op.flops, op.bytes + op.quantized * activation, op.quantized)


def weight_gradients(
    forward: list[Op], main_gradient: float = GRADIENT_BYTES, imbalance: Number | None = None
) -> list[Op]:
    """Kernels that turn these forward matmuls into gradients of their weights; `imbalance`: rows of the busiest device's experts
    over the mean, which their FLOPs count and their weights do not."""
    return [
        _backward_op(op, "weight_gradient", op.flops, op.bytes + _weights(op, imbalance) * main_gradient, quantized=0)
        for op in forward
        if op.kind in MATMULS
    ]


def _weights(op: Op, imbalance: Number | None) -> Number:
    """Weights that a matmul reads: of the experts that tokens reach, where it is a grouped one (its ramp is experts per token)."""
    if op.kind == "matmul":
        return op.k * op.n
    flops = op.flops if imbalance is None else op.flops / imbalance
    return flops * op.ramp / 2


def _backward_op(op: Op, suffix: str, flops: Number, moved: Number, quantized: Number) -> Op:
    """A kernel of the same class and sizes."""
    costs = {"flops": flops, "bytes": moved, "quantized": quantized}
    return op._replace(name=f"{op.name}.{suffix}", **costs, backward=True)
