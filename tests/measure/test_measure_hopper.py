"""jax's Hopper kernels without a Hopper: lowered by Mosaic GPU, and the matmul run by Pallas' GPU interpreter, barriers and all.

Mosaic GPU imports absl (`pip install absl-py`); without it these tests are skipped. The interpreter is private to jax.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from rooflinecli.measure import cases
from rooflinecli.measure.kernels import base, xla

pytest.importorskip("absl", reason="Mosaic GPU imports absl")
SPEC = jax.ShapeDtypeStruct


def matmul_mgpu():
    """Imported where a test runs: half a second that no other worker needs."""
    return pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")


@pytest.fixture(autouse=True)
def hopper(monkeypatch):
    """What the kernels ask of the device: 132 SMs and a CUDA without the miscompilation of causal masks (12.9.1)."""
    attention_mgpu = pytest.importorskip("jax.experimental.pallas.ops.gpu.attention_mgpu")
    monkeypatch.setattr(matmul_mgpu(), "get_num_sms", lambda: 132)
    monkeypatch.setattr(
        attention_mgpu, "cuda_versions", SimpleNamespace(cuda_runtime_get_version=lambda: 12091), raising=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("band", xla.BANDS)
def test_matmul_lowers_within_shared_memory(band):
    traced = jax.jit(lambda x, w: xla.hopper_matmul(x, w, band)).trace(*(SPEC((4096, 4096), jnp.bfloat16),) * 2)
    assert "mosaic_gpu" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("head", [64, 128])
def test_attention_lowers_within_shared_memory(head, causal):
    args = (SPEC((1, 1024, 8, head), jnp.float16), *(SPEC((1, 1024, 2, head), jnp.float16),) * 2)
    traced = jax.jit(lambda q, k, v: xla.hopper_attention(q, k, v, causal)).trace(*args)
    assert "mosaic_gpu" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.slow
def test_matmul_interpreted(monkeypatch):
    """Two tiles on one block: the ring wraps and the block moves from tile to tile."""
    monkeypatch.setattr(matmul_mgpu(), "get_num_sms", lambda: 1)
    params = pytest.importorskip("jax._src.pallas.mosaic_gpu.interpret.params")
    case = cases.matmul(128, 512, 384, "bf16", engine="pallas")
    plain = base.build(cases.matmul(128, 512, 384, "bf16"))
    (w,), (x,) = plain.rotating(0), plain.hot
    with params.force_gpu_interpret_mode():
        base.check(case, xla.hopper_matmul(x, w), (w,), (x,))
