"""A full mesh (xGMI): every pair has its own link, so only all devices together reach the aggregate rate of the file."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.price.chip import LevelNumbers
from rooflinecli.price.fabrics.switch import at_rate
from rooflinecli.price.fabrics.types import GroupSpan, LevelPrice


def cost(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """Price of `op` among the members' own links; a permute has the link of one pair."""
    members = 2.0 if op == "permute" else span.fan
    return at_rate(op, size, span, level, regime, f.mesh_bandwidth(level.bandwidth, level.size, members))
