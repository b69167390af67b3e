"""The Hopper kernels without a Hopper: lowered by Mosaic GPU, and run by Pallas' GPU interpreter, barriers and all.

Mosaic GPU imports absl (`pip install absl-py`); without it these tests are skipped. The interpreter is private to jax.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rooflinecli.measure import cases, kernel_support
from rooflinecli.measure.kernels import reference, registry

pytest.importorskip("absl", reason="Mosaic GPU imports absl")
mosaic_matmul = pytest.importorskip("rooflinecli.measure.kernels.mosaic_matmul")
mosaic_flash = pytest.importorskip("rooflinecli.measure.kernels.mosaic_flash")
SPEC = jax.ShapeDtypeStruct


@pytest.fixture
def interpreted():
    params = pytest.importorskip("jax._src.pallas.mosaic_gpu.interpret.params")
    with params.force_gpu_interpret_mode():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("tile", mosaic_matmul.CANDIDATES, ids=str)
def test_matmul_lowers_within_shared_memory(tile):
    args = (SPEC((4096, 4096), jnp.bfloat16), SPEC((4096, 4096), jnp.bfloat16))
    lowered = (
        jax.jit(lambda x, w: mosaic_matmul.matmul(x, w, tile=tile, blocks=132))
        .trace(*args)
        .lower(lowering_platforms=("cuda",))
    )
    assert "mosaic_gpu" in lowered.as_text()


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("head", [64, 128])
def test_flash_lowers_within_shared_memory(head, causal):
    args = (SPEC((1, 1024, 8, head), jnp.bfloat16), *(SPEC((1, 1024, 2, head), jnp.bfloat16),) * 2)
    lowered = (
        jax.jit(lambda q, k, v: mosaic_flash.flash(q, k, v, causal=causal))
        .trace(*args)
        .lower(lowering_platforms=("cuda",))
    )
    assert "mosaic_gpu" in lowered.as_text()


@pytest.mark.slow
def test_matmul_interpreted(interpreted):
    """Four tiles on two blocks: the ring wraps and a block moves from tile to tile."""
    case = cases.matmul(256, 512, 256, "bf16", engine="pallas")
    base = registry.build(cases.matmul(256, 512, 256, "bf16"))
    (w,), (x,) = base.rotating(0), base.hot
    out = mosaic_matmul.matmul(x, w, tile=mosaic_matmul.Tile(slots=2), blocks=2)
    reference.check(case, out, (w,), (x,))
    np.testing.assert_allclose(np.asarray(out, np.float64), reference.matmul(x, w, slice(None)), atol=0.02 * 16)


@pytest.mark.slow
@pytest.mark.skipif(
    kernel_support.version(jax.__version__) < (0, 12), reason="the interpreter of older jax cannot transpose an operand"
)
@pytest.mark.parametrize("causal", [True, False])
def test_flash_interpreted(interpreted, causal):
    case = cases.prefill(1, 256, 2, 1, 64, "bf16", causal=causal)
    inputs = registry.build(case).rotating(0)
    reference.check(case, mosaic_flash.flash(*inputs, causal=causal, plain=True), inputs, ())


@pytest.mark.parametrize(
    ("m", "n", "k", "fits"),
    [(4096, 4096, 4096, True), (4096, 4096, 128, False), (64, 4096, 4096, False), (4096, 128, 4096, False)],
)
def test_shapes_the_default_tile_takes(m, n, k, fits):
    assert mosaic_matmul.Tile().fits(m, n, k) is fits


def test_impossible_shapes_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        mosaic_matmul.matmul(jnp.ones((64, 64), jnp.bfloat16), jnp.ones((64, 64), jnp.bfloat16))
    with pytest.raises(ValueError, match="flash needs"):
        mosaic_flash.flash(*(jnp.ones((1, 100, 2, 64), jnp.bfloat16),) * 3, causal=True)


def test_tile_order_covers_every_tile_once():
    for grid in ((8, 4), (6, 5), (1, 7)):
        places = {tuple(int(v) for v in mosaic_matmul._place(jnp.int32(i), grid, 4)) for i in range(grid[0] * grid[1])}
        assert places == {(r, c) for r in range(grid[0]) for c in range(grid[1])}
