"""Float64 references on the host: a kernel of another engine is timed only after a sample of its output agrees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rooflinecli.measure.cases import KernelCase

if TYPE_CHECKING:
    import jax

    from rooflinecli.measure.kernels.base import Arrays

Float64 = NDArray[np.float64]

SAMPLE = 16
# largest deviation over the reference's root mean square, per storage format: a few units in the last place
TOLERANCE = {"fp32": 1e-4, "tf32": 5e-3, "bf16": 4e-2, "fp16": 8e-3}


def host(x: ArrayLike) -> Float64:
    return np.asarray(x).astype(np.float64)


def matmul(x: ArrayLike, w: ArrayLike, rows: NDArray[np.intp] | slice) -> Float64:
    """Some rows of x[m, k] @ w[k, n]."""
    return host(x)[rows] @ host(w)


def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, causal: bool, batch: int, head: int, rows: NDArray[np.intp]
) -> Float64:
    """Some query rows of one head: softmax(q k^T / sqrt(d)) v."""
    share = q.shape[2] // k.shape[2]
    query, key, value = (
        host(q[batch, :, head])[rows],
        host(k[batch, :, head // share]),
        host(v[batch, :, head // share]),
    )
    scores = query @ key.T / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.arange(key.shape[0])[None, :] <= np.asarray(rows)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    out: Float64 = weights / weights.sum(axis=1, keepdims=True) @ value
    return out


def deviation(case: KernelCase, out: jax.Array, inputs: Arrays, hot: Arrays) -> float:
    """Largest error of a sample of `out` over the reference's root mean square."""
    rng = np.random.default_rng(4)
    if case.op == "matmul":
        rows = rng.integers(0, out.shape[0], SAMPLE)
        expected, got = matmul(hot[0], inputs[0], rows), host(out[rows])
    else:
        batch, head = int(rng.integers(out.shape[0])), int(rng.integers(out.shape[2]))
        rows = np.unique(np.append(rng.integers(0, out.shape[1], SAMPLE), [0, out.shape[1] - 1]))
        expected, got = (
            attention(inputs[0], inputs[1], inputs[2], case.op == "prefill", batch, head, rows),
            host(out[batch, rows, head]),
        )
    return float(np.abs(got - expected).max() / np.sqrt(np.mean(expected**2)))


def check(case: KernelCase, out: jax.Array, inputs: Arrays, hot: Arrays) -> None:
    """Raises ArithmeticError when the kernel is wrong."""
    off, allowed = deviation(case, out, inputs, hot), TOLERANCE.get(case.dtype, 4e-2)
    if not off <= allowed:
        raise ArithmeticError(
            f"its output is off by {off:.2g} of the reference's rms (at most {allowed:g} is rounding), so it was not timed"
        )
