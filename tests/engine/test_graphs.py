"""Decode steps padded to the batch of a captured graph: what they cost, and when nothing is padded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.formulas import closed_loop
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.validate import inference as served

ASKED = {"model": "llama-3.1-8b", "hw": "h100", "engine": "trtllm", "dtype": "fp8", "prompt": 1000, "output": 1000}
ONE = Layout(zero=0)
GRAPHS = {"scheduler": "graph_batches=64/128/256"}


def ctx(**more):
    return EstimateContext(build_request.request({**ASKED, **more}))


def step(batch, plan=ONE, **more):
    return inference.decode(ctx(batch=batch, **more), plan)


def test_the_share_of_steps_with_prompts_by_hand():
    """512 sequences of 1,000 + 1,000: 512 prompts in 1,000 steps, 8.192 of them in one: 62.5 steps; eight ranks: 1 - 0.9375^8 of steps."""
    share = closed_loop.mixed_step_fraction(512.0, 1000.0, 1000.0, 8192.0)
    assert share == pytest.approx(0.0625)
    assert closed_loop.padding_time(30.0, 20.0, share, 8.0) == pytest.approx(10 * 0.9375**8)
    assert closed_loop.padding_time(20.0, 30.0, share, 1.0) == 0
    assert closed_loop.mixed_step_fraction(4096.0, 2048.0, 128.0, 8192.0) == 1


def test_a_static_batch_takes_what_the_graph_takes():
    """129 in a graph of 256: the kernels of 256 over the cache of 129, the host's work for 129."""
    more, own = (
        forward_step(ctx(), ONE, batch, 1.0, 1500 * 129 / batch, decode=True, engine=False).seconds
        for batch in (256.0, 129.0)
    )
    padded, plain = step(129, **GRAPHS), step(129)
    assert more > 1.05 * own
    assert padded.time_s - plain.time_s == pytest.approx(more - own)
    assert padded.breakdown_s["padding"] == pytest.approx(more - own)
    assert padded.floor_s == plain.floor_s


@pytest.mark.parametrize("batch", [64, 128, 256, 257])
def test_what_a_graph_holds_exactly_or_none_holds_is_not_padded(batch):
    assert step(batch, **GRAPHS).time_s == step(batch).time_s


def test_an_ideal_chip_and_a_round_of_speculation_pad_nothing():
    assert step(129, efficiency="ideal", **GRAPHS).time_s == step(129, efficiency="ideal").time_s
    drafts = {"speculate": "llama-3.2-1b", "draft_tokens": 4, "acceptance": 0.7}
    assert step(129, **drafts, **GRAPHS).time_s == step(129, **drafts).time_s


def test_the_rarer_the_prompts_the_more_steps_are_padded():
    """A closed loop of 129: every 62nd step and no other holds a prompt (129 x 1,000 over 8,192 x 1,000)."""
    still = step(129, **GRAPHS).breakdown_s["padding"]
    loaded = inference.decode(ctx(concurrency=129, **GRAPHS), ONE).breakdown_s["padding"]
    assert loaded == pytest.approx(still * (1 - 129 / 8192))


def test_ranks_wait_for_the_prompts_of_all():
    """Four ranks of attention DP replay a step when no rank has a prompt; four replicas of a dense model know nothing of each other."""
    mixture = {"model": "qwen3-30b-a3b"}
    apart, together = Layout(zero=0, ep=1.0), Layout(zero=0, dp=4.0, ep=4.0)
    for plan, ranks in ((apart, 1), (together, 4)):
        still = step(129, plan, **mixture, **GRAPHS).breakdown_s["padding"]
        loaded = inference.decode(ctx(concurrency=129, **mixture, **GRAPHS), plan).breakdown_s["padding"]
        assert loaded == pytest.approx(still * (1 - 129 / 8192) ** ranks)
    alone, four = (inference.decode(ctx(concurrency=129, **GRAPHS), Layout(zero=0, dp=dp)) for dp in (1.0, 4.0))
    assert four.time_s == alone.time_s


def test_a_sweep_pads_as_one_question_does():
    batches = np.array([63.0, 100.0, 129.0, 300.0])
    swept = inference.decode(EstimateContext(replace(build_request.request({**ASKED, **GRAPHS}), batch=batches)), ONE)
    assert swept.time_s.tolist() == [float(step(int(b), **GRAPHS).time_s) for b in batches]


@pytest.mark.parametrize("written", ["64/32", "0/8", "8/a", "8/8", ""])
def test_batches_that_no_graph_has_are_refused(written):
    with pytest.raises(UsageError, match="graph_batches"):
        ctx(scheduler=f"graph_batches={written}")


def test_a_simulation_says_that_it_does_not_follow_them():
    found = run_cli(
        "simulate", "llama-3.1-8b", "--hw", "h100", "--scheduler", "graph_batches=8/16", "--concurrency", "8"
    )
    assert found.code == 2 and "`roofline estimate` does" in found.err


ROW = {
    "engine": "trtllm",
    "model": "llama-3.1-405b",
    "hw": "h200",
    "dtype": "fp8",
    "kv": "fp8",
    "tp": 8,
    "pp": 1,
    "prompt": 1000,
    "output": 2000,
}


def test_the_largest_batch_of_the_bench_by_hand():
    """Llama 3.1 405B on 8 H200: (8 x 141 GiB - 405.85 GB) x 0.95 over 2 x 126 layers x 8 heads x 128 x 3,000 B: 988, so 1,024."""
    room = (8 * 141 * 2**30 - 405.85e9) * 0.95
    assert room / (2 * 126 * 8 * 128 * 3000) == pytest.approx(988, abs=1)
    assert served.max_batch(ROW) == 1024
    assert served.graph_batches(ROW) == (*(2**i for i in range(9)), 384, 512, 1024)


def test_every_device_of_the_bench_has_a_head_at_least():
    """Qwen3-235B has 4 cached heads; on 8 devices, whose ranks each keep a cache, the bench counts 8: half as many requests as by 4."""
    row = {**ROW, "model": "qwen3-235b-a22b", "tp": 1, "dp": 8, "prompt": 8000, "output": 8000}
    assert pytest.approx(301, abs=1) == (8 * 141 * 2**30 - 235.1e9) * 0.95 / (2 * 94 * 8 * 128 * 16000)
    assert served.max_batch(row) == 384


@pytest.mark.parametrize(
    ("requests", "stages", "batch"),
    [
        (-5, 1, 64),
        (65, 1, 96),
        (256, 1, 256),
        (257, 1, 384),
        (1023, 1, 1024),
        (1025, 1, 1280),
        (9000, 1, 4096),
        (9000, 8, 512),
    ],
)
def test_round_numbers_of_the_bench(requests, stages, batch):
    """tensorrt_llm/bench/build/tuning.py, finetune_setting: steps of 32 below 256, 128 below 1,024, 256 beyond; 64 at least."""
    assert served.rounded(requests, stages) == batch


def test_four_bit_weights_are_taken_for_what_a_checkpoint_counts():
    """Two weights in an element and a scale for sixteen, at half a byte each: 0.28 B, not 0.56, so more sequences are thought to fit."""
    narrow, wide = (served.max_batch({**ROW, "hw": "b200", "tp": 2, "dtype": dtype}) for dtype in ("nvfp4", "fp8"))
    assert narrow > 2 * wide


def test_where_the_bench_s_batch_is_not_known_nothing_is_padded():
    assert load_model("deepseek-r1").layers[0].attention.kind == "mla"
    for other in ({"model": "deepseek-r1"}, {"dtype": "mxfp4", "model": "gpt-oss-120b"}, {"engine": "trtllm-cpp"}):
        assert served.graph_batches({**ROW, **other}) == ()
    groups = {run.group for run in served.published_runs() if "graph_batches" in run.options.get("scheduler", "")}
    assert groups == {"trtllm_v10", "trtllm_v12", "trtllm_v10_rtx6000", "trtllm_v12_rtx6000"}
