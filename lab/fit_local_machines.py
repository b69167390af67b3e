"""Refit of the constants of llama.cpp on local machines with each chip left out.

A token's time is bytes over a share of the memory bandwidth and an overhead per layer (engines/llamacpp.yaml), a prompt's is work over
a share of the peak. The refit multiplies those parts by non-negative factors that bring predicted over measured nearest to one, in
least squares. `python -m lab.fit_local_machines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.fit import Array, leave_one_out
from lab.show import show
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.specs.layout import Layout
from rooflinecli.validate import local_machines
from rooflinecli.validate.stats import Table

BOARDS = ("llamacpp_cuda_board", "llamacpp_metal_board", "llamacpp_rocm_board")
GROUPS = {
    "decode": (*BOARDS, "localscore_2026_seen", "localscore_2026"),
    "prefill": BOARDS,  # LocalScore gives one figure for prompts of nine lengths
}
FACTORS = {"decode": ("matmul", "overhead"), "prefill": ("matmul",)}
NOTE = (
    "Errors of rates. left out: constants refitted on the other chips of the group; matmul, overhead: the factor of the whole group's "
    "refit on the shipped time. Rows over several devices are not refitted; LocalScore's are taken as its middle test."
)


@dataclass(frozen=True)
class TimedRows:
    """Rows of a group: chip, measured seconds, predicted seconds of the parts with a factor [rows, factors] and of the rest [rows]."""

    chips: Array
    measured: Array
    parts: Array
    rest: Array

    def predicted(self, factors: Array) -> Array:
        """Seconds [rows] with the parts multiplied by factors."""
        return self.parts @ factors + self.rest

    def fit(self, rows: Array) -> Array:
        """Non-negative factors that fit the rows of a mask."""
        from scipy.optimize import nnls

        measured = self.measured[rows]
        return nnls(self.parts[rows] / measured[:, None], np.maximum(1 - self.rest[rows] / measured, 0))[0]

    def left_out(self) -> Array:
        """Seconds [rows], each chip's from factors fitted to the other chips."""
        found = np.empty(len(self.measured))
        for _, own, factors in leave_one_out(self.chips, self.fit):
            found[own] = self.predicted(factors)[own]
        return found


def timed(phase: str, group: str) -> TimedRows:
    """The rows of a group that run on one device in one pass."""
    chips, measured, parts, rest = [], [], [], []
    for row in local_machines.rows():
        if row["group"] != group or phase not in row or (phase == "prefill" and "depth" in row) or "devices" in row:
            continue
        tests = local_machines.tests_of(row)  # of a source that means over tests, the middle one (2048 + 768)
        prompt, output = tests[3] if tests else (row.get("prompt") if phase == "prefill" else None, None)
        ctx = local_machines.ctx(row, prompt, output)
        answer = decode(ctx, Layout()) if phase == "decode" else prefill(ctx, Layout())
        tokens = float(row.get("batch", 1)) if phase == "decode" else float(ctx.prompt)
        shares = {name: float(seconds) for name, seconds in answer.breakdown_s.items()}
        chips.append(row["hardware"])
        measured.append(tokens / float(row[phase]))
        parts.append([shares.pop(name, 0.0) for name in FACTORS[phase]])
        rest.append(sum(shares.values()))
    return TimedRows(np.array(chips), np.array(measured), np.array(parts).reshape(len(chips), -1), np.array(rest))


def tables() -> list[Table]:
    """A line for each group of three chips or more, decode and prefill."""
    return [
        Table(
            f"refit: local machines, {phase}", [line for group in GROUPS[phase] for line in _line(phase, group)], [NOTE]
        )
        for phase in FACTORS
    ]


def _line(phase: str, group: str) -> list[dict[str, Any]]:
    rows = timed(phase, group)
    chips = len(np.unique(rows.chips))
    if chips < 3:
        return []
    whole = rows.fit(np.ones(len(rows.chips), dtype=bool))
    shipped, left_out = (
        np.abs(rows.measured / seconds - 1)
        for seconds in (rows.predicted(np.ones(rows.parts.shape[1])), rows.left_out())
    )
    line = {
        "group": group,
        "rows": len(rows.measured),
        "chips": chips,
        "shipped": float(shipped.mean()),
        "left_out": float(left_out.mean()),
        "left_out_median": float(np.median(left_out)),
    }
    return [line | {name: float(f"{factor:.3g}") for name, factor in zip(FACTORS[phase], whole, strict=True)}]


if __name__ == "__main__":
    show(tables())
