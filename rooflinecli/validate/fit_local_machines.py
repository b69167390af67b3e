"""Refitting the two constants of a token and the one of a prompt with each desk chip left out, as anyone can check.

A token's time is bytes over a share of the bus and an overhead per layer (engines/llamacpp.yaml); a prompt's is work over a share
of the peak. The refit turns what ships by factors, by least squares of predicted over measured: on all chips but one, then on that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.engine.inference import decode, prefill
from rooflinecli.specs.layout import Layout
from rooflinecli.validate import local_machines
from rooflinecli.validate.stats import Array, Table

BOARDS = ("llamacpp_cuda_board", "llamacpp_metal_board", "llamacpp_rocm_board")
GROUPS = {
    "decode": (*BOARDS, "localscore_2026_seen", "localscore_2026"),
    "prefill": BOARDS,
}  # prompts of LocalScore are nine lengths in one figure
FACTORS = {"decode": ("matmul", "overhead"), "prefill": ("matmul",)}
NOTE = (
    "Errors of rates. left out: constants refitted on the other chips of the group; matmul, overhead: by how much the whole group's refit "
    "multiplies the time that ships. Rows shared out over devices are not refitted; LocalScore's are taken as its middle test."
)


@dataclass(frozen=True)
class Timed:
    """Rows of a group: chip, measured seconds, and predicted seconds by part (rows x factors) with what no factor turns."""

    chips: Array
    measured: Array
    parts: Array
    rest: Array

    def predicted(self, factors: Array) -> Array:
        """Seconds at these factors."""
        return np.asarray(self.parts @ factors + self.rest)


def timed(which: str, group: str) -> Timed:
    """The rows of a group that one pass answers, in seconds."""
    chips, measured, parts, rest = [], [], [], []
    for row in local_machines.rows():
        if row["group"] != group or which not in row or (which == "prefill" and "depth" in row) or "devices" in row:
            continue
        seconds, shares = _seconds(which, row)
        held = [shares.get(name, 0.0) for name in FACTORS[which]]
        chips.append(row["hardware"])
        measured.append(seconds)
        parts.append(held)
        rest.append(sum(shares.values()) - sum(held))
    return Timed(np.array(chips), np.array(measured), np.array(parts).reshape(len(chips), -1), np.array(rest))


def _seconds(which: str, row: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Measured seconds of a pass, and the predicted ones by part; of a source that means over tests, the middle one (2048 + 768)."""
    tests = local_machines.tests_of(row)
    prompt, output = tests[3] if tests else (row.get("prompt") if which == "prefill" else None, None)
    found = local_machines.ctx(row, prompt, output)
    answer = decode(found, Layout()) if which == "decode" else prefill(found, Layout())
    tokens = float(row.get("batch", 1)) if which == "decode" else float(found.prompt)
    return tokens / float(row[which]), {k: float(v) for k, v in answer.breakdown_s.items()}


def factors(rows: Timed, seen: Array) -> Array:
    """Factors, none below zero, that bring predicted over measured nearest to one over the rows seen."""
    scaled, left = rows.parts[seen] / rows.measured[seen, None], 1 - rows.rest[seen] / rows.measured[seen]
    found, *_ = np.linalg.lstsq(scaled, left, rcond=None)
    if np.all(found >= 0):
        return np.asarray(found)
    one = np.maximum(found, 0) > 0  # a part that would help by a negative time is left out
    kept, *_ = np.linalg.lstsq(scaled[:, one], left, rcond=None)
    return np.asarray([dict(zip(np.flatnonzero(one), kept, strict=True)).get(i, 0.0) for i in range(len(found))])


def left_out(rows: Timed) -> Array:
    """Seconds of every row by constants that its chip had no part in."""
    made = np.empty(len(rows.measured))
    for chip in np.unique(rows.chips):
        own = rows.chips == chip
        made[own] = rows.predicted(factors(rows, ~own))[own]
    return made


def _line(which: str, group: str) -> dict[str, Any] | None:
    rows = timed(which, group)
    if len(np.unique(rows.chips)) < 3:
        return None
    every = factors(rows, np.ones(len(rows.chips), dtype=bool))
    shipped = np.abs(rows.measured / rows.predicted(np.ones(rows.parts.shape[1])) - 1)
    found = np.abs(rows.measured / left_out(rows) - 1)
    turned = {name: float(f"{value:.3g}") for name, value in zip(FACTORS[which], every, strict=True)}
    said = {"group": group, "rows": len(rows.measured), "chips": len(np.unique(rows.chips))}
    errors = {
        "shipped": float(shipped.mean()),
        "left_out": float(found.mean()),
        "left_out_median": float(np.median(found)),
    }
    return {**said, **errors, **turned}


def tables() -> list[Table]:
    """A line for each group of three chips or more, decode and prefill."""
    made = []
    for which in FACTORS:
        lines = [line for group in GROUPS[which] if (line := _line(which, group)) is not None]
        made.append(Table(f"refit: desk machines, {which}", lines, [NOTE]))
    return made
