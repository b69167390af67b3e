"""Devices that the widest group of a layout spans: the size of an axis times the devices between two of its members."""

from __future__ import annotations

import pytest

from rooflinecli.engine.legality import _widest_group
from rooflinecli.specs.layout import Layout


@pytest.mark.parametrize(
    "phase, sizes, devices",
    [
        ("train", {}, 1), ("decode", {}, 1), ("train", {"tp": 4}, 4), ("decode", {"tp": 4}, 4),
        ("train", {"tp": 2, "dp": 8}, 16),  # replicas exchange gradients
        ("decode", {"tp": 2, "dp": 8}, 2),  # and in serving nothing
        ("decode", {"tp": 2, "pp": 3}, 6), ("train", {"tp": 2, "pp": 3, "dp": 4}, 24), ("train", {"cp": 2, "tp": 3}, 6),
        ("decode", {"tp": 2, "dp": 8, "ep": 8}, 16),  # experts over the replicas
        ("decode", {"tp": 1, "dp": 8, "ep": 4}, 4),
    ],
)  # fmt: skip
def test_the_widest_group(phase, sizes, devices):
    assert _widest_group(Layout(**{name: float(size) for name, size in sizes.items()}), phase) == devices
