"""The backward pass, by transposing rows: y = x . W gives dx = dy . W^T and dW = x^T . dy, each with the FLOPs of the row.

Fused attention takes five matmuls where forward took two (q k^T is computed again inside the kernel; Dao 2023, section
3.1), materialised attention four. Rows that are not contractions read what they wrote and write what they read; those
that are not linear read their input again. A narrow format quantises the gradient of the output once, for both halves.
"""

from __future__ import annotations

from rooflinecli.formulas import attention
from rooflinecli.num import Number
from rooflinecli.phases.scores import SOFTMAX
from rooflinecli.work import Op

FUSED_FACTOR = 2.5
SCORES_FACTOR = 2.0
GRADIENT_BYTES = 4.0  # the weight gradient is added to an fp32 main gradient
MATMULS = ("matmul", "grouped_matmul")


def input_gradients(forward: list[Op], activation: float = 2.0, dropout: bool = False) -> list[Op]:
    """Kernels that carry the gradient back to the inputs of these forward kernels."""
    result = []
    for op in forward:
        if op.kind in MATMULS:
            result.append(_like(op, "input_gradient", 1.0, op.bytes, op.flops / (2 * op.k)))
        elif op.kind == "prefill_attention":
            result.append(_like(op, "gradient", FUSED_FACTOR, op.bytes * 2))
        elif op.kind == "scores":
            result.append(_like(op, "gradient", SCORES_FACTOR, op.bytes * 2))
        elif op.name == SOFTMAX:
            result.append(
                _like(op, "gradient", 1.0, attention.score_gradient_traffic(op.k, activation, float(dropout)))
            )
        else:
            result.append(_like(op, "gradient", 1.0, op.bytes + op.quantised * activation))
    return result


def weight_gradients(forward: list[Op], main_gradient: float = GRADIENT_BYTES) -> list[Op]:
    """Kernels that turn these forward matmuls into gradients of their weights."""
    return [
        _like(op, "weight_gradient", 1.0, op.bytes + (op.k * op.n * main_gradient if op.kind == "matmul" else 0.0), 0)
        for op in forward
        if op.kind in MATMULS
    ]


def _like(op: Op, suffix: str, factor: float, moved: Number, quantised: Number | None = None) -> Op:
    flops = op.flops if factor == 1.0 else op.flops * factor
    return Op(
        f"{op.name}.{suffix}",
        op.kind,
        op.dtype,
        flops,
        moved,
        op.count,
        op.k,
        op.n,
        op.quantised if quantised is None else quantised,
        op.ramp,
        op.items,
        op.variant,
    )
