"""Published rows of machines on a desk held against the shipped constants."""

from __future__ import annotations

import pytest

from lab import implausible_rows
from lab.implausible_rows import beaten_by_lesser
from rooflinecli.validate import local_machines
from rooflinecli.validate.stats import joined, summary


def test_rows_that_a_lesser_chip_beats_twofold_stand_apart():
    lesser = {
        "id": "a",
        "group": "x",
        "model": "llama-3-8b",
        "weights": "q",
        "engine": "llamacpp-2024",
        "hardware": "rtx-3090",
        "decode": 100.0,
    }
    slow = {**lesser, "id": "b", "group": "localscore_2026", "hardware": "a100-pcie-80", "decode": 49.0}
    slow |= {"model": "llama-3.1-8b", "engine": "llamafile"}  # the same layers, and another build of llama.cpp
    assert beaten_by_lesser((lesser, slow)) == {"b"}
    assert not beaten_by_lesser((lesser, {**slow, "decode": 51.0}))  # not twice
    assert not beaten_by_lesser((lesser, {**slow, "model": "mistral-7b"}))  # another file
    assert not beaten_by_lesser((lesser, {**slow, "engine": "mlx"}))  # other kernels
    assert not beaten_by_lesser((lesser, {**slow, "hardware": "rtx-3060-12"}))  # the other is no lesser chip
    assert not beaten_by_lesser((lesser, {**slow, "hardware": "mi300x"}))  # nor of the same maker
    assert not beaten_by_lesser((lesser, {**slow, "group": "llamacpp_cuda_board"}))  # of no database
    assert not beaten_by_lesser((lesser, {"prefill": 1.0, **{k: v for k, v in slow.items() if k != "decode"}}))


@pytest.mark.slow
def test_the_file_names_the_rows_that_the_rule_sets_apart():
    assert implausible_rows.FILE.read_text(encoding="utf-8") == implausible_rows.text(), (
        "python -m lab.implausible_rows"
    )


@pytest.mark.slow
def test_what_is_set_apart_is_scored_with_and_without():
    lines = {line["group"]: line for line in local_machines.tables()[0].rows}
    whole, kept = lines["all left out"], lines["all left out, comparable"]
    assert whole["rows"] + whole["suspect"] - kept["rows"] - kept["suspect"] == len(local_machines.implausible()) > 10
    assert kept["median"] < 0.08 and 0.75 <= kept["coverage"] <= 0.92 and whole["rows"] > 280


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "group", "mean"),
    [("decode", "llamacpp_metal_board", 0.06), ("decode", "llamacpp_cuda_board", 0.10), ("prefill", "llamacpp_metal_board", 0.06), ("prefill", "llamacpp_cuda_board", 0.14), ("decode", "llamacpp_dgx_spark", 0.08), ("decode", "mlx_2026", 0.08), ("decode", "llmfit_2026", 0.1), ("decode", "llamacpp_dgx_spark_batched", 0.1), ("prefill", "llamacpp_cuda_gptoss", 0.13)],
)  # fmt: skip
def test_published_rows(which, group, mean):
    """Errors of the shipped constants as measured when they were shipped; the last group was in no fit."""
    assert summary(local_machines.points(which, group))["mean"] < mean


def test_no_published_decode_rate_beats_the_bus():
    fitted = [
        local_machines.points("decode", g)
        for g in ("llamacpp_metal_board", "llamacpp_vulkan_board", "llamacpp_rocm_board")
    ]
    found = summary(joined("all", fitted))
    assert found["suspect"] == 0 and found["below_floor"] == 0
    assert 0.7 <= found["coverage"] <= 0.98
