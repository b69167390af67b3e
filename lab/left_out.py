"""published_runs/left_out.yaml: constants fitted to the runs of all other models, by which `roofline validate energy` and `rl` predict each.

`python -m lab.left_out` fits them again and rewrites the file; a test compares it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import yaml

from rooflinecli.questions.rl.answer import PUBLISHED as NEMO_RL
from rooflinecli.questions.rl.answer import Constants
from rooflinecli.specs.snapshots import PUBLISHED
from rooflinecli.validate import energy, rl
from rooflinecli.validate.energy import PowerRow
from rooflinecli.validate.stats import Row

FILE = PUBLISHED / "left_out.yaml"
_HEAD = """\
# Constants fitted without the runs that they predict (python -m lab.left_out). power: chip -> model left out -> static, memory and compute of
# formulas/energy.power_fraction, a share of TDP alone for models with experts, whose power their uses of memory and matrix units predict worse
# (docs/energy.md). rl: family of models left out, or mode of verl left out of its modes -> what rollout and trainer take longer, fixed seconds.
"""
GRID = ((1.5, 1.75, 2.0, 2.25, 2.5), (1.0, 1.25, 1.5, 1.75, 2.0), (0.0, 5.0, 10.0, 15.0, 20.0, 30.0))
RECURRENT_GRID = ([a / 20 for a in range(16, 50)], [b / 5 for b in range(4, 30)], (10.0,))


def power_constants(found: list[PowerRow], constant: bool = False) -> tuple[float, float, float]:
    """static, memory and compute of formulas/energy.power_fraction: least relative squares at the measured uses, none below zero,
    rows far off counting less (Huber at 10%). `constant`: static alone, as for models with experts."""
    target = np.array([row.watts / row.tdp for row in found])
    terms = np.array([(1.0, min(m, 1.0), c**0.5) for m, c in (row.measured_use for row in found)]) / target[:, None]
    weight, best = np.ones(len(found)), np.zeros(3)
    for _ in range(10):
        tried = []
        for kept in product((False, True), repeat=3):
            if not any(kept) or (constant and kept != (True, False, False)):
                continue
            solution = np.zeros(3)
            solution[list(kept)] = np.linalg.lstsq(terms[:, kept] * weight[:, None], weight, rcond=None)[0]
            if (solution >= 0).all():
                tried.append((float((((terms @ solution - 1) * weight) ** 2).sum()), solution))
        best = min(tried, key=lambda pair: pair[0])[1]
        off = np.abs(np.minimum(terms @ best, 1 / target) - 1)
        weight = np.sqrt(np.minimum(1.0, 0.1 / np.maximum(off, 1e-9)))
    return float(best[0]), float(best[1]), float(best[2])


def step_constants(seen: list[Row], grid: Sequence[Sequence[float]] = GRID) -> Constants:
    """The constants of least mean error over some rows, on a grid; the rate of the weights is measured and not fitted."""

    def error(constants: Constants) -> float:
        return float(np.mean([abs(rl.composed(row).step(constants)[1].time_s / row["step_s"] - 1) for row in seen]))

    tried = [replace(NEMO_RL, rollout=a, trainer=b, fixed_s=c) for a, b, c in product(*grid)]
    return min(tried, key=error)


def power() -> dict[str, dict[str, list[float]]]:
    """By chip and model, the constants fitted to the other models of the chip."""
    pairs: dict[str, dict[str, list[float]]] = {}
    for hw, model, kind in sorted({(row.hw, row.model, row.kind) for row in energy.rows()}):
        others = [row for row in energy.rows() if row.hw == hw and row.model != model]
        pairs.setdefault(hw, {})[model] = list(power_constants(others, kind == "MoE"))
    return pairs


def steps() -> dict[str, dict[str, float]]:
    """By family of models, and by mode of verl, the constants fitted to the others."""
    found, rows = {}, rl.rows("fit")
    for family in dict.fromkeys(row["group"] for row in rows):
        found[family] = step_constants([row for row in rows if row["group"] != family])
    for mode in (modes := rl.rows("modes")):
        others = [other for other in modes if other["id"] != mode["id"]]
        found[mode["id"]] = step_constants(others, RECURRENT_GRID)
    return {
        name: {key: getattr(best, key) for key in ("rollout", "trainer", "fixed_s")} for name, best in found.items()
    }


def document() -> dict[str, Any]:
    """The tables of the file."""
    return {"power": power(), "rl": steps()}


if __name__ == "__main__":
    dumped = yaml.safe_dump(document(), sort_keys=False, width=200, default_flow_style=None)
    FILE.write_text(_HEAD + dumped, encoding="utf-8")
