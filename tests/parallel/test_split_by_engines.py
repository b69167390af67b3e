"""How an engine splits a model over a tensor-parallel group: cores as ranks, copied heads, a head that is held whole. All sizes by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.lift import PLAIN
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.layers.build import ledger, split
from rooflinecli.ledger.ledger import EVEN, TensorSplit
from rooflinecli.memory import device_parameters
from rooflinecli.parallel import tensor
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

NEURON, NXD = TensorSplit(ranks=2.0, copies="queries"), TensorSplit(ranks=4.0, copies="ranks")


def heads(model, tp, over):
    """Query and cached heads of a device."""
    book, plan = split(ledger(load_model(model)), over), Layout(tp=float(tp), zero=0)
    sizes = layer_sizes(book.layers[0], pass_axis_sizes(1.0, 1.0, 1.0, 1.0, plan), plan, None, PLAIN)
    return sizes["N"], sizes["K"]


@pytest.mark.parametrize(
    ("model", "chips", "queries", "cached"),
    [
        ("llama-2-7b", 12, 4, 4),  # 32 heads over 24 cores: 48, two a core; without cores 36, three a chip
        ("llama-2-13b", 16, 4, 4),  # 40 over 32 cores: 64
        ("llama-2-70b", 12, 6, 6),  # 64 over 24: 72; 8 cached heads are copied to 72
        ("llama-3-8b", 16, 2, 2),  # 32 over 32, each core with a copy of its own
        ("llama-3-8b", 8, 4, 4),  # 8 chips would divide 8 cached heads, their 16 cores do not
        ("llama-3-8b", 4, 8, 2),  # 8 cores divide 8 cached heads: nothing is copied
        ("llama-3-8b", 1, 32, 8),
    ],
)
def test_cores_are_the_ranks_of_neuron(model, chips, queries, cached):
    assert heads(model, chips, NEURON) == (queries, cached)


@pytest.mark.parametrize(
    ("model", "chips", "queries", "cached"),
    [
        ("llama-3-70b", 16, 4, 4),  # 64 ranks, a query head and one of eight copies of a cached head on each
        ("llama-3-70b", 4, 16, 4),  # 16 ranks with four query heads each, but one cached head
        ("llama-3-70b", 2, 32, 4),  # 8 ranks divide 8 cached heads
        ("llama-3-70b", 3, 24, 24),  # 12 ranks: 8 cached heads do not divide them, so 72 query heads have their own
    ],
)
def test_nxd_inference_keeps_a_cached_head_on_each_rank(model, chips, queries, cached):
    assert heads(model, chips, NXD) == (queries, cached)


def test_without_cores_heads_are_those_of_devices():
    assert heads("llama-2-7b", 12, EVEN) == (3, 3)
    assert heads("llama-2-70b", 16, EVEN) == (4, 1)


def test_copied_heads_are_weights_and_cache():
    """Llama 3 8B over 16 chips: two cores with a cached head each, where a chip alone would hold one of the eight."""
    book, plan = ledger(load_model("llama-3-8b")), Layout(tp=16.0, zero=0)
    whole, even = (device_parameters(b, plan, PLAIN).inner for b in (split(book, NEURON), book))
    shared = 2 * 4096 * 128 * (2 - 1)
    assert whole - even == 32 * shared


def test_a_whole_head_is_held_and_read_by_every_device():
    book, plan = split(ledger(load_model("llama-2-7b")), TensorSplit(replicates_lm_head=True)), Layout(tp=8.0, zero=0)
    work = pass_axis_sizes(1.0, 1.0, 1.0, 1.0, plan)
    assert stem_head_axis_sizes(book, work, plan, None, PLAIN)["V"] == 32000
    assert device_parameters(book, plan, PLAIN).outer == 2 * 32000 * 4096 + 4096


def test_gpt_fast_reads_its_head_on_every_device():
    """tp.py of gpt-fast splits blocks alone: seven eighths of 32,000 x 4,096 weights more than a split head, at 0.815 of 2.039 TB/s."""
    asked = {"model": "llama-2-7b", "hw": "a100-sxm-80", "engine": "gpt-fast", "phase": "decode", "dtype": "bf16"}
    sizes = {"n": 8, "tp": 8, "batch": 1, "prompt": 5, "output": 200}
    decode = estimate(build_request.request({**asked, **sizes})).phases["decode"]
    layers = 32 * (4 * 4096**2 + 3 * 4096 * 11008) / 8
    read = 2 * (layers + 32000 * 4096) / (0.815 * 2.039e12)
    assert decode.breakdown_s["matmul"] == pytest.approx(read, rel=0.01)


def test_a_ledger_is_split_once():
    book = ledger(load_model("llama-2-7b"))
    assert split(book, EVEN) is book
    assert split(book, NEURON) is split(book, NEURON) is not book
    asked = {"model": "llama-2-7b", "hw": "trainium1", "engine": "neuron", "phase": "decode"}
    ctx, again = EstimateContext(build_request.request(asked)), EstimateContext(build_request.request(asked))
    assert ctx.ledger.over == NEURON and ctx.ledger is again.ledger


@settings(deadline=None)
@given(
    st.sampled_from([8, 12, 32, 40, 64]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 16),
    st.sampled_from([1.0, 2.0, 4.0]),
    st.sampled_from(["queries", "ranks"]),
)
def test_no_head_is_lost_and_a_sweep_says_the_same(queries, group, tp, ranks, copies):
    cached = max(queries // group, 1)
    over = TensorSplit(ranks, copies=copies)
    one = {"N": float(queries), "K": float(cached)}
    tensor.shard(one, float(tp), ("N",), ("K",), over)
    assert one["N"] * tp >= queries and one["K"] * tp >= cached
    assert one["N"] % ranks == 0 and one["K"] <= max(one["N"], cached)
    many = {"N": float(queries), "K": float(cached)}
    tensor.shard(many, np.array([float(tp), float(tp)]), ("N",), ("K",), over)
    assert many["N"].tolist() == [one["N"]] * 2 and many["K"].tolist() == [one["K"]] * 2
