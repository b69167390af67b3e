"""Prefill, one device: every kernel of a pass written out, family by family."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.hand import PEAK, attention, elementwise, gather, matmul, routed, total
from end_to_end_arithmetic.serving import S, check, ends, prompt_layer


def test_dense(ask):
    kernels = 6 * prompt_layer() + ends(S, 1)
    answer = ask("dense", "prefill", prompt=S)
    check(answer, kernels, 6)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))
    assert answer["mfu"] == pytest.approx(answer["flops"] / answer["time_s"] / PEAK)
    assert answer["tokens_per_s"] == pytest.approx(S / answer["time_s"])


def test_attention_counted_in_full(ask):
    answer = ask("dense", "prefill", prompt=S, attention_flops="full")
    check(answer, 6 * prompt_layer(S * S) + ends(S, 1), 6)


def test_windowed_and_chunked(ask):
    local = 64 * 64 / 2 + (S - 64) * 64  # a window of 64
    chunked = 2 * 96 * 96 / 2 + 64 * 64 / 2  # two whole chunks of 96 and 64 tokens of a third
    kernels = 2 * (prompt_layer(local, 64 + 128) + prompt_layer() + prompt_layer(chunked, 96 + 128)) + ends(S, 1)
    answer = ask("windowed", "prefill", prompt=S)
    check(answer, kernels, 6)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))


def test_windows_count_every_pair_they_show_in_the_full_convention(ask):
    kernels = 2 * (prompt_layer(S * 64, 64 + 128) + prompt_layer(S * S) + prompt_layer(S * 96, 96 + 128)) + ends(S, 1)
    check(ask("windowed", "prefill", prompt=S, attention_flops="full"), kernels, 6)


def test_experts(ask):
    moe = [
        *prompt_layer()[:6],
        matmul(S, 256, 8),  # router
        routed(S, 256, 160, 8, S * 2 / 8),  # every token visits two experts
        matmul(S, 256, 2 * 192),  # the shared expert
        elementwise(S * (2 * 192 + 192)),
        matmul(S, 192, 256),
        elementwise(2 * 3 * S * 256),
    ]
    kernels = 2 * prompt_layer() + 4 * moe + ends(S, 1)
    answer = ask("moe", "prefill", prompt=S)
    check(answer, kernels, 6, moe_layers=4)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))


def test_latent_attention_works_on_whole_heads(ask):
    layer = [
        elementwise(2 * S * 256),
        elementwise(2 * S * 256),
        matmul(S, 256, 96),  # q down, norm, up
        elementwise(2 * S * 96),
        matmul(S, 96, 4 * 48),
        matmul(S, 256, 64 + 16),  # latent and rotary key
        elementwise(2 * S * 64),
        matmul(S, 64, 4 * (32 + 24)),
        elementwise(2 * (S * 4 * 16 + S * 16)),
        attention(1, S, 4, 4, 48, 24, S * S / 2),
        matmul(S, 4 * 24, 256),
        *prompt_layer(0.5)[6:],
    ]
    kernels = 6 * layer + ends(S, 1)
    answer = ask("mla", "prefill", prompt=S)
    check(answer, kernels, 6)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))


def test_encoder_takes_a_whole_image(ask):
    s = 50  # 7 x 7 patches of 112 / 16 and a class token
    layer = [
        elementwise(2 * s * 256),
        elementwise(2 * s * 256),
        matmul(s, 256, 24 * 32),
        attention(1, s, 8, 8, 32, 32, s * s),
        matmul(s, 256, 256),
        matmul(s, 256, 512),
        elementwise(2 * s * 512),
        matmul(s, 512, 256),
        elementwise(2 * 3 * s * 256),
    ]
    patches = matmul(s, 16 * 16 * 3, 256)
    kernels = [patches, gather(2 * s * 256), *6 * layer, elementwise(2 * s * 256), matmul(1, 256, 10)]
    answer = ask("encoder", "prefill")
    check(answer, kernels, 6)
    assert answer["flops"] == pytest.approx(sum(k.flops for k in kernels))
    assert answer["memory"]["kv_cache_bytes"] == 0


def test_fp8_multiplies_in_eight_bits_and_keeps_the_rest_in_sixteen(ask):
    rate = 0.4 * 160e12
    eight = {"weight": 1.0, "x": 1.0, "rate": rate}
    layer = prompt_layer()
    for i, (m, k, n) in {2: (S, 256, 256), 5: (S, 128, 256), 6: (S, 256, 1024), 8: (S, 512, 256)}.items():
        layer[i] = matmul(m, k, n, **eight)
    kernels = 6 * layer + ends(S, 1)
    answer = ask("dense", "prefill", prompt=S, dtype="fp8")
    assert answer["breakdown_s"]["matmul"] == pytest.approx(total(kernels, "matmul"))
    assert answer["bytes_per_device"] == pytest.approx(sum(k.bytes for k in kernels))
    in_layers = 6 * sum(layer[i].flops for i in (2, 5, 6, 8)) / 160e12
    in_sixteen = (6 * layer[4].flops + kernels[-1].flops) / PEAK
    assert answer["resources_s"]["compute"] == pytest.approx(in_layers + in_sixteen)
    assert answer["mfu"] == pytest.approx(answer["flops"] / answer["time_s"] / 160e12)
