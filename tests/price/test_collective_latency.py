"""The latency that a collective is said to have is part of its time, whichever algorithm the library picks."""

from __future__ import annotations

import pytest
from conftest import run_cli

from rooflinecli.core.lift import PLAIN
from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import price_collective
from rooflinecli.questions.collective.answer import collective
from rooflinecli.specs.hardware import load_hardware


@pytest.mark.sampled(30)
@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"])
@pytest.mark.parametrize("devices", [8, 16, 1024, 65536])
@pytest.mark.parametrize("size", [1e3, 64e6, 10e9])
@pytest.mark.parametrize("chip", ["h100-sxm", "gb200", "a100-sxm-80gb", "mi300x", "tpu-v5e"])
def test_no_level_waits_longer_than_it_takes(chip: str, size: float, devices: int, op: str) -> None:
    found = collective(op, size, load_hardware(chip), devices)
    for level in found["levels"]:
        assert level["latency_s"] <= level["expected_s"] * (1 + 1e-12), (level, found["algorithm"])


def test_a_tree_waits_for_its_depth_and_not_for_a_ring() -> None:
    """1,024 hosts make 20 steps of a tree and 2,046 of a ring: from 128 to 1,024 hosts its latency grows by some steps, not eightfold."""
    near, far = (collective("all-reduce", 64e6, load_hardware("h100-sxm"), n)["levels"][-1] for n in (1024, 8192))
    assert near["algorithm"] == far["algorithm"] == "tree"
    assert near["latency_s"] < far["latency_s"] < 1.6 * near["latency_s"]


def test_one_port_of_a_host_makes_a_tree_no_faster_than_its_wire() -> None:
    """With r rails as one, only what is not latency takes r times as long: between the time and r times it."""
    chip = Chip(load_hardware("h100-sxm"), PLAIN)
    whole, one = (
        price_collective(
            Collective("all-reduce", "all-reduce", 64e6, "all-reduce", 8192.0, 1.0, rails=rails), chip, "kernel", 8192.0
        )
        for rails in (1.0, 0.125)
    )
    assert whole.expected < one.expected < 8 * whole.expected


@pytest.mark.parametrize(("chip", "levels"), [("tpu-v5p", ["t_0"]), ("h100", ["t_0", "t_1"])])
def test_a_derivation_names_each_level_and_joins_only_where_there_are_two(chip, levels):
    shown = run_cli("collective", "all-gather", "32MiB", "--hw", chip, "-n", "64", "--explain", "time_s").out
    assert all(f"{level} = " in shown for level in levels) and "max(t_comm" not in shown
    assert ("pipelined_time" in shown) == ("t_lat_0" in shown) == (len(levels) > 1)
