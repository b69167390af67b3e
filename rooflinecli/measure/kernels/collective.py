"""Collectives with shard_map over all devices, local or of several hosts: one axis, every device on it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from rooflinecli.measure.cases import KernelCase, jax_name
from rooflinecli.measure.kernels.base import Arrays, Function, Kernel

AXIS = "x"


def _permute(x: jax.Array) -> jax.Array:
    n = jax.lax.axis_size(AXIS)
    return jax.lax.ppermute(x, AXIS, [(i, (i + 1) % n) for i in range(n)])


# op -> (function of a device's block, whether its input and its output are sharded over the axis)
OPS: dict[str, tuple[Callable[[jax.Array], jax.Array], bool, bool]] = {
    "all-reduce": (lambda x: jax.lax.psum(x, AXIS), False, False), "all-gather": (lambda x: jax.lax.all_gather(x, AXIS, tiled=True), True, False),
    "reduce-scatter": (lambda x: jax.lax.psum_scatter(x, AXIS, tiled=True), False, True),
    "all-to-all": (lambda x: jax.lax.all_to_all(x, AXIS, 0, 0, tiled=True), False, False), "permute": (_permute, False, False),
}  # fmt: skip


def collective(op: str, mesh: Mesh) -> Function:
    """The collective as a function of a global array [n, ...] whose first axis is one block per device.

    Every device holds its own block, so the result differs per device too and XLA cannot drop the communication.
    """
    fn, _, _ = OPS[op]
    return jax.shard_map(lambda x: fn(x[0])[None], mesh=mesh, in_specs=(P(AXIS),), out_specs=P(AXIS), check_vma=False)


def build(case: KernelCase) -> Kernel:
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    n, name = len(jax.devices()), jax_name(case.dtype)
    # The whole tensor is `bytes`: a device starts with a shard of it for all-gather, with all of it otherwise.
    elements = max(n, case.sizes["bytes"] // jnp.dtype(name).itemsize // n * n)
    width = elements // n if OPS[case.op][1] else elements
    sharding = NamedSharding(mesh, P(AXIS))

    def make(i: int) -> Arrays:
        def block(index: tuple[slice, ...] | None) -> NDArray[np.float32]:
            seed = 1000 * i + (index[0].start or 0 if index else 0)
            return np.random.default_rng(seed).standard_normal((1, width), dtype=np.float32).astype(jnp.dtype(name))

        return (jax.make_array_from_callback((n, width), sharding, block),)

    return Kernel(collective(case.op, mesh), make, reuse=False)
