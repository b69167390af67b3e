"""The listing of operations: rows that add up to the estimate, counted by hand where that is possible."""

from __future__ import annotations

import csv
import io
import math

import pytest

CASES = [
    ("llama70b", "h100", ()),
    ("deepseek-v3", "h200", ()),
    ("gemma-3-27b", "tpu-v5e", ()),
    ("mixtral-8x7b", "a100", ("--ep", "2", "-n", "8")),
    ("llama70b", "h100", ("--no-flash-attention", "--phase", "train", "--recompute", "selective")),
    ("gpt2", "h100", ("--dtype", "fp8")),
    ("llama70b", "h100", ("--concurrency", "16", "--phase", "decode")),
    ("llama70b", "h100", ("-n", "4", "--pp", "4", "--phase", "decode")),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("model", "hw", "more"), CASES)
def test_the_rows_of_a_phase_add_up_to_its_time(cli, model, hw, more):
    listed = cli("ops", model, "--hw", hw, "--format", "json", *more)
    estimate = cli("estimate", model, "--hw", hw, "--format", "json", *more).json
    for phase, part in listed.json["phases"].items():
        answer, rows = estimate["phases"][phase], part["operations"]
        assert part["time_s"] == answer["time_s"]
        assert math.fsum(row["time_s"] for row in rows) == pytest.approx(answer["time_s"], rel=1e-9)
        assert math.fsum(row["share"] for row in rows) == pytest.approx(1)
        assert not [
            row["name"]
            for row in rows
            if row["launches"] is None and row["group"] in ("matmul", "attention", "elementwise")
        ], "kernels account for their groups, nothing is left over"
        for group, seconds in answer["breakdown_s"].items():
            assert math.fsum(row["time_s"] for row in rows if row["group"] == group) == pytest.approx(
                seconds, rel=1e-9, abs=1e-9 * answer["time_s"]
            )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("model", "hw", "more"), CASES[:4])
def test_every_row_obeys_its_roof(cli, model, hw, more):
    answer = cli("ops", model, "--hw", hw, "--format", "json", *more).json
    roofs = answer["roofs"]
    for part in answer["phases"].values():
        for row in part["operations"]:
            assert row["floor_s"] <= row["time_s"] * (1 + 1e-12)
            if row["flops"]:
                peak = roofs["peak_flops_per_s"][row["dtype"]]
                assert row["intensity_flops_per_byte"] == pytest.approx(row["flops"] / row["bytes"])
                assert row["achieved_flops_per_s"] <= min(
                    peak, row["intensity_flops_per_byte"] * roofs["bandwidth_bytes_per_s"]
                ) * (1 + 1e-12)
                assert row["bound"] == (
                    "compute" if row["flops"] / peak > row["bytes"] / roofs["bandwidth_bytes_per_s"] else "memory"
                )


def shape_flops(shape: str) -> float:
    """FLOPs of '256 x [64, 7168] . [7168, 512]'."""
    copies, _, rest = shape.rpartition("x [") if "x [" in shape else ("1", "", shape.removeprefix("["))
    left, right = rest.split("] . [")
    (m, k), (k2, n) = (part.rstrip("]").split(", ") for part in (left, right))
    assert k == k2
    return 2 * float(copies) * float(m) * float(k) * float(n)


@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
def test_shapes_explain_the_flops(cli, phase):
    rows = cli("ops", "gpt2", "--hw", "h100", "--phase", phase, "--batch", "8", "--format", "json").json["phases"][
        phase
    ]["operations"]
    matmuls = [
        row for row in rows if row["group"] == "matmul" and "k]" not in row["shape"] and "k," not in row["shape"]
    ]
    assert len(matmuls) >= 3
    for row in matmuls:
        assert row["flops"] == pytest.approx(shape_flops(row["shape"]) * row["launches"])


def test_rows_by_hand(cli):
    """Llama 3 70B over two devices: the fused projection is 8192 x (64 + 2 x 8) heads x 128 / 2 wide."""
    rows = cli(
        "ops",
        "llama70b",
        "--hw",
        "h100",
        "-n",
        "2",
        "--tp",
        "2",
        "--phase",
        "decode",
        "--batch",
        "32",
        "--format",
        "json",
    ).json["phases"]["decode"]
    qkv = next(row for row in rows["operations"] if row["name"] == "attention.qkv")
    assert qkv["launches"] == 80
    assert qkv["flops"] == 80 * 2 * 32 * 8192 * 5120
    assert qkv["bytes"] == 80 * 2 * (32 * 8192 + 8192 * 5120 + 32 * 5120)
    assert qkv["shape"] == "[32, 8192] . [8192, 5120]"


def test_equal_operations_of_several_groups_of_layers_are_one_row(cli):
    """DeepSeek-V3: attention is the same in 3 dense layers and 58 with experts."""
    rows = cli("ops", "deepseek-v3", "--hw", "h200", "--phase", "decode", "--format", "json").json["phases"]["decode"]
    launches = {row["name"]: row["launches"] for row in rows["operations"]}
    assert (launches["attention.out"], launches["feedforward.down"]) == (61, 3)


def test_order_and_cut(cli):
    answer = cli(
        "ops", "llama70b", "--hw", "h100", "--phase", "decode", "--sort", "time", "--top", "3", "--format", "json"
    ).json
    times = [row["time_s"] for row in answer["phases"]["decode"]["operations"]]
    assert len(times) == 3 and times == sorted(times, reverse=True)
    assert cli("ops", "llama70b", "--hw", "h100", "--sort", "colour").code == 2


def test_formats(cli):
    words = ("ops", "llama70b", "--hw", "h100", "--phase", "decode")
    table = cli(*words).out
    assert "feedforward.gate_up" in table and "memory" in table
    rows = list(csv.DictReader(io.StringIO(cli(*words, "--format", "csv").out)))
    assert {row["name"] for row in rows} >= {"attention.core", "lm_head", "communication.tp"}
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    assert "\n### decode" in cli(*words, "--format", "markdown").out


@pytest.mark.slow
def test_pictures(cli, tmp_path):
    assert "FLOP per byte" in cli("ops", "llama70b", "--hw", "h100", "--plot", "-").out
    pytest.importorskip("matplotlib")
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"roofline{suffix}"
        assert cli("ops", "llama70b", "--hw", "h100", "--plot", str(path)).code == 0
        assert path.read_bytes().startswith(start)


def test_what_does_not_fit_is_listed_and_exits_1(cli):
    ran = cli("ops", "llama70b", "--hw", "h100", "-n", "1", "--phase", "decode")
    assert ran.code == 1
    assert "does not fit" in ran.out and "attention.qkv" in ran.out


def test_bytes_of_experts_are_those_that_tokens_are_expected_to_visit(cli):
    """4,096 tokens of a prompt visit all eight experts of Mixtral, 3 x 4096 x 14336 in bf16 each, of which a device has half; one token two."""
    expert = 3 * 4096 * 14336 * 2 / 2
    for prompt, visited in ((4096, 8), (1, 2)):
        asked = (
            "--hw",
            "h100",
            "-n",
            "2",
            "--tp",
            "2",
            "--phase",
            "prefill",
            "--prompt",
            str(prompt),
            "--format",
            "json",
        )
        rows = cli("ops", "mixtral-8x7b", *asked).json["phases"]["prefill"]["operations"]
        (experts,) = (row for row in rows if row["name"] == "moe.experts")
        assert (
            experts["bytes"] / 32 - prompt * 2 * 4 * 4096 * 2 < visited * expert * 1.01 < experts["bytes"] / 32 * 1.02
        )
