"""Statements of the Decoder-Only Transformers notes (3.1 to 4.3, 12 to 14, B, C, D) as arithmetic; errata in docs/errata.md."""

from __future__ import annotations

import pytest
from conftest import run_cli

from rooflinecli.formulas import attention, collectives, counts, memory, roofline, textbook, training

GIB = 2**30
GPT3 = {"layers": 96, "d_model": 12288, "heads": 96}


def near(value: float, tolerance: float = 1e-3):
    return pytest.approx(value, rel=tolerance)


def test_3_1_and_3_3_training_state():
    n = 1e9
    assert memory.partitioned_bytes(n, 4, 1) + memory.partitioned_bytes(n, 8, 1) == 12e9  # fp32: model 4N, Adam 8N
    ran = run_cli("estimate", "gpt2", "--hw", "h100", "-n", "1", "--phase", "train", "--format", "json").json
    held, total = ran["phases"]["train"]["memory"], 124439808
    assert (
        held["weights_bytes"] == 2 * total
        and held["gradients_bytes"] == 4 * total
        and held["optimizer_bytes"] == 12 * total
    )


def test_3_2_parameter_rule_is_close_to_the_exact_count():
    rule = textbook.dense_params_rule(96, 12288, 4, 50257)
    exact = run_cli("estimate", "gpt3-175b", "--hw", "h100", "--phase", "decode", "--format", "json").json["model"][
        "parameters"
    ]["total"]
    assert exact == 174604259328 and rule == near(exact, 1e-3)


def test_3_5_attention_activations():
    assert textbook.attention_activations(1, 1, 2048, 12288, 96, 2) == 2290089984


def test_3_6_mlp_activations():
    assert textbook.mlp_activations(1, 1, 2048, 12288, 4, 2) == 478150656


@pytest.mark.parametrize(("p", "linear", "scores"), [(2, 34, 5), (4, 66, 9)])
def test_3_7_and_3_8_total_activations(p, linear, scores):
    # erratum: the notes print 15 A S at p = 4; 2p + 1 is 9
    got = textbook.total_activations(1, 1, 2048, 12288, 96, 4, p, 1, 1)
    assert got == near(2048 * (linear * 12288 + scores * 96 * 2048), 1e-9)


def test_3_9_mixed_precision_batch():
    assert textbook.mixed_precision_batch(12288, 2048, 96) == near(1.5, 1e-3)


def test_3_12_gpt3_training_state():
    # erratum: every figure the notes print is half of what their own (3.3) and (3.4) give, and the unit is GiB
    n = 12 * 96 * 12288**2
    assert n == 173946175488
    assert [n * b / GIB for b in (2, 4, 12, 18)] == [near(v) for v in (324.0, 648.0, 1944.0, 2916.0)]


def test_3_14_and_3_15_gpt3_activations():
    per = textbook.total_activations(96, 1, 2048, 12288, 96, 4, 2, 1, 1) / GIB
    assert per == near(0.03735 * 2048 * (1 + 2048 / 870.4), 2e-3)
    assert per / 2916.0 == near(0.08796, 2e-3)


def test_3_16_gpt3_at_tp_8():
    assert 2916.0 / 8 == 364.5
    assert textbook.total_activations(96, 1, 2048, 12288, 96, 4, 2, 8, 1) / GIB == near(51.75, 1e-3)
    assert textbook.total_activations(96, 1, 2048, 12288, 96, 4, 2, 8, 8) / GIB == near(32.0625, 1e-3)


def test_4_2_training_flops():
    assert textbook.training_flops_dense(1, 2048, 12288, 96, 4) == 2196824232296448
    ran = run_cli(
        "estimate",
        "gpt3-175b",
        "--hw",
        "h100",
        "--phase",
        "train",
        "--batch",
        "1",
        "--seq",
        "2048",
        "--attention-flops",
        "full",
        "--format",
        "json",
    )
    head = 6 * 2048 * 12288 * 50257
    assert ran.json["phases"]["train"]["flops"] == near(2196824232296448 + head, 1e-9)


def test_4_3_rule_of_thumb():
    assert textbook.training_flops_rule(1e9, 2048) == 6 * 1e9 * 2048


def test_5_4_mfu_is_ideal_over_actual_time():
    # erratum: the notes print the inverse
    assert training.model_flops_utilization(50.0, 1.0, 1, 100.0) == 0.5


def test_12_1_kv_cache():
    mha = textbook.kv_cache_rule(1, 2048, 96, 96, 128, 2)
    assert mha == 2 * 2 * 1 * 12288 * 96 * 2048
    assert textbook.kv_cache_rule(1, 2048, 96, 8, 128, 2) == mha * 8 / 96


def test_14_falcon_40b():
    # the notes take Falcon-40B as multi-head: 3.75 GiB a sequence; the real one has 8 KV heads of 64
    assert textbook.kv_cache_rule(1, 2048, 60, 128, 64, 2) / GIB == near(3.75)
    ran = run_cli(
        "estimate",
        "falcon-40b",
        "--hw",
        "a100",
        "-n",
        "4",
        "--tp",
        "4",
        "--phase",
        "decode",
        "--batch",
        "1",
        "--prompt",
        "2047",
        "--output",
        "1",
        "--format",
        "json",
    )
    assert ran.json["phases"]["decode"]["memory"]["kv_cache_bytes"] * 4 / GIB == near(0.234, 2e-3)
    assert near(0.01282) == 2 * 40e9 * 200 / (4 * 312e12)


def test_b_ring_volumes():
    # erratum: the notes give M (n-1) for all-gather, with M the shard
    assert collectives.gather_volume(8.0, 4) == 6.0 and collectives.all_reduce_volume(8.0, 4) == 12.0


def test_c_3_ridge_points():
    assert roofline.ridge_point(312e12, 2.0e12) == near(156)


def test_d_1_intensity_of_a_linear_layer():
    # erratum: the notes lose a factor of 2
    b, s, d, p = 4, 512, 1024, 2
    got = roofline.arithmetic_intensity(counts.matmul_flops(b * s, d, d), counts.matmul_bytes(b * s, d, d, p, p, p))
    assert got == near(2 * b * s * d / (p * (2 * b * s + d)), 1e-12)


def test_8_vision_patches():
    # erratum: the notes count channels and get 768
    assert textbook.image_patches(256, 16) == 256


def test_7_4_1_ring_attention_work():
    assert attention.ring_naive_pairs(8192, 4) == 14681088
    assert attention.ring_striped_pairs(8192, 4) == 8392704
    assert attention.ring_zigzag_pairs(8192, 4) == 8389632
