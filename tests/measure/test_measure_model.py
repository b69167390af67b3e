"""The JAX transformer built from a model YAML: its counts equal the ledger's, its cache changes nothing, it learns."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.measure.model import compare, transformer
from rooflinecli.measure.question import ModelComparison
from rooflinecli.specs.hardware import load_hardware

SMALL = [
    ("gpt2", 2, 64, 128),
    ("llama-3.2-1b", 2, 128, 128),
    ("addition-10m", 2, None, None),
    ("qwen3-0.6b", 1, 128, 96),
    ("falcon-7b", 1, 142, 64),
    ("phi-2", 1, 160, 64),
    ("gpt-j-6b", 1, 256, 64),
    ("gemma-2b", 1, 256, 64),
    ("mixtral-8x7b", 2, 256, 64),
    ("qwen3-30b-a3b", 1, 64, 64),
]


def drawn(spec):
    """Weights of the shapes that `transformer.initial` gives, drawn by numpy: jax would compile a program per shape."""
    rng = np.random.default_rng(7)
    return jax.tree.map(
        lambda leaf: (rng.normal(0, 0.02, leaf.shape) if leaf.ndim > 1 else rng.uniform(0.9, 1.1, leaf.shape)).astype(
            "f4"
        ),
        jax.eval_shape(lambda: transformer.initial(spec, "float32")),
    )


def built(name, layers, width, vocab):
    try:
        return transformer.scaled(name, layers, width, vocab)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("which", SMALL, ids=lambda w: w[0])
def test_parameters_equal_the_ledger(which):
    spec = built(*which)
    assert transformer.count(jax.eval_shape(lambda: transformer.initial(spec, "float32"))) == compare.total_parameters(
        spec
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl", "llama-3-8b", "qwen2.5-7b", "mistral-7b-v0.1"])
def test_parameters_of_whole_models_equal_the_ledger(name):
    spec = built(name, None, None, None)
    held = jax.eval_shape(lambda: transformer.initial(spec, "bfloat16"))
    assert sum(int(np.prod(x.shape)) for x in jax.tree.leaves(held)) == compare.total_parameters(spec)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("phase", transformer.PHASES)
@pytest.mark.parametrize("which", [*SMALL[:4], *SMALL[-2:]], ids=lambda w: w[0])
def test_matmul_flops_equal_the_ledger(which, phase):
    spec = built(*which)
    held = drawn(spec)
    seq = min(24, spec.positions.length or 24)
    program = transformer.program(phase, spec, held, 3, seq, jnp.float32)
    expected = compare.predict(phase, spec, load_hardware("epyc-9654"), 3, seq, "fp32")
    assert compare.matmul_flops(program.fn, *program.args) == round(expected.flops)
    assert expected.time >= expected.floor > 0


@pytest.mark.slow
def test_xla_counts_the_matmuls_and_the_elementwise_work_on_top():
    spec = built("gpt2", 2, 64, 128)
    program = transformer.program("train", spec, drawn(spec), 2, 32, jnp.float32)
    exact = compare.matmul_flops(program.fn, *program.args)
    assert exact <= jax.jit(program.fn).lower(*program.args).cost_analysis()["flops"] <= 1.6 * exact


def test_the_oracle_counts_a_scan_as_often_as_it_runs():
    w = jnp.ones((8, 8))
    fn = lambda x: jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=5)[0]  # noqa: E731
    assert compare.matmul_flops(fn, jnp.ones((4, 8))) == 5 * 2 * 4 * 8 * 8


@pytest.mark.slow
@pytest.mark.parametrize("which", [*SMALL[:4], SMALL[-2]], ids=lambda w: w[0])
def test_decoding_with_a_cache_is_the_forward_pass(which):
    spec = built(*which)
    held, forward = drawn(spec), jax.jit(partial(transformer.forward, spec), static_argnames="keep")
    tokens = np.random.default_rng(1).integers(0, spec.vocab_size, (2, 12))
    whole, cache = forward(held, tokens, keep=True)
    roomy = [tuple(np.concatenate([x[:, :-1], 0 * x[:, -1:]], axis=1) for x in pair) for pair in cache]
    last, after = forward(held, tokens[:, -1:], cache=roomy)
    np.testing.assert_allclose(last[:, 0], whole[:, -1], rtol=2e-4, atol=2e-5)
    for pair, expected in zip(after, cache, strict=True):
        np.testing.assert_allclose(pair[0], expected[0], rtol=2e-4, atol=2e-5)


@pytest.mark.slow
def test_experts_are_the_weighted_sum_of_those_chosen():
    spec = built("qwen3-30b-a3b", 1, 64, 64)
    f = spec.layers[0].feedforward
    layer = drawn(spec)["layers"][0]
    x, expected = np.random.default_rng(2).normal(size=(9, 64)).astype("f4"), np.zeros((9, 64))
    logits = x @ layer["router"]["w"]
    for t in range(9):
        chosen = np.argsort(-logits[t])[: f.top_k]
        share = np.exp(logits[t, chosen]) / np.exp(logits[t, chosen]).sum()
        for weight, i in zip(share, chosen, strict=True):
            gate, up = np.split(x[t] @ layer["experts_up"][i], 2)
            expected[t] += weight * (gate / (1 + np.exp(-gate)) * up @ layer["experts_down"][i])
    np.testing.assert_allclose(jax.jit(partial(transformer.experts, f))(layer, x), expected, rtol=2e-4, atol=1e-7)


@pytest.mark.slow
def test_attention_is_causal():
    spec = built("gpt2", 1, 64, 64)
    forward = partial(jax.jit(partial(transformer.forward, spec)), drawn(spec))
    one, two = (forward(np.array([[1, 2, 3, last]]))[0] for last in (4, 9))
    np.testing.assert_allclose(one[:, :3], two[:, :3], rtol=1e-5, atol=1e-6)
    assert not np.allclose(one[:, 3], two[:, 3])


@pytest.mark.slow
def test_training_lowers_the_loss():
    spec = built("gpt2", 1, 64, 32)
    program = transformer.program("train", spec, drawn(spec), 2, 16, jnp.float32)
    step, args, losses = jax.jit(partial(program.fn)), program.args, []
    for _ in range(30):
        out = step(*args)
        losses.append(float(out[0]))
        args = program.carry(args, out)
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.parametrize("name", ["deepseek-v3", "vit-b-16", "gpt-oss-20b"])
def test_what_it_cannot_build_is_refused_with_a_remedy(name):
    with pytest.raises(UsageError, match="try gpt2"):
        transformer.scaled(name, None, None, None)


@pytest.mark.slow
def test_the_loop_closes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = compare.compare_model(
        ModelComparison("gpt2", hw="epyc-9654", seq=16, layers=1, d_model=64, vocab=64, budget=0.2)
    )
    assert [row["phase"] for row in answer.phases] == list(transformer.PHASES)
    assert not any("NOT EQUAL" in check for check in answer.checks) and len(answer.checks) == 5
    assert all(row["measured_s"] > 0 and row["predicted_s"] > 0 for row in answer.phases)
    assert len((tmp_path / "roofline-loop.jsonl").read_text().splitlines()) == 4


def test_a_loop_without_a_profile_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="roofline measure"):
        compare.compare_model(ModelComparison("gpt2", seq=16, layers=1, d_model=64, vocab=64))
    with pytest.raises(UsageError, match="phase"):
        compare.compare_model(ModelComparison("gpt2", hw="epyc-9654", phase=["nonsense"]))
    with pytest.raises(UsageError, match="learned positions"):
        compare.compare_model(ModelComparison("gpt2", hw="epyc-9654", seq=4096, layers=1, d_model=64, vocab=64))


def test_a_time_below_the_floor_and_a_noisy_profile_are_remarked():
    """32.5 ms measured where the floor says 34.7 is a defect of the profile, and a profile of a busy machine says how busy."""
    from types import SimpleNamespace

    from rooflinecli.measure.model.compare import below_floor, noise

    assert "32.5 ms is below the floor of 34.7 ms" in below_floor(0.0325, 0.0347)
    assert below_floor(0.0347, 0.0347) == ""
    assert (
        noise(SimpleNamespace(measured={"contended_fraction": 0.34}))
        == "34% of the profile's timings were taken on a busy machine"
    )
    assert noise(SimpleNamespace(measured={})) == "" == noise(SimpleNamespace(measured=None))


def test_matmuls_of_a_program_by_hand():
    """[m, k] . [k, n] of batched matmuls, convolutions and ragged rows, each size another."""
    from rooflinecli.measure.jaxpr_counter import CountingRules, count_operations

    def shapes(function, *sizes):
        counted = count_operations(
            jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]), CountingRules()
        )
        return [(d.m, d.k, d.n, d.g, d.flops, d.bytes) for d in counted.dots]

    batched = shapes(lambda x, w: jnp.einsum("gmk,gkn->gmn", x, w), (3, 5, 7), (3, 7, 11))
    assert batched == [(5, 7, 11, 3, 2 * 3 * 5 * 7 * 11, 4 * 3 * (5 * 7 + 7 * 11 + 5 * 11))]
    image, window = (1, 3, 10, 12), (4, 3, 2, 2)  # 4 channels of 9 x 11 positions, each a window of 3 x 2 x 2
    convolved = shapes(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"), image, window)
    assert [c[:5] for c in convolved] == [(9 * 11, 12, 4, 1, 2 * 99 * 12 * 4)]
    ragged = shapes(lambda x, w: jax.lax.ragged_dot(x, w, np.array([2, 3], np.int32)), (5, 7), (2, 7, 11))
    assert [r[:5] for r in ragged] == [(5, 7, 11, 1, 2 * 5 * 7 * 11)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("which", SMALL, ids=lambda w: w[0])
def test_every_kind_of_layer_traces(which):
    """[3, 5] tokens of an unlike width keep their places through every layer, experts among them."""
    spec = built(*which)
    held = jax.eval_shape(lambda: transformer.initial(spec, "float32"))
    program = transformer.program("prefill", spec, held, 3, 5, jnp.float32)
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(jax.eval_shape(program.fn, *program.args))[:1])
