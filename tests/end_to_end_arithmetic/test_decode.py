"""Decode, one device: one token for 8 sequences in the middle of the answer, family by family."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.hand import (
    PEAK,
    Kernel,
    W,
    cached_attention,
    elementwise,
    latent_attention,
    matmul,
    routed,
    total,
)
from end_to_end_arithmetic.serving import CONTEXT, LOAD, B, check, ends, token_layer


def test_dense(ask):
    kernels = 6 * token_layer() + ends(B, B)
    answer = ask("dense", "decode", **LOAD)
    seconds = check(answer, kernels, 6, sequences=B)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))
    assert answer["mfu"] == pytest.approx(answer["flops"] / seconds / PEAK)
    assert answer["mbu"] == pytest.approx(sum(k.bytes for k in kernels) / seconds / W)
    assert answer["tokens_per_s"] == pytest.approx(B / seconds)
    assert answer["tokens_per_s_per_user"] == pytest.approx(1 / seconds)


def test_windows_and_chunks_bound_what_is_read(ask):
    kernels = 2 * (token_layer(64) + token_layer() + token_layer(96)) + ends(B, B)
    answer = ask("windowed", "decode", **LOAD)
    check(answer, kernels, 6, sequences=B)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))


def test_a_cache_in_eight_bits_is_half_the_traffic(ask):
    answer = ask("dense", "decode", **LOAD, kv_dtype="fp8")
    check(answer, 6 * token_layer(kv=1) + ends(B, B), 6, sequences=B)
    assert answer["memory"]["kv_cache_bytes"] == B * 300 * 6 * 2 * 2 * 32


def test_many_cached_heads_start_one_after_the_other(ask):
    """A short context: the starts of the work items take longer than the stream."""
    load = {"batch": B, "prompt": 2, "output": 2}
    kernel = cached_attention(B, 4, 2, 32, 32, 3)
    assert kernel.bytes / (0.6 * W) < 8 * 2 * 50e-9
    assert ask("dense", "decode", **load)["breakdown_s"]["attention"] == pytest.approx(6 * kernel.seconds)


def test_experts_touched_by_few_tokens(ask):
    moe = [
        *token_layer()[:6],
        matmul(B, 256, 8),
        routed(B, 256, 160, 8, B * 2 / 8),
        matmul(B, 256, 2 * 192),
        elementwise(B * 3 * 192),
        matmul(B, 192, 256),
        elementwise(2 * 3 * B * 256),
    ]
    answer = ask("moe", "decode", **LOAD)
    check(answer, 2 * token_layer() + 4 * moe + ends(B, B), 6, moe_layers=4, sequences=B)


def latent(heads: int, ranks: list[Kernel]) -> list[Kernel]:
    """A layer with a latent of 64 and a rotary key of 16; a work item serves 64 heads."""
    return [
        elementwise(2 * B * 256),
        elementwise(2 * B * 256),
        *ranks,
        matmul(B, 256, 64 + 16),
        elementwise(2 * B * 64),
        matmul(B, 64, heads * (32 + 24)),
        elementwise(2 * (B * heads * 16 + B * 16)),
        latent_attention(B, heads, 64, 16, CONTEXT, -(-heads // 64)),
        matmul(B, heads * 24, 256),
        *token_layer()[6:],
    ]


def test_latent_attention_streams_the_latent(ask):
    low_rank = [matmul(B, 256, 96), elementwise(2 * B * 96), matmul(B, 96, 4 * 48)]
    kernels = 6 * latent(4, low_rank) + ends(B, B)
    answer = ask("mla", "decode", **LOAD)
    check(answer, kernels, 6, sequences=B)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))
    assert answer["memory"]["kv_cache_bytes"] == 2 * B * 300 * 6 * (64 + 16)


def test_seventy_two_latent_heads_are_two_work_items(ask):
    answer = ask("mla_wide", "decode", **LOAD)
    check(answer, 6 * latent(72, [matmul(B, 256, 72 * 48)]) + ends(B, B), 6, sequences=B)


def test_an_engine_without_steps_costs_nothing(ask):
    """engines/cuda-graph.yaml adds nothing per step or sequence."""
    answer = ask("dense", "decode", **LOAD, engine="none")
    assert answer["time_s"] == pytest.approx(total(6 * token_layer() + ends(B, B)) + 6 * 10e-6)
    assert answer["breakdown_s"]["engine"] == 0


def test_ideal_is_the_roofline_of_every_kernel(ask):
    """Each matmul and attention at the slower of compute and memory; elementwise at full bandwidth; no starts, no engine."""
    kernels = 6 * token_layer() + ends(B, B)
    answer = ask("dense", "decode", **LOAD, efficiency="ideal")
    slower = sum(max(k.flops / PEAK, k.bytes / W) for k in kernels)
    passes = 6 * (2 * 2 * B * 256 + 2 * B * 6 * 32 + B * 1536 + 6 * B * 256) + 2 * B * 256 + 2 * B * 256
    assert answer["time_s"] == pytest.approx(slower + passes * 2 / W)
    assert answer["interval_s"] == [answer["time_s"]] * 2
