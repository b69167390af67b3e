"""A kernel that can be timed: a function, its rotating inputs, a buffer that its output reuses; and the builder of each case's.

A kernel of an engine other than XLA is timed only after a sample of its output agrees with a float64 reference on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rooflinecli.measure.cases import KernelCase, jax_name

if TYPE_CHECKING:
    import jax


MOST_SETS = 64
MOST_BYTES = 2 * 2**30  # of rotating inputs, on a CPU; a tenth of device memory where that is more


Arrays = tuple[jax.Array, ...]
Function = Callable[..., jax.Array | Arrays]


@dataclass(frozen=True)
class Kernel:
    """fn(*rotating, *hot) -> array. `rotating(i)` makes the i-th random set of inputs that stream from memory;
    `hot` are inputs a real program would find in cache. `reuse`: donate the last output as the next one's buffer."""

    fn: Function
    rotating: Callable[[int], Arrays]
    hot: Arrays = ()
    reuse: bool = True
    options: tuple[Function, ...] = ()  # alternatives, such as other tiles; the quickest is timed in full


def replaced(base: Kernel, *options: Function) -> Kernel:
    """The same inputs computed by other functions. Raises NotImplementedError when there is none."""
    if not options:
        raise NotImplementedError("no tile of this kernel fits the shape")
    return replace(base, fn=options[0], options=options)


def sets_needed(set_bytes: float, llc: int, memory: int) -> int:
    """Number of input sets to rotate so that none is still in the last-level cache when it is used again."""
    wanted = math.ceil(2.5 * llc / max(set_bytes, 1)) + 1
    allowed = max(2, int(min(0.3 * memory, max(MOST_BYTES, 0.1 * memory)) / max(set_bytes, 1)))
    return max(2, min(wanted, allowed, MOST_SETS))


@lru_cache(maxsize=1)
def _pool() -> NDArray[np.float32]:
    """A few million random normals: host inputs are windows of it, because drawing every input took longer than timing it."""
    return np.random.default_rng(20).standard_normal(2**22 + 3, dtype=np.float32)


def normal(seed: int, shape: tuple[int, ...], dtype: str, scale: float = 1.0) -> jax.Array:
    """Random normal data: zeros would flatter both the clock of a GPU and the multipliers of a CPU."""
    name = jax_name(dtype)
    if jax.default_backend() == "cpu":
        count = math.prod(shape)
        start = seed * 7919 % 2**20
        flat = np.resize(_pool()[start:], count) if count > 2**21 else _pool()[start : start + count]
        flat = flat * 40 if name == "int8" else flat * np.float32(scale)
        return jnp.asarray(flat.reshape(shape)).astype(name)
    key = jax.random.key(seed)
    if name == "int8":
        return jax.random.randint(key, shape, -64, 64, dtype=jnp.int8)
    wide = jnp.float32 if name.startswith("float8") else jnp.dtype(name)
    return (jax.random.normal(key, shape, dtype=wide) * scale).astype(name)


def compiled(kernel: Kernel, first: Arrays, chain: int = 1) -> tuple[jax.stages.Wrapped, jax.Array | Arrays]:
    """The jitted function `f(sets, hot, buffer) -> output` and its first buffer; `sets` holds `chain` input sets.

    With chain > 1 the copies run one after another inside one call (each waits for the one before through an
    optimization barrier), so a short kernel on an accelerator is timed without the host's dispatch between copies.
    """

    def call(sets: tuple[Arrays, ...], hot: Arrays, buffer: jax.Array | Arrays) -> jax.Array | Arrays:
        del buffer  # donated: XLA writes the output over it instead of touching fresh pages
        out = kernel.fn(*sets[0], *hot)
        for more in sets[1:]:
            more, out = jax.lax.optimization_barrier((more, out))
            out = kernel.fn(*more, *hot)
        return out

    shape = jax.eval_shape(kernel.fn, *first, *kernel.hot)
    buffer = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), shape) if kernel.reuse else jnp.zeros(())
    donate = (2,) if kernel.reuse else ()
    return jax.jit(call, donate_argnums=donate, keep_unused=True), buffer


def build(case: KernelCase) -> Kernel:
    """The kernel of a case, by the module that its engine is in."""
    module = "collective" if case.suite == "collectives" else "xla"
    kernel: Kernel = import_module(f"rooflinecli.measure.kernels.{module}").build(case)
    return kernel


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
