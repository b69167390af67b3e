"""Values that papers and manuals print, each with its citation: none of them is this program's own output."""

from __future__ import annotations

import pytest


def answer(cli, *argv: str) -> dict:
    ran = cli(*argv, "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json


def test_sardana_13b_against_7b(cli):
    """Sardana et al. 2024, figure 1: 13B quality and 2T tokens served; a 7B model saves 1.7e22 FLOPs, 17 %."""
    options = answer(cli, "scaling", "inference-aware", "-p", "13B", "--tokens-served", "2T", "--instead", "7B")[
        "options"
    ]
    saved = options["as_given"]["lifetime_flops"] - options["instead"]["lifetime_flops"]
    assert saved == pytest.approx(1.7e22, rel=0.01)
    assert options["instead"]["saving"] == pytest.approx(0.17, abs=0.005)
    assert options["inference_aware"]["params"] == pytest.approx(7e9, rel=0.01)


def test_besiroglu_agrees_with_twenty_tokens_per_parameter(cli):
    """Besiroglu et al. 2024, section 4: at Gopher's compute the corrected fit gives about 20 tokens per parameter."""
    fits = answer(cli, "scaling", "chinchilla", "--flops", "5.76e23")["fits"]
    assert fits["besiroglu"]["tokens_per_param"] == pytest.approx(20, rel=0.1)
    assert fits["besiroglu"]["params"] == pytest.approx(70e9, rel=0.05)


def test_hoffmann_approach_3_at_the_compute_of_gopher(cli):
    """Hoffmann et al. 2022, section 3.3: approach 3 predicts a 40-billion-parameter model for Gopher's budget."""
    fits = answer(cli, "scaling", "chinchilla", "--flops", "5.76e23")["fits"]
    assert fits["hoffmann-tex"]["params"] == pytest.approx(40e9, rel=0.05)


@pytest.mark.parametrize(
    ("acceptance", "length", "operations", "speed"),
    [
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_leviathan_table_1(cli, acceptance, length, operations, speed):
    """Leviathan et al. 2023, table 1: operations and speed over plain decoding with a free draft."""
    row = answer(cli, "speculate", "-a", str(acceptance), "-c", "0", "-k", str(length))["lengths"]["as_given"]
    assert row["operations"] == pytest.approx(operations, abs=0.006)
    assert row["speedup"] == pytest.approx(speed, abs=0.006)


@pytest.mark.parametrize(("threads", "blocks", "occupancy"), [(128, 12, 0.75), (320, 4, 0.63)])
def test_cuda_best_practices_register_pressure(cli, threads, blocks, occupancy):
    """NVIDIA CUDA C++ Best Practices Guide, 'Register Pressure': 37 registers a thread on compute capability 7.0."""
    got = answer(cli, "occupancy", "sm", "-t", str(threads), "-r", "37", "--capability", "7.0")
    assert got["blocks"] == blocks
    assert got["occupancy"] == pytest.approx(occupancy, abs=0.006)
    assert got["limited_by"] == "registers"


def test_kaplan_critical_batch(cli):
    """Kaplan et al. 2020, section 5.1: B* = 2e8 tokens, alpha_B = 0.21; a loss of 1 is B* itself."""
    assert answer(cli, "scaling", "batch", "--loss", "1")["critical_batch_tokens"] == pytest.approx(2e8)


def test_mccandlish_twice_the_steps_at_the_critical_batch(cli):
    """McCandlish et al. 2018, section 2.3: at B_crit a run takes twice the least steps and twice the least examples."""
    rows = answer(cli, "scaling", "batch", "--examples-min", "3e6", "--steps-min", "2e3")["batches"]["critical"]
    assert (rows["steps"], rows["examples"]) == (pytest.approx(4e3), pytest.approx(6e6))


def test_llama_2_70b_training_is_far_past_compute_optimal(cli):
    """Touvron et al. 2023: 70B on 2T tokens, 29 a parameter; the rule of thumb stops at 1.4T."""
    got = answer(cli, "scaling", "loss", "-p", "llama-2-70b", "--tokens", "2T")
    assert got["tokens_per_param"] == pytest.approx(29, rel=0.02)
    assert got["optimum_at_this_compute"]["besiroglu"]["tokens_per_param"] < got["tokens_per_param"]
