"""Constant groups, the unknowns of a calibration: one factor on the time of each, with the error of the shipped value as its prior.

A factor is that of the time: above one is slower. A fraction of a peak is divided by it, seconds are multiplied. Every format and
variant of a class moves together, since a handful of rows cannot separate them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.core.num import Number
from rooflinecli.price.overrides import EFFICIENCY, ENGINE, factor

if TYPE_CHECKING:
    from rooflinecli.calibrate.posterior import Array

NORMAL_80 = 1.2815515655446004  # standard deviations within which a normal variable lies with probability 0.8


@dataclass(frozen=True)
class ConstantGroup:
    """One unknown: its name, the shipped relative error (80%), and the constants that move with it."""

    name: str
    error: float
    paths: tuple[str, ...]

    @property
    def deviation(self) -> float:
        """Prior standard deviation of the logarithm of the factor."""
        return math.log1p(self.error) / NORMAL_80

    def factors(self, x: float | Array) -> dict[str, Number]:
        """Constants -> their factor where the logarithm of the group's is x (a number or an array)."""
        import numpy as np

        slower = np.exp(x)
        return {path: factor(path, slower) for path in self.paths}


def _paths(*texts: str) -> tuple[str, ...]:
    """'matmul gather .memory' -> the field of each class; 'engine.x y' as it stands."""
    found = []
    for text in texts:
        kinds, _, names = text.partition(" .")
        found += [f"{EFFICIENCY}.{kind}.{name}" for kind in kinds.split() for name in names.split()]
    return tuple(found)


def _engine(*names: str) -> tuple[str, ...]:
    return tuple(f"{ENGINE}.{name}" for name in names)


# errors: of the shipped classes (hardware/defaults/gpu.yaml, engines/python-server.yaml), rounded to what left-out families showed
TRAINING = (
    ConstantGroup("matmul", 0.1618, _paths("matmul .compute")),
    ConstantGroup("experts", 0.316, _paths("grouped_matmul .compute")),
    ConstantGroup("attention", 0.194, _paths("prefill_attention scores .compute")),
    ConstantGroup("memory", 0.16, _paths("elementwise gather optimizer matmul grouped_matmul .memory")),
    ConstantGroup("collective", 0.194, _paths("collective .memory")),
    ConstantGroup(
        "exposure",
        0.212,
        _paths("tp_collective pp_collective ep_collective cp_collective fsdp_collective dp_collective .overlap"),
    ),
    ConstantGroup(
        "launch",
        0.45,
        _paths(
            "matmul grouped_matmul prefill_attention scores elementwise gather optimizer .overhead",
            "step .per_moe_layer",
        ),
    ),
    ConstantGroup("straggler", 0.322, _paths("straggler .per_doubling")),
)
SERVING = (
    ConstantGroup("stream", 0.4, _paths("matmul grouped_matmul elementwise gather .memory")),
    ConstantGroup("cache", 0.4, _paths("decode_attention latent_attention prefill_attention .memory")),
    ConstantGroup("compute", 0.4, _paths("matmul prefill_attention decode_attention latent_attention .compute")),
    ConstantGroup("experts", 0.6, _paths("grouped_matmul .compute")),
    ConstantGroup("collective", 0.5, _paths("collective .memory overhead per_hop gamma")),
    ConstantGroup(
        "layer",
        0.6,
        (
            *_paths("step .per_layer per_moe_layer"),
            *_engine("per_layer", "per_moe_layer", "prompt_per_layer", "prompt_per_moe_layer"),
        ),
    ),
    ConstantGroup("engine", 0.6, _engine("per_step", "per_sequence", "per_sequence_moe")),
)
QUEUE = ConstantGroup("queue", 0.52, _engine("look_ahead", "front", "per_stream"))
BLOCKS: dict[str, tuple[ConstantGroup, ...]] = {
    "train": TRAINING,
    "decode": SERVING,
    "prefill": SERVING,
    "ttft": (*SERVING, QUEUE),
}


def merged(phase: str, x: Array) -> dict[str, Number]:
    """Factors of all groups of a phase at `x`, whose first axis is the groups."""
    found: dict[str, Number] = {}
    for block, value in zip(BLOCKS[phase], x, strict=True):
        for path, moved in block.factors(value).items():
            found[path] = found[path] * moved if path in found else moved
    return found
