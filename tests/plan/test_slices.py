"""Slices that a cloud rents: counts by hand from the tables of Google's pages, in every verb that takes a count."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from conftest import run_cli

from rooflinecli.specs.hardware import Slices, load_hardware
from rooflinecli.specs.name_lookup import split_count


def by_hand(chip: str) -> set[int]:
    """Counts of one slice: cloud.google.com/tpu/docs/v5e, v6e and v5p, v4."""
    if chip in ("tpu-v5e", "tpu-v6e"):
        return {a * b for a, b in ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))}
    most = {"tpu-v5p": (16, 16, 24), "tpu-v4": (16, 16, 16)}[chip]
    cubes = {a * b * c for a, b, c in itertools.product(*(range(4, edge + 1, 4) for edge in most))}
    small = {2 * 2 * 1, 2 * 2 * 2, 2 * 2 * 4, 2 * 4 * 4}
    return cubes | small | ({12 * 12 * 24} if chip == "tpu-v4" else set())


@pytest.mark.parametrize("chip", ["tpu-v5e", "tpu-v6e", "tpu-v5p", "tpu-v4"])
def test_slices_are_those_of_the_documentation(chip: str) -> None:
    slices = load_hardware(chip).slices
    assert slices is not None and set(slices.single) == by_hand(chip)
    largest = max(by_hand(chip))
    for n in slices.up_to(4 * largest):
        assert n in by_hand(chip) or any(n % s == 0 for s in by_hand(chip) if 2 * s >= largest), n


def test_nearest_counts_enclose_the_one_asked_for() -> None:
    slices = load_hardware("tpu-v5p").slices
    assert slices is not None
    assert slices.nearest(36) == [32, 64] and slices.nearest(1664) == [1536, 1728] and slices.nearest(2048) == [2048]
    assert slices.nearest(1) == [4] and slices.nearest(18_432) == [18_432]  # three slices of 16x16x24


@pytest.mark.parametrize(
    ("name", "count", "chip"),
    [
        ("tpu7x-4x4x4", 64, "tpu7x"),  # a topology counts chips
        ("v5e-4x8", 32, "v5e"),
        ("v5p-4096", 2048, "v5p"),  # Google's name counts TensorCores, two per chip
        ("tpu-v4-64", 32, "tpu-v4"),
        ("v5litepod-16", 16, "v5litepod"),
        ("v6e-8", 8, "v6e"),
        ("v5e-256", None, "v5e-256"),  # a file of its own: the whole pod
        ("8xH100", 8, "H100"),
        ("h100", None, "h100"),
    ],
)
def test_a_name_of_a_slice_is_a_chip_and_a_count(name: str, count: int | None, chip: str) -> None:
    assert split_count("hardware", name) == (count, chip)


def answer(*args: str, code: int = 0) -> dict[str, Any]:
    ran = run_cli(*args, "--format", "json")
    assert ran.code == code, ran.err
    return ran.json


@pytest.mark.slow
def test_estimate_notes_a_count_that_nobody_rents() -> None:
    notes = answer("estimate", "llama-3-8b", "--hw", "tpu-v5e", "-n", "48", "--phase", "train")["notes"]
    assert "no slice of TPU v5e has 48 chips; the nearest have 32 and 64" in notes
    quiet = answer("estimate", "llama-3-8b", "--hw", "v5p-4096", "--phase", "train", "--batch", "2048")
    assert quiet["layout"]["devices"] == 2048 and not any("no slice" in note for note in quiet.get("notes") or ())


def test_search_refuses_a_count_that_nobody_rents() -> None:
    ran = run_cli("search", "llama-3-8b", "--hw", "tpu-v5p", "-n", "36")
    assert ran.code == 2 and "no slice of TPU v5p has 36 chips; the nearest have 32 and 64" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["tpu-v5e", "tpu-v5p"])
def test_a_plan_lists_only_counts_that_are_rented(chip: str) -> None:
    """The fewest of all slices: no smaller slice finishes in time."""
    run = ["llama-3-8b", "--tokens", "100B", "--batch", "512", "--deadline", "6d"]
    (row,) = answer("plan", *run, "--hw", chip)["rows"]
    slices = load_hardware(chip).slices
    assert slices is not None and row["feasible"]
    assert {count["devices"] for count in row["tried"]} <= set(slices.up_to(131_072))
    below = slices.up_to(row["devices"] - 1)[-1]
    assert not answer("plan", *run, "--hw", chip, "-n", str(below), code=1)["feasible"]


def test_several_slices_are_of_at_least_half_the_largest():
    """Of 4 and 8 chips: 12 are three of the smaller, which is half of the largest; of 2, 4 and 16, 20 are none."""
    assert Slices(chips=[4, 8], source="test").up_to(24) == [4, 8, 12, 16, 20, 24]
    assert Slices(chips=[2, 4, 16], source="test").up_to(40) == [2, 4, 16, 32]
