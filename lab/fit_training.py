"""Refit of the constants of training to published steps: on half of the rows, and with each family left out.

Loss: absolute log(predicted / measured), a family weighted by the root of its size, over tables of what the engine answers
(lab.training_response_tables). Errors shown are the engine's own. `python -m lab.fit_training` (minutes).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, median
from typing import Any

import numpy as np

from lab.fit import ABSOLUTE, Array, Constant, Values, fit, half_by_name
from lab.show import show
from lab.training_constants import FREE, Row, moe
from lab.training_response_tables import ConstantResponse, answered, names_of, tabulate
from rooflinecli.validate.published_training import family
from rooflinecli.validate.published_training import timed as rows
from rooflinecli.validate.stats import Table

PRIOR = 0.05  # weight of (ln of a rate over that of an unknown chip)^2: decides only what rows leave open, such as matmuls against attention on one length
UNSEEN_ERROR = 0.25  # of a framework or chip that no fit saw
UNSEEN = ("korthikanti_t5", "torchtune", "whole_runs")  # in no fit, here or in what ships
COLUMNS = ("fitted", "shipped", "left_out", "left_out_median", "left_out_inside")


def fitted(row: Row) -> bool:
    """Whether the half that a fit sees has the row."""
    return half_by_name(row["id"])


def error(row: Row, constants: Values) -> float:
    """Signed error of the engine with some constants replaced."""
    return float(answered(row, constants).time_s) / float(row["step_s"]) - 1


def fit_to(seen: Iterable[Row], names: Iterable[str] = FREE) -> Values:
    """Constants that fit these rows; one that moves none of them keeps the value of a chip or framework without measurements."""
    seen = [row for row in seen if family(row) not in UNSEEN]
    constants, allowed = {name: math.sqrt(FREE[name].low * FREE[name].high) for name in names}, np.ones(len(seen), bool)
    for _ in range(3):  # tables around the middle of the ranges, then around the result
        constants = solve(tabulate(seen, constants), seen, allowed)
    return constants


def solve(response: ConstantResponse, seen: list[Row], allowed: Array) -> Values:
    """Constants that fit the allowed ones of the rows behind a response."""
    sizes: dict[str, int] = {}
    for row, counts in zip(seen, allowed, strict=True):
        sizes[family(row)] = sizes.get(family(row), 0) + bool(counts)
    weights = np.array([c / math.sqrt(max(sizes[family(r)], 1)) for r, c in zip(seen, allowed, strict=True)])
    measured = np.array([float(row["step_s"]) for row in seen])
    informed = [name for name, moved in response.moved.items() if weights[moved].any()]
    fixed = {name: unknown(name, response.around) for name in response.around if name not in informed}
    if informed:
        free = {name: _constant(name) for name in informed}
        found = fit(
            free,
            lambda values: np.log(response.total({**fixed, **values}) / measured),
            ABSOLUTE * weights,  # so that a loss is the error itself
            ABSOLUTE,
            [{name: response.around[name] for name in informed}],
        )
        fixed |= found
    return {name: fixed[name] if name in informed else unknown(name, fixed) for name in response.around}


def _constant(name: str) -> Constant:
    """A constant of training: rates of kernels are pulled a little toward that of an unknown chip."""
    free = FREE[name]
    if free.rate and not isinstance(free.unknown, str):
        return Constant(free.low, free.high, free.unknown, PRIOR)
    return Constant(free.low, free.high)


def unknown(name: str, constants: Values) -> float:
    """The value of a constant that no row determines."""
    value = FREE[name].unknown
    return constants.get(value, math.sqrt(FREE[value].low * FREE[value].high)) if isinstance(value, str) else value


def tables() -> list[Table]:
    """By family: the shipped constants and those fitted to half of all rows, on the other half; and with the family left out."""
    seen = [row for row in rows() if family(row) not in UNSEEN]
    whole = fit_to(seen)
    response = tabulate(seen, whole)
    halves = solve(response, seen, np.array([fitted(row) for row in seen]))
    groups: dict[str, list[Row]] = {}
    for row in rows():
        groups.setdefault(family(row), []).append(row)
    scored = []
    for name, members in groups.items():
        others = solve(response, seen, np.array([family(row) != name for row in seen]))
        scored += [_scored(row, halves, others) for row in members]
    shown = ", ".join(f"{name} {halves[name]:.3g} / {value:.3g}" for name, value in whole.items())
    notes = [
        "fitted: mean error on the half that its fit did not see; left out: all rows of the family, with every constant fitted to the other "
        "families alone, or at the value of an unknown framework or chip where no other moves it; then the share of them inside the 80% interval, which "
        f"{UNSEEN_ERROR} widens where a constant is at that value, as for frameworks that no fit saw. "
        "The last line gives every family the same weight.",
        f"Fitted to half / to all: {shown}.",
    ]
    families = [_line(name, [one for one in scored if one["group"] == name]) for name in groups]
    kinds = [
        _line(kind, [one for one in scored if one["moe"] == moe]) for kind, moe in (("dense", False), ("MoE", True))
    ]
    means = {key: fmean(line[key] for line in families) for key in COLUMNS}
    alike = {"group": "mean over families", "rows": len(families), **means}
    return [Table("refit: training", [*families, *kinds, _line("all", scored), alike], notes)]


def _scored(row: Row, halves: Values, others: Values) -> dict[str, Any]:
    """Errors of one row under the three sets of constants, and whether its interval without the family holds it."""
    left_out = {name: others[name] for name in names_of(row)}
    unseen = any(value == unknown(name, others) for name, value in left_out.items())
    answer = answered(row, left_out)
    width = math.hypot(answer.interval_s[1] / answer.time_s - 1, UNSEEN_ERROR * unseen)
    return {
        "group": family(row),
        "moe": moe(row),
        "tested": not fitted(row),
        "fitted": abs(error(row, halves)),
        "shipped": abs(error(row, {})),
        "left_out": abs(answer.time_s / row["step_s"] - 1),
        "left_out_inside": bool(1 / (1 + width) <= row["step_s"] / answer.time_s <= 1 + width),
    }


def _line(group: str, scored: list[dict[str, Any]]) -> dict[str, Any]:
    tested = [one["fitted"] for one in scored if one["tested"]] or [one["fitted"] for one in scored]
    column = {key: [one[key] for one in scored] for key in ("shipped", "left_out", "left_out_inside")}
    return {
        "group": group,
        "rows": len(scored),
        "fitted": fmean(tested),
        **{key: fmean(values) for key, values in column.items()},
        "left_out_median": median(column["left_out"]),
    }


if __name__ == "__main__":
    show(tables())
