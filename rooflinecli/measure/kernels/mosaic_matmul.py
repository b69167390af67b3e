"""Tiled matmul for Hopper through Pallas' Mosaic GPU backend (plgpu).

A persistent grid of one block per SM walks output tiles in a snake so that neighbors share operands in L2. Each block
is three warpgroups: one streams operand tiles into a ring of shared-memory slots with TMA, two multiply them with wgmma,
side by side along n. The result leaves through shared memory patch by patch, so that the copy out of one
overlaps the next. Written after NVIDIA's CUTLASS warp-specialized persistent design and the Pallas Mosaic GPU guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

WARPGROUPS = 2  # that compute


@dataclass(frozen=True)
class Tile:
    """Rows, columns of one warpgroup and depth of a step; ring slots; tiles per L2 band; side of an output patch."""

    m: int = 128
    n: int = 128
    k: int = 64
    slots: int = 4
    band: int = 8
    patch: int = 64

    def fits(self, m: int, n: int, k: int) -> bool:
        return m % self.m == 0 and n % (WARPGROUPS * self.n) == 0 and k % self.k == 0 and k // self.k >= self.slots


CANDIDATES = (Tile(), Tile(band=16), Tile(m=128, n=64, slots=6), Tile(m=64, n=128, slots=4))


def _layout(width: int, dtype: Any) -> tuple[Any, ...]:
    """The shared-memory layout wgmma and TMA agree on: rows of one swizzle span, eight by eight."""
    swizzle = min(128, width * jnp.dtype(dtype).itemsize)
    return plgpu.TilingTransform((8, swizzle // jnp.dtype(dtype).itemsize)), plgpu.SwizzleTransform(swizzle)


def matmul(x: jax.Array, w: jax.Array, *, tile: Tile = Tile(), blocks: int | None = None) -> jax.Array:
    """x[m, k] @ w[k, n] in 16-bit floats. `blocks`: SMs to fill. Raises ValueError when the tile does not fit."""
    (m, k), n = x.shape, w.shape[1]
    if not tile.fits(m, n, k):
        raise ValueError(f"{tile} does not fit m, n, k = {(m, n, k)}")
    grid = (m // tile.m, n // (WARPGROUPS * tile.n))
    count = min(blocks or _sms(), grid[0] * grid[1])

    def kernel(x_ref: Any, w_ref: Any, o_ref: Any) -> None:
        scratch = {
            "x_slots": plgpu.SMEM((tile.slots, tile.m, tile.k), x.dtype, transforms=_layout(tile.k, x.dtype)),
            "w_slots": plgpu.SMEM((tile.slots, tile.k, WARPGROUPS * tile.n), w.dtype, transforms=_layout(64, w.dtype)),
            "out": plgpu.SMEM(
                (WARPGROUPS, 2, tile.patch, tile.patch), x.dtype, transforms=_layout(tile.patch, x.dtype)
            ),
            "full": plgpu.Barrier(num_arrivals=2, num_barriers=tile.slots),
            "empty": plgpu.Barrier(num_arrivals=WARPGROUPS, num_barriers=tile.slots),
        }
        pl.run_scoped(
            lambda **held: _block(x_ref, w_ref, o_ref, tile, grid, count, k // tile.k, **held),
            collective_axes="wg",
            **scratch,
        )

    run = plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(count,),
        grid_names=("block",),
        num_threads=WARPGROUPS + 1,
        thread_name="wg",
        compiler_params=plgpu.CompilerParams(approx_math=True),
    )
    return run(x, w)


def _sms() -> int:
    from jax.extend import backend

    return int(getattr(backend.get_default_device(), "core_count", 0) or 132)


def _place(index: Any, grid: tuple[int, int], band: int) -> tuple[Any, Any]:
    """The output tile of a linear index: bands of `band` tile rows, column by column inside a band."""
    rows, columns = grid
    height = max(h for h in range(1, min(band, rows) + 1) if rows % h == 0)
    inside = lax.rem(index, jnp.int32(height * columns))
    top = lax.div(index, jnp.int32(height * columns)) * height
    return top + lax.rem(inside, jnp.int32(height)), lax.div(inside, jnp.int32(height))


def _block(
    x_ref: Any,
    w_ref: Any,
    o_ref: Any,
    tile: Tile,
    grid: tuple[int, int],
    count: int,
    steps: int,
    *,
    x_slots: Any,
    w_slots: Any,
    out: Any,
    full: Any,
    empty: Any,
) -> None:
    """What one block does: its warpgroups meet at the ring's barriers."""
    group = lax.axis_index("wg")
    block = lax.axis_index("block")
    total = grid[0] * grid[1]
    mine = lax.div(total - block + count - 1, jnp.int32(count))

    @pl.when(group < WARPGROUPS)
    def _() -> None:
        plgpu.set_max_registers(232, action="increase")
        lax.fori_loop(
            0,
            mine,
            lambda i, _: _compute(
                o_ref,
                tile,
                _place(block + i * count, grid, tile.band),
                i * steps,
                steps,
                group,
                x_slots,
                w_slots,
                out,
                full,
                empty,
            ),
            None,
        )
        plgpu.wait_smem_to_gmem(0)

    @pl.when(group == WARPGROUPS)
    def _() -> None:
        plgpu.set_max_registers(40, action="decrease")
        lax.fori_loop(
            0,
            mine * steps,
            lambda s, _: _load(x_ref, w_ref, tile, grid, block, count, steps, s, x_slots, w_slots, full, empty),
            None,
        )
        for back in range(
            tile.slots
        ):  # every barrier is waited for as often as it completes: none is left pending at the end
            plgpu.barrier_wait(empty.at[lax.rem(mine * steps + back, jnp.int32(tile.slots))])


def _load(
    x_ref: Any,
    w_ref: Any,
    tile: Tile,
    grid: tuple[int, int],
    block: Any,
    count: int,
    steps: int,
    step: Any,
    x_slots: Any,
    w_slots: Any,
    full: Any,
    empty: Any,
) -> None:
    """Stream the step's operand tiles into its ring slot, once both warpgroups have let go of it."""
    slot = lax.rem(step, jnp.int32(tile.slots))
    row, column = _place(block + lax.div(step, jnp.int32(steps)) * count, grid, tile.band)
    depth = lax.rem(step, jnp.int32(steps)) * tile.k

    @pl.when(step >= tile.slots)
    def _() -> None:
        plgpu.barrier_wait(empty.at[slot])

    wide = WARPGROUPS * tile.n
    plgpu.copy_gmem_to_smem(
        x_ref.at[pl.ds(row * tile.m, tile.m), pl.ds(depth, tile.k)], x_slots.at[slot], full.at[slot]
    )
    plgpu.copy_gmem_to_smem(w_ref.at[pl.ds(depth, tile.k), pl.ds(column * wide, wide)], w_slots.at[slot], full.at[slot])


def _compute(
    o_ref: Any,
    tile: Tile,
    place: tuple[Any, Any],
    first: Any,
    steps: int,
    group: Any,
    x_slots: Any,
    w_slots: Any,
    out: Any,
    full: Any,
    empty: Any,
) -> None:
    """Accumulate one output tile's half in registers, then send it out patch by patch."""
    columns = pl.ds(group * tile.n, tile.n)

    def accumulate(acc_ref: Any) -> Any:
        def step(i: Any, carry: None) -> None:
            slot = lax.rem(first + i, jnp.int32(tile.slots))
            plgpu.barrier_wait(full.at[slot])
            plgpu.wgmma(acc_ref, x_slots.at[slot], w_slots.at[slot, :, columns])
            plgpu.wgmma_wait(1)

            @pl.when(i > 0)  # all but the newest wgmma are done: the slot before may be filled again
            def release() -> None:
                plgpu.barrier_arrive(empty.at[lax.rem(first + i - 1, jnp.int32(tile.slots))])

        lax.fori_loop(0, steps, step, None)
        plgpu.wgmma_wait(0)
        plgpu.barrier_arrive(empty.at[lax.rem(first + steps - 1, jnp.int32(tile.slots))])
        return acc_ref[...]

    result = pl.run_scoped(accumulate, plgpu.ACC((tile.m, tile.n), jnp.float32)).astype(o_ref.dtype)
    row, column = place
    top, left = row * tile.m, (column * WARPGROUPS + group) * tile.n
    patches = [(i, j) for i in range(0, tile.m, tile.patch) for j in range(0, tile.n, tile.patch)]
    for turn, (i, j) in enumerate(patches):
        held = out.at[group, turn % 2]
        plgpu.wait_smem_to_gmem(1, wait_read_only=True)
        held[...] = result[i : i + tile.patch, j : j + tile.patch]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(held, o_ref.at[pl.ds(top + i, tile.patch), pl.ds(left + j, tile.patch)])
