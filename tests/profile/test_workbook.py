"""The Scaling Book workbook, chapter 8: the profiled layer, through `roofline profile`."""

from __future__ import annotations

import pytest

# times of the profiled layer in ms; norms and activation are its memory-bound kernels
LAYER = """name,time_ms,bound,m,k,n,tp
qkv_gemm,0.42,,,,,
flash_attention,0.38,,,,,
out_proj_gemm,0.14,,,,,
rmsnorm_1,0.12,memory,,,,
gate_up_gemm,0.51,,65536,8192,57344,8
swiglu,0.08,memory,,,,
down_gemm,0.26,,,,,
rmsnorm_2,0.12,memory,,,,
nccl_all_reduce,0.35,,,,,
"""


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "layer.csv"
    path.write_text(LAYER)
    return str(path)


def ask(cli, *argv: str) -> dict:
    ran = cli("profile", *argv, "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json


def test_w8_1_memory_bound_share(cli, layer):
    assert ask(cli, layer)["memory_bound"]["share"] == pytest.approx(0.1345, rel=5e-3)


def test_w8_2_the_gemm_is_faster_than_its_floor(cli, layer):
    """0.51 ms for a product whose floor is 7.77 ms on each of 8 devices: the profile's figure is impossible."""
    answer = ask(cli, layer, "--peak", "990 TFLOP/s")
    assert answer["kernels"]["gate_up_gemm"]["floor_s"] == pytest.approx(0.0077743, rel=2e-3)
    assert answer["kernels"]["gate_up_gemm"]["impossible"] is True
    assert answer["impossible"] == ["gate_up_gemm"]
    assert "impossible" in cli("profile", layer, "--peak", "990 TFLOP/s").out


def test_w8_2_whole(cli, tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("name,time_ms,m,k,n\ngemm,70,65536,8192,57344\n")
    answer = ask(cli, str(path), "--peak", "990 TFLOP/s")
    assert answer["kernels"]["gemm"]["floor_s"] == pytest.approx(0.062195, rel=2e-3)
    assert answer["impossible"] == []


def test_w8_4_fusion_by_amdahl(cli, layer):
    answer = ask(cli, layer)
    assert answer["time_s"] == pytest.approx(2.38e-3)
    assert answer["fusion"]["removable_s"] == pytest.approx(0.32e-3)
    assert answer["fusion"]["speedup_bound"] == pytest.approx(1.1553, rel=1e-3)


def test_w8_4_explained(cli, layer):
    ran = cli("profile", layer, "--explain", "fusion.speedup_bound")
    assert ran.code == 0
    assert "1.155" in ran.out and "Amdahl" in ran.out


def test_w8_5_communication_hides_completely(cli, tmp_path):
    """A list of times can only say what could hide; with start times the profile says what did."""
    path = tmp_path / "pair.csv"
    path.write_text("name,time_ms\nnccl_all_reduce,0.35\nbackward_gemm,0.42\n")
    assert ask(cli, str(path))["communication"]["hideable_share"] == 1.0
    path.write_text("name,start_ms,time_ms,stream\nnccl_all_reduce,0,0.35,2\nbackward_gemm,0,0.42,1\n")
    assert ask(cli, str(path))["communication"]["hidden_share"] == 1.0
    path.write_text("name,start_ms,time_ms,stream\nnccl_all_reduce,0.21,0.35,2\nbackward_gemm,0,0.42,1\n")
    assert ask(cli, str(path))["communication"]["hidden_share"] == pytest.approx(0.6)


def test_w8_q_neither_roof_is_reached(cli, tmp_path):
    """40 % of bandwidth and 5 % of compute: latency-bound or under-occupied."""
    path = tmp_path / "kernel.csv"
    path.write_text("name,time_us,flops,bytes\nslow_gemm,100,4.947e9,134e6\n")
    row = ask(cli, str(path), "--hw", "h100")["kernels"]["slow_gemm"]
    assert row["compute_utilization"] == pytest.approx(0.05, rel=1e-3)
    assert row["bandwidth_utilization"] == pytest.approx(0.40, rel=1e-3)
    assert row["bound"] == "latency or under-occupied"


def test_kernels_are_matched_to_the_ledgers_rows(cli, layer):
    """By shape (the workbook's own: 65536 tokens, TP 8) and by name."""
    rows = ask(cli, layer, "--hw", "h100", "--model", "llama-3-70b", "--batch", "8", "--seq", "8192", "--tp", "8")[
        "kernels"
    ]
    assert {name: row["row"] for name, row in rows.items() if "row" in row} == {
        "qkv_gemm": "attention.qkv",
        "flash_attention": "attention.core",
        "out_proj_gemm": "attention.out",
        "gate_up_gemm": "feedforward.gate_up",
        "down_gemm": "feedforward.down",
    }
    assert rows["down_gemm"]["floor_s"] == pytest.approx(2 * 65536 * 28672 / 8 * 8192 / 989.4e12, rel=1e-3)


@pytest.mark.parametrize("fmt", ["table", "markdown", "csv"])
def test_every_format_names_every_kernel(cli, layer, fmt):
    ran = cli("profile", layer, "--hw", "h100", "--format", fmt)
    assert ran.code == 0
    for name in ("qkv_gemm", "swiglu", "nccl_all_reduce"):
        assert name in ran.out


def test_top_says_what_it_leaves_out(cli, layer):
    assert "6 more kernels" in cli("profile", layer, "--top", "3").out


def test_rates_are_needed_to_judge_a_models_rows(cli, layer):
    ran = cli("profile", layer, "--model", "llama-3-70b", "--seq", "8192")
    assert ran.code == 2 and "--hw" in ran.err
