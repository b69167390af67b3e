"""Communication that hides: what it costs, where it may hide, and how a stage's layers are split. Independent arithmetic."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import schedule
from rooflinecli.ledger.ops import Collective
from rooflinecli.parallel import pipeline, tensor
from rooflinecli.price.network import price_collective
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def ctx(model: str = "llama-3-8b", hardware: str = "h100-sxm", override: dict[str, float] | None = None, **given):
    return EstimateContext(
        Request(load_model(model), load_hardware(hardware), **{"batch": 64.0, "seq": 4096.0} | given), override=override
    )


def test_expected_exceeds_the_floor_where_communication_dominates():
    """gpt-oss-120b with its experts over 64 B200: eight devices share NVLink, the rest of the exchange is on the network."""
    s = ctx("gpt-oss-120b", "b200-sxm", batch=1280.0, dtype="bf16")
    answer = train(s, Layout(dp=64.0, ep=64.0, micro_batch=4.0))
    assert answer.resources_s.communication > answer.resources_s.compute
    assert answer.time_s > 1.05 * answer.floor_s


@pytest.mark.parametrize(
    "plan",
    [
        Layout(tp=8.0, pp=2.0, dp=4.0, sequence_parallel=True),
        Layout(dp=16.0, zero=3),
        Layout(dp=16.0, zero=3, shard=8.0),
        Layout(cp=4.0, dp=4.0),
        Layout(tp=16.0, dp=2.0, zero=0),
    ],
    ids=str,
)
def test_breakdown_adds_up_and_names_what_hides(plan):
    answer = train(ctx(), plan)
    assert sum(answer.breakdown_s.values()) == pytest.approx(answer.time_s)
    assert sum(answer.communication_s.values()) == pytest.approx(answer.breakdown_s["communication"], abs=1e-12)
    assert all(seconds >= -1e-12 for seconds in (*answer.hidden_s.values(), *answer.communication_s.values()))


def test_exposed_and_hidden_are_all_of_the_time_on_the_wires():
    s, plan = ctx(), Layout(tp=8.0, dp=2.0, sequence_parallel=True)
    answer = train(s, plan)
    moves = tensor.collectives(plan, 4096.0, 4096.0, 2.0, 32.0, 2.0, True)
    whole = 32 * sum(price_collective(c, s.chip, "training", 16.0).expected * c.count for c in moves)
    assert answer.communication_s["tp"] + answer.hidden_s["tp"] == pytest.approx(whole)
    assert answer.communication_s["tp"] >= 0.05 * whole


def test_tensor_parallelism_hides_inside_the_innermost_network_only():
    inside, across = (
        train(ctx("llama-3-70b"), Layout(tp=tp, dp=2.0, sequence_parallel=True, software="megatron-bridge"))
        for tp in (8.0, 16.0)
    )
    assert inside.hidden_s["tp"] > 10 * inside.communication_s["tp"]
    assert across.hidden_s["tp"] == 0 and across.communication_s["tp"] > inside.communication_s["tp"]


def test_axes_that_hide_add_up():
    """Two collectives that hide on the same device cost more together than the longer alone."""
    slow = {"network.1.bandwidth": 2e9}
    both = train(ctx(override=slow, batch=64.0), Layout(dp=64.0, zero=3))
    quick = train(ctx(override={"network.1.bandwidth": 50e9}, batch=64.0), Layout(dp=64.0, zero=3))
    assert both.communication_s["dp"] > quick.communication_s["dp"]
    work = both.time_s - both.communication_s["dp"]
    assert both.time_s > max(work, both.hidden_s["dp"])


def test_one_port_of_eight():
    """ZeRO-3 of DeepSpeed in 2021 reached 19 GB/s of bus bandwidth on hosts with 8 x 25 GB/s (Megatron SC'21, table 2)."""
    chip = ctx(hardware="a100-sxm-80").chip
    size = 175e9 * 2
    moved = Collective("dp.all_gather", "all-gather", size, "dp", 384.0, 1.0, rails=0.113)
    seconds = price_collective(moved, chip, "training", 384.0).expected
    assert size / seconds == pytest.approx(19e9, rel=0.1)
    free = price_collective(Collective("dp.all_gather", "all-gather", size, "dp", 384.0, 1.0), chip, "training", 384.0)
    assert free.expected < seconds / 5 and free.floor == price_collective(moved, chip, "training", 384.0).floor


ENDS = st.floats(0.01, 6.0)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # under load even small draws are slow
@given(st.integers(2, 5), st.integers(2, 12), ENDS, ENDS)
def test_the_best_split_is_the_best_of_all_splits(pp, extra, stem, head):
    """Against every way to lay whole layers over the stages."""
    layers, layer = pp + extra, 1.0
    if layers % pp == 0:
        even = pipeline.slowest(Layout(pp=float(pp)), float(layers), layers * layer, stem, head)
        assert even == pytest.approx(layers / pp + max(stem, head))
        return
    found = pipeline.slowest(Layout(pp=float(pp)), float(layers), layers * layer, stem, head)
    ends = [stem, *[0.0] * (pp - 2), head]
    splits = (s for s in product(range(layers + 1), repeat=pp) if sum(s) == layers) if pp < 4 else _balanced(layers, pp)
    best = min(max(n * layer + e for n, e in zip(s, ends, strict=True)) for s in splits)
    assert found == pytest.approx(best) if pp < 4 else found <= best + 1e-9


def _balanced(layers: int, pp: int):
    """Splits whose middle stages differ by one layer at most."""
    for first in range(layers + 1):
        for last in range(layers - first + 1):
            rest = layers - first - last
            low, more = divmod(rest, pp - 2)
            yield (first, *[low + 1] * more, *[low] * (pp - 2 - more), last)


def test_stragglers_of_a_tpu_wait_for_slices_only():
    one, two = (
        train(ctx(hardware="tpu-v6e", batch=float(n)), Layout(dp=float(n), zero=3)).breakdown_s["stragglers"]
        for n in (256, 512)
    )
    assert one == 0 and two > 0


def test_attention_rises_with_length_unless_it_is_flash_attention_2():
    def rate(seq: float, software: str) -> float:
        answer = train(ctx(seq=seq, batch=8.0), Layout(dp=8.0, software=software))
        flops = 3.5 * 2 * 32 * 32 * 128 * seq * seq  # causal, forward and 2.5 times that backward, one sequence
        return flops / answer.breakdown_s["attention"] / 989.4e12

    assert rate(65536.0, "any") / rate(4096.0, "any") == pytest.approx((1 + 3397 / 4096) / (1 + 3397 / 65536), rel=0.03)
    assert rate(65536.0, "torchtitan") == pytest.approx(rate(4096.0, "torchtitan"), rel=0.03)


def test_multi_token_prediction_is_one_layer_and_one_head():
    """DeepSeek-V3, section 2.2: one further layer of 61, and the head once more; only frameworks that say so train with it."""
    s = ctx("deepseek-v3", "h800-sxm", batch=512.0, dtype="bf16")
    plans = (Layout(pp=16.0, dp=16.0, ep=16.0, software=name) for name in ("any", "nemo-2024"))
    ratio = [train(s, plan).breakdown_s["matmul"] for plan in plans]
    assert 1 + 1 / 61 < ratio[0] / ratio[1] < 1.045


def test_multi_token_prediction_has_parameters_and_flops():
    """A module of DeepSeek-V3 (section 2.2; 14B on Hugging Face with its copies of embedding and head, 0.93B each): a layer of 256
    experts, MLA, a shared expert and the projection. Its FLOPs are those of its active parameters, the head again, and attention."""
    s = ctx("deepseek-v3", "h800-sxm", batch=512.0, dtype="bf16")
    with_it, without = (train(s, Layout(dp=64.0, ep=64.0, zero=0, software=name)) for name in ("any", "nemo-2024"))
    d, experts, mla = 7168, 3 * 7168 * 2048, 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768 + 16384 * 7168
    held = 4 * experts + experts + mla + 256 * d + 2 * d * d
    assert (with_it.memory.weights_bytes - without.memory.weights_bytes) / 2 == pytest.approx(held, rel=1e-3)
    whole = (256 + 1) * experts + mla + 256 * d + 2 * d * d
    assert whole + 2 * 129280 * d == pytest.approx(14e9, rel=0.05)
    tokens = 512 * 4096
    active = 8 * experts + experts + mla + 256 * d + 2 * d * d + 129280 * d
    attention = (
        128 * 4096 * (192 + 128)
    )  # causal: half of the keys for each query and head, keys of 192 and values of 128
    assert with_it.flops - without.flops == pytest.approx(3 * tokens * (2 * active + attention), rel=1e-3)


def test_clamped_experts_pass_over_their_outputs():
    """gpt-oss: biases and a clamped gate cost 21.5 passes over the outputs of gate_up and down of each token's four experts."""
    s = ctx("gpt-oss-120b", "b200-sxm", batch=8.0, dtype="bf16")
    none = ctx("gpt-oss-120b", "b200-sxm", {"efficiency.experts.bias_passes": 0.0}, batch=8.0, dtype="bf16")
    extra = train(s, Layout(dp=8.0)).breakdown_s["elementwise"] - train(none, Layout(dp=8.0)).breakdown_s["elementwise"]
    values = 36 * 4096 * 4 * (2 * 2880 + 2880)
    share = s.chip.constants("training", "elementwise").memory
    assert extra == pytest.approx(values * 21.5 * 2 / (share * 8e12), rel=0.02)


def test_least_stage_and_perfect_overlap():
    from rooflinecli.engine.microbatch import PipelineStage

    def seconds(work, hidden, p):
        return PipelineStage(None, work, hidden, 0.0, 0.0, p).seconds

    assert schedule.least_stage(3.0, 4.0, 2.0) == 4.0
    assert seconds(3.0, 4.0, math.inf) == 4.0
    assert seconds(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert seconds(3.0, 0.0, 2.0) == 3.0


def test_narrow_matmuls_keep_narrow_inputs_and_wide_weights():
    def held(dtype: str):
        return train(ctx(dtype=dtype), Layout(dp=8.0)).memory

    wide, narrow = held("bf16"), held("fp8")
    assert narrow.weights_bytes == pytest.approx(wide.weights_bytes)
    # inputs of qkv, gate and up (4096 wide), of the output (4096) and of the down-projection (14336), a byte less each
    assert wide.activations_bytes - narrow.activations_bytes == pytest.approx(4096 * 32 * (3 * 4096 + 14336))


def test_weights_stay_whole_between_the_microbatches_of_a_pipeline():
    whole = train(ctx(), Layout(pp=2.0, dp=4.0, zero=2)).memory.weights_bytes
    assert train(ctx(), Layout(pp=2.0, dp=4.0, zero=3)).memory.weights_bytes == whole
    assert train(ctx(), Layout(dp=4.0, zero=3)).memory.weights_bytes < whole


def test_sharded_gradients_are_reduced_as_often_as_a_model_chunk_rests():
    """16 micro-batches on two stages: all but the last reduce before the end of the step, interleaved stages after every second one."""

    def exchange(**given) -> float:
        answer = train(ctx(), Layout(pp=2.0, dp=4.0, **given))
        return answer.hidden_s["dp"] + answer.communication_s["dp"]

    once = exchange(zero=1)
    assert (exchange(zero=2) - once) * 7 == pytest.approx((exchange(zero=2, virtual_stages=2.0) - once) * 15)


def test_layers_that_stages_take_within_a_time():
    """Layers of 3 s within 10 s: three in each of two stages, two beside an embedding of 2 s, three beside a head of half a second."""
    assert schedule.layers_within(10.0, 3.0, 2.0, 0.5, 4.0) == 3 + 3 + 2 + 3
    assert schedule.layers_within(10.0, 3.0, 0.5, 2.0, 2.0) == 3 + 2
