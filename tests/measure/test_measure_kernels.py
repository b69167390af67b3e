"""Every kernel against a float64 reference; jax's Pallas kernels interpreted here and lowered for TPU."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from rooflinecli.measure import cases, timing
from rooflinecli.measure.kernels import base, xla

F64 = np.float64


def ready(case):
    kernel = base.build(case)
    return kernel, kernel.rotating(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        cases.matmul(48, 64, 96, "fp32"),
        cases.matmul(48, 64, 96, "bf16"),
        cases.prefill(2, 64, 4, 2, 32, "fp32"),
        cases.prefill(1, 64, 4, 4, 32, "bf16"),
        cases.prefill(1, 64, 4, 4, 32, "fp32", causal=False),
    ],
    ids=lambda c: c.key,
)
def test_xla_kernels_agree_with_float64(case):
    kernel, inputs = ready(case)
    base.check(case, kernel.fn(*inputs, *kernel.hot), inputs, kernel.hot)


@pytest.mark.slow
def test_decode_agrees_with_float64():
    case = cases.decode(2, 96, 4, 2, 32, "fp32")
    kernel, (k, v) = ready(case)
    (q,) = kernel.hot
    out = np.asarray(kernel.fn(k, v, q))
    expected = base.attention(q, k, v, False, 1, 3, [0])
    np.testing.assert_allclose(out[1, :, 3], expected, rtol=1e-4, atol=1e-5)


def test_ragged_rows_meet_their_own_weights():
    kernel, (w,) = ready(cases.grouped(32, 16, 24, 4, "fp32"))
    (x,) = kernel.hot
    out, start = np.asarray(kernel.fn(w, x)), 0
    sizes = xla.tokens_per_expert(32, 4)
    assert sum(sizes) == 32 and min(sizes) >= 1 and len(set(sizes)) > 1
    for group, rows in enumerate(sizes):
        np.testing.assert_allclose(
            out[start : start + rows],
            np.asarray(x, F64)[start : start + rows] @ np.asarray(w, F64)[group],
            rtol=1e-4,
            atol=1e-5,
        )
        start += rows


@pytest.mark.slow
def test_training_kernel_returns_output_and_both_gradients():
    kernel, (w,) = ready(cases.matmul_training(8, 16, 24, "fp32"))
    x, dy = kernel.hot
    y, dx, dw = kernel.fn(w, x, dy)
    np.testing.assert_allclose(dx, np.asarray(dy, F64) @ np.asarray(w, F64).T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dw, np.asarray(x, F64).T @ np.asarray(dy, F64), rtol=1e-4, atol=1e-4)
    assert y.shape == (8, 16)


@pytest.mark.slow
def test_adamw_takes_one_step():
    p, m, v = xla.adamw(jnp.float32(1.0), jnp.float32(2.0), jnp.float32(0.0), jnp.float32(0.0))
    assert (float(m), float(v)) == pytest.approx((0.2, 0.2))
    assert float(p) == pytest.approx(1.0 - 3e-4 * (0.2 / 0.2**0.5 + 0.1), rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", sorted(xla.ELEMENTWISE))
def test_streams_run(op):
    kernel, inputs = ready(cases.streamed("elementwise", op, "elementwise", "fp32", {"rows": 4, "width": 1024}, 1))
    assert np.isfinite(np.asarray(kernel.fn(*inputs))).all()


@pytest.mark.slow
def test_inputs_differ_from_set_to_set_and_are_not_constant():
    kernel = base.build(cases.matmul(4, 64, 64, "fp32"))
    (one,), (two,) = kernel.rotating(0), kernel.rotating(1)
    assert float(jnp.std(one)) > 0 and not jnp.array_equal(one, two)


def test_sets_go_past_the_cache_but_not_past_memory():
    assert base.sets_needed(2**20, 32 * 2**20, 2**36) == base.MOST_SETS
    assert base.sets_needed(16 * 2**20, 32 * 2**20, 2**36) * 16 * 2**20 > 2 * 32 * 2**20
    assert base.sets_needed(2**30, 2**40, 8 * 2**30) == 2


def test_a_chain_runs_the_kernel_on_every_set():
    kernel, first = ready(cases.matmul(8, 16, 16, "fp32"))
    function, buffer = base.compiled(kernel, first, 3)
    sets = tuple(kernel.rotating(i) for i in range(3))
    text = function.lower(sets, kernel.hot, buffer).as_text()
    assert text.count("dot_general") == 3 and text.count("optimization_barrier") >= 2
    np.testing.assert_allclose(
        function(sets, kernel.hot, buffer), np.asarray(kernel.hot[0]) @ np.asarray(sets[2][0]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
def test_pallas_matmul_interpreted(monkeypatch):
    monkeypatch.setattr(xla, "TPU_BLOCK", (128, 128))
    case = cases.matmul(128, 256, 512, "fp32", engine="pallas")
    base_kernel, (w,) = ready(replace(case, engine="xla"))
    (x,) = base_kernel.hot
    monkeypatch.setitem(xla._BUILDERS, "matmul", lambda case: base_kernel)
    monkeypatch.setattr(xla.jax, "default_backend", lambda: "tpu")
    with pltpu.force_tpu_interpret_mode():
        base.check(case, base.build(case).fn(w, x), (w,), (x,))


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "kv", "causal"), [(2, 2, False), (4, 2, True)])
def test_pallas_attention_interpreted(heads, kv, causal):
    case = cases.prefill(1, 128, heads, kv, 64, "fp32", engine="pallas", causal=causal)
    inputs = base.build(replace(case, engine="xla")).rotating(0)
    with pltpu.force_tpu_interpret_mode():
        base.check(case, xla.tpu_attention(*inputs, causal), inputs, ())


@pytest.mark.slow
def test_a_wrong_kernel_is_not_timed():
    case = cases.matmul(32, 32, 32, "fp32")
    kernel, inputs = ready(case)
    wrong = base.replaced(kernel, lambda w, x: 1.01 * (x @ w))
    with pytest.raises(ArithmeticError, match="not timed"):
        timing._checked(case, wrong, [inputs], timing.Protocol())
    right = base.replaced(kernel, lambda w, x: 1.01 * (x @ w), lambda w, x: x @ w)
    assert timing._checked(case, right, [inputs], timing.Protocol(budget=0.01)).fn is right.options[1]


@pytest.mark.slow
def test_pallas_kernels_lower_for_tpu(monkeypatch):
    monkeypatch.setattr(xla.jax, "default_backend", lambda: "tpu")
    spec = jax.ShapeDtypeStruct
    matmul = base.build(cases.matmul(256, 256, 256, "bf16", engine="pallas")).fn
    for fn, args in (
        (matmul, (spec((1024, 1024), jnp.bfloat16),) * 2),
        (
            lambda q, k, v: xla.tpu_attention(q, k, v, True),
            (spec((1, 1024, 8, 128), jnp.bfloat16), *(spec((1, 1024, 2, 128), jnp.bfloat16),) * 2),
        ),
    ):
        assert "tpu_custom_call" in jax.jit(fn).trace(*args).lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize("name", sorted(xla.ELEMENTWISE))
def test_a_function_of_rows_takes_the_operands_that_its_row_says(name):
    """A number of operands is bytes that a fit divides by."""
    function, operands = xla.ELEMENTWISE[name]
    rows = jax.ShapeDtypeStruct((8, 1024), jnp.float32)
    jax.eval_shape(function, *[rows] * operands)
    with pytest.raises((TypeError, ValueError)):
        jax.eval_shape(function, *[rows] * (operands + 1))
