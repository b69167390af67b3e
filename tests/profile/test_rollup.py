"""Classification, intervals, fusion chains and the roll-up's invariants."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.importers.profiles.kernel import Kernel, classify, length, overlap, own_times, union
from rooflinecli.questions.profile.rollup import profile


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"),
        ("all-reduce-start.3", "collective"),
        ("reduce-scatter.1", "collective"),
        ("collective-permute.2", "collective"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention"),
        ("paged_attention_v2_kernel", "attention"),
        ("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT", "gemm"),
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8", "gemm"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "gemm"),
        ("dot.17", "gemm"),
        ("gemm_fusion_dot_5", "gemm"),
        ("ynn_fusion.5", "gemm"),
        ("__onednn_fusion", "gemm"),
        ("aten::mm", "gemm"),
        ("attn_out_proj_gemm", "gemm"),
        ("convolution.2", "gemm"),
        ("void at::native::vectorized_elementwise_kernel<4>", "elementwise"),
        ("loop_add_fusion", "elementwise"),
        ("layernorm_kernel", "elementwise"),
        ("triton_poi_fused_add_mul_3", "elementwise"),
        ("wrapped_reduce", "elementwise"),
        ("multi_tensor_apply_kernel<adam>", "elementwise"),
        ("aten::softmax", "elementwise"),
        ("fusion.12", "elementwise"),
        ("attention_norm", "attention"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("copy.5", "copy"),
        ("transpose.1", "copy"),
        ("while.3", "other"),
    ],
)
def test_names_are_classified(name, kind):
    assert classify(name) == kind


interval = st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda t: (float(t[0]), float(t[0] + t[1])))


def cells(intervals) -> set[int]:
    return {cell for start, end in intervals for cell in range(int(start), int(end))}


@given(st.lists(interval), st.lists(interval))
def test_unions_and_overlaps_equal_counting_cells(first, second):
    assert length(first) == len(cells(first))
    assert overlap(first, second) == len(cells(first) & cells(second)) == overlap(second, first)
    joined = union(first)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(joined))


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12))
def test_own_times_of_a_call_tree_sum_to_its_length(tree):
    events: list[tuple[float, float]] = []

    def lay(node, start: float) -> float:
        place, end = len(events), start + 1
        events.append((0.0, 0.0))
        for child in node:
            end = lay(child, end) + 1
        events[place] = (start, end)
        return end

    whole = lay(tree, 0.0)
    assert sum(own_times(events)) == pytest.approx(whole)


kernel = st.builds(
    Kernel,
    name=st.sampled_from(["gemm_a", "add", "norm", "ncclAllReduce", "flash"]),
    seconds=st.floats(1e-6, 1e-2),
    start_s=st.floats(0, 1),
    lane=st.sampled_from(["1", "2"]),
    kind=st.sampled_from(["gemm", "elementwise", "collective", "attention", "other"]),
)


@given(st.lists(kernel, min_size=1, max_size=30))
def test_a_rollup_keeps_every_second(kernels):
    answer = profile(kernels)
    total = sum(k.seconds for k in kernels)
    assert answer["time_s"] == pytest.approx(total)
    assert sum(row["time_s"] for row in answer["kinds"].values()) == pytest.approx(total)
    assert sum(row["time_s"] for row in answer["kernels"].values()) == pytest.approx(total)
    assert 0 <= answer["idle_share"] < 1
    assert answer["fusion"]["chains_saved_s"] <= answer["fusion"]["removable_s"] + 1e-12
    assert 1 <= answer["fusion"]["chains_speedup"] <= answer["fusion"].get("speedup_bound", float("inf")) + 1e-9
    comm = answer.get("communication")
    if comm:
        assert 0 <= comm["hidden_share"] <= 1 + 1e-12
        assert comm["overlapped_s"] + comm["exposed_s"] == pytest.approx(comm["time_s"])


def test_neighbours_on_a_lane_fuse_into_the_slowest():
    chain = [
        Kernel(f"add{i}", seconds, start_s=float(i), kind="elementwise") for i, seconds in enumerate((1e-3, 3e-3, 2e-3))
    ]
    answer = profile(
        [*chain, Kernel("gemm", 4e-3, start_s=3.0, kind="gemm"), Kernel("mul", 1e-3, start_s=4.0, kind="elementwise")]
    )
    assert answer["fusion"]["chains"] == 1
    assert answer["fusion"]["chains_saved_s"] == pytest.approx(3e-3)


def test_a_call_that_begins_with_its_caller_lies_inside_it():
    """However the trace lists the two; of two that end together the longer is the caller too."""
    assert own_times([(0, 1), (0, 3), (3, 4)]) == [1, 2, 1] and own_times([(0, 3), (0, 1)]) == [2, 1]
    assert own_times([(2, 3), (0, 3)]) == [1, 2] and own_times([(0, 2), (1, 3)]) == [2, 2]  # the last two only overlap
