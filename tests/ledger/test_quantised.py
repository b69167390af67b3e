"""What a checkpoint stores: scales counted, experts apart, embedding and head in 16 bits."""

from __future__ import annotations

import pytest
from conftest import run_cli

from rooflinecli.formulas.counts import quantized_bytes_per_weight


def weights(*args: str) -> float:
    return run_cli("estimate", *args, "--phase", "decode", "--format", "json").json["model"]["weights_bytes"]


def test_scales_count():
    assert quantized_bytes_per_weight(4, 128, 16, 0) == (4 + 16 / 128) / 8
    assert quantized_bytes_per_weight(4, 32, 8, 0) == 4.25 / 8  # MXFP4


def test_gpt_oss_keeps_experts_in_mxfp4_and_the_rest_in_bf16():
    # 116.8B parameters, of which 114.7B are experts at 4.25 bits: OpenAI states a 60.8 GiB checkpoint
    assert weights("gpt-oss-120b", "--hw", "h100") == pytest.approx(60.8 * 2**30, rel=0.01)
    assert weights("gpt-oss-120b", "--hw", "h100", "--dtype", "bf16") == pytest.approx(2 * 116829156672)


def test_deepseek_v3_is_fp8_with_block_scales():
    outer = 2 * (2 * 129280 * 7168 + 7168)
    total = 671026419200 * 1.0 + outer / 2
    assert weights("deepseek-v3", "--hw", "h100") == pytest.approx(total, rel=2e-3)


def test_weight_only_int4_quarters_the_layers():
    whole, narrow = weights("llama70b", "--hw", "h100"), weights("llama70b", "--hw", "h100", "--weight-dtype", "int4")
    outer = 2 * (2 * 128256 * 8192 + 8192)
    assert narrow == pytest.approx((whole - outer) / 4 + outer)
