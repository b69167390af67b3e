"""Flash attention (forward) for Hopper through Pallas' Mosaic GPU backend (plgpu).

A block is three warpgroups: one streams key and value tiles through a ring of shared-memory slots with TMA, two hold 64
query rows each and take turns at the tensor cores, one multiplying while the other does its softmax (Shah et al. 2024,
FlashAttention-3, section 3.1). A block's 128 query rows equal the key tile, so only the last, diagonal tile is masked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from rooflinecli.measure.kernel_support import version

ROWS = 64  # queries of one warpgroup: the height of a wgmma
WARPGROUPS = 2
KEYS = ROWS * WARPGROUPS
_LOG2E = math.log2(math.e)
_MASKED = -1e30


@dataclass(frozen=True)
class Setup:
    """Sizes a block works with. plain: accumulate without register operands or layouts, as the interpreter needs."""

    seq: int
    keys: int
    head: int
    share: int
    slots: int
    causal: bool
    plain: bool

    @property
    def tiles(self) -> int:
        return self.seq // KEYS


def flash(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, plain: bool = False) -> jax.Array:
    """Attention of q[b, s, h, d] over k, v[b, t, kv, d] in 16-bit floats. Raises ValueError for shapes it cannot tile."""
    (b, s, h, d), (t, kv) = q.shape, k.shape[1:3]
    if s % KEYS or t % KEYS or h % kv or d not in (64, 128) or (causal and s != t):
        raise ValueError(
            f"flash needs lengths in multiples of {KEYS} (equal when causal) and heads of 64 or 128; got {q.shape}, {k.shape}"
        )
    setup = Setup(s, t, d, h // kv, min(2 if d == 128 else 4, t // KEYS), causal, plain)
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        scratch = {
            "rows": plgpu.SMEM((WARPGROUPS, ROWS, d), q.dtype, transforms=tiled),
            "weights": plgpu.SMEM((WARPGROUPS, ROWS, KEYS) if plain else (1, 8, 64), q.dtype, transforms=tiled),
            "k_slots": plgpu.SMEM((setup.slots, KEYS, d), q.dtype, transforms=tiled),
            "v_slots": plgpu.SMEM((setup.slots, KEYS, d), q.dtype, transforms=tiled),
            "q_full": plgpu.Barrier(num_barriers=WARPGROUPS),
            "turn": plgpu.Barrier(num_arrivals=WARPGROUPS),
            "k_full": plgpu.Barrier(num_barriers=setup.slots),
            "v_full": plgpu.Barrier(num_barriers=setup.slots),
            "k_empty": plgpu.Barrier(num_arrivals=WARPGROUPS, num_barriers=setup.slots),
            "v_empty": plgpu.Barrier(num_arrivals=WARPGROUPS, num_barriers=setup.slots),
        }
        pl.run_scoped(lambda **held: _block(setup, q_ref, k_ref, v_ref, o_ref, held), collective_axes="wg", **scratch)

    run = plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(h, setup.tiles, b),
        grid_names=("head", "tile", "batch"),
        num_threads=WARPGROUPS + 1,
        thread_name="wg",
        compiler_params=plgpu.CompilerParams(approx_math=True),
    )
    return run(q, k, v)


def _block(setup: Setup, q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, held: dict[str, Any]) -> None:
    """What one block does; the longest rows of a causal mask are started first."""
    group = lax.axis_index("wg")
    tile = setup.tiles - 1 - lax.axis_index("tile")
    steps = tile + 1 if setup.causal else jnp.int32(setup.keys // KEYS)

    @pl.when(group < WARPGROUPS)
    def _() -> None:
        plgpu.set_max_registers(232, action="increase")
        _attend(setup, q_ref, o_ref, group, tile, steps, held)

    @pl.when(group == WARPGROUPS)
    def _() -> None:
        plgpu.set_max_registers(40, action="decrease")
        _stream(setup, k_ref, v_ref, steps, held)


def _stream(setup: Setup, k_ref: Any, v_ref: Any, steps: Any, held: dict[str, Any]) -> None:
    """Fill the ring with key and value tiles; wait for every slot to be let go of before the block ends."""
    batch, head = lax.axis_index("batch"), lax.div(lax.axis_index("head"), jnp.int32(setup.share))

    def step(i: Any, _: None) -> None:
        slot = lax.rem(i, jnp.int32(setup.slots))
        for ref, name in ((k_ref, "k"), (v_ref, "v")):

            @pl.when(i >= setup.slots)
            def _(name: str = name) -> None:
                plgpu.barrier_wait(held[f"{name}_empty"].at[slot])

            plgpu.copy_gmem_to_smem(
                ref.at[batch, pl.ds(i * KEYS, KEYS), head],
                held[f"{name}_slots"].at[slot],
                held[f"{name}_full"].at[slot],
            )

    lax.fori_loop(0, steps, step, None)
    for back in range(setup.slots):

        @pl.when(steps > back)
        def _(back: int = back) -> None:
            slot = lax.rem(steps - 1 - back, jnp.int32(setup.slots))
            plgpu.barrier_wait(held["k_empty"].at[slot])
            plgpu.barrier_wait(held["v_empty"].at[slot])


def _attend(setup: Setup, q_ref: Any, o_ref: Any, group: Any, tile: Any, steps: Any, held: dict[str, Any]) -> None:
    """One warpgroup: 64 query rows against all key tiles they see."""
    place = (lax.axis_index("batch"), pl.ds(tile * KEYS + group * ROWS, ROWS), lax.axis_index("head"))
    rows = held["rows"].at[group]
    plgpu.copy_gmem_to_smem(q_ref.at[place], rows, held["q_full"].at[group])
    plgpu.barrier_wait(held["q_full"].at[group])
    start = (
        _as(setup, jnp.zeros((ROWS, setup.head), jnp.float32), False),
        _as(setup, jnp.full((ROWS,), _MASKED, jnp.float32), True),
        _as(setup, jnp.zeros((ROWS,), jnp.float32), True),
    )
    pl.when(group == 1)(lambda: _take_turn(held))
    whole = steps - 1 if setup.causal else steps
    state = lax.fori_loop(0, whole, lambda i, s: _step(setup, held, rows, group, i, s, False), start)
    if setup.causal:
        state = _step(setup, held, rows, group, whole, state, True)
    pl.when(group == 0)(lambda: _take_turn(held))
    out, _, total = state
    rows[...] = (out / lax.broadcast_in_dim(total, out.shape, [0])).astype(rows.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(rows, o_ref.at[place])
    plgpu.wait_smem_to_gmem(0)


def _step(setup: Setup, held: dict[str, Any], rows: Any, group: Any, i: Any, state: Any, masked: bool) -> Any:
    """One key tile: scores, softmax in base two with a running maximum, weighted values."""
    out, top, total = state
    slot = lax.rem(jnp.int32(i), jnp.int32(setup.slots))
    plgpu.barrier_wait(held["k_full"].at[slot])

    def multiply(acc_ref: Any) -> Any:
        plgpu.wgmma(acc_ref, rows, _transposed(held["k_slots"].at[slot]))
        _take_turn(held)
        return acc_ref[...]

    scores = pl.run_scoped(multiply, plgpu.ACC((ROWS, KEYS), jnp.float32)) * (setup.head**-0.5 * _LOG2E)
    plgpu.barrier_arrive(held["k_empty"].at[slot])
    if masked:
        layout = {} if setup.plain else {"layout": plgpu.Layout.WGMMA}
        iota = lax.broadcasted_iota if setup.plain else plgpu.broadcasted_iota
        query, key = (iota(jnp.int32, (ROWS, KEYS), axis, **layout) for axis in (0, 1))
        scores = jnp.where(query + group * ROWS >= key, scores, _MASKED)
    new = jnp.maximum(top, scores.max(axis=1))
    shrink = jnp.exp2(top - new)
    p = jnp.exp2(scores - lax.broadcast_in_dim(new, scores.shape, [0]))
    total = total * shrink + p.sum(axis=1)
    out = out * lax.broadcast_in_dim(shrink, out.shape, [0])
    plgpu.barrier_arrive(held["turn"])
    plgpu.barrier_wait(held["v_full"].at[slot])
    plgpu.barrier_wait(held["turn"])
    out = _accumulate(setup, held, group, slot, out, p.astype(rows.dtype))
    plgpu.barrier_arrive(held["v_empty"].at[slot])
    return out, new, total


def _accumulate(setup: Setup, held: dict[str, Any], group: Any, slot: Any, out: Any, p: Any) -> Any:
    """out + p @ v: p straight from registers, or through shared memory where the interpreter cannot."""
    values = held["v_slots"].at[slot]
    if not setup.plain:
        return pl.run_state(lambda acc_ref: plgpu.wgmma(acc_ref, p, values))(plgpu.ACC.init(out))
    weights = held["weights"].at[group]
    weights[...] = p

    def multiply(acc_ref: Any) -> Any:
        plgpu.wgmma(acc_ref, weights, values)
        return acc_ref[...]

    return out + pl.run_scoped(multiply, plgpu.ACC((ROWS, setup.head), jnp.float32))


def _transposed(ref: Any) -> Any:
    """The reference with its two axes swapped; plgpu.transpose_ref gave way to a method in jax 0.12."""
    return ref.transpose((1, 0)) if version(jax.__version__) >= (0, 12) else plgpu.transpose_ref(ref, (1, 0))


def _take_turn(held: dict[str, Any]) -> None:
    plgpu.barrier_arrive(held["turn"])
    plgpu.barrier_wait(held["turn"])


def _as(setup: Setup, x: Any, reduced: bool) -> Any:
    """Pin an array to the layout of the accumulator (or of its row reductions)."""
    if setup.plain:
        return x
    return plgpu.layout_cast(x, plgpu.Layout.WGMMA.reduce(1) if reduced else plgpu.Layout.WGMMA)
