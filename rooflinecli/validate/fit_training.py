"""Refitting the constants of training that were fitted to published steps: on half of the rows, and with each family left out.

Loss: mean |log(predicted / measured)|, a family weighted by the root of its size; search: fit.minimise, one constant after the other on
its logarithm between the bounds, over tables of what the engine answers (training_response). Errors shown are the engine's own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from statistics import fmean, median

import numpy as np

from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.validate.fit_kernels import minimize
from rooflinecli.validate.published_training import family
from rooflinecli.validate.published_training import timed as rows
from rooflinecli.validate.stats import Array, Table, half_by_name
from rooflinecli.validate.training_constants import FREE, Row, moe
from rooflinecli.validate.training_response_tables import ConstantResponse, Constants, answered, names_of, tabulate

SWEEPS, STEPS = 4, 16
PRIOR = 0.05  # weight of (ln of a rate over that of an unknown chip)^2: decides only what rows leave open, such as matmuls against attention on one length
STRANGER = 0.25  # base error of a framework or chip that no fit saw (hardware/defaults, residual)
LIMIT_S = 900.0  # the refit of all families stops here, and says which it did not reach
UNSEEN = ("korthikanti_t5", "torchtune", "whole_runs")  # in no fit, here or in what ships
Done = Callable[[int], None]


def fitted(row: Row) -> bool:
    """The half that a fit sees."""
    return half_by_name(row["id"])


def error(row: Row, constants: Constants) -> float:
    """Signed error of the engine with some constants replaced."""
    return _error(row, answered(row, constants))


def _error(row: Row, answer: TrainAnswer) -> float:
    return float(answer.time_s) / float(row["step_s"]) - 1


def inside(row: Row, answer: TrainAnswer) -> bool:
    """Whether the 80 % interval of an answer holds what was measured."""
    low, high = answer.interval_s
    return bool(low <= row["step_s"] <= high)


def start(names: Iterable[str]) -> Constants:
    """Constants in the middle of their ranges."""
    return {name: math.sqrt(FREE[name].low * FREE[name].high) for name in names}


def fit(seen: Iterable[Row], names: Iterable[str] = FREE, done: Done = lambda count: None) -> Constants:
    """Constants that fit these rows; one that moves none of them keeps the value of a chip or framework nobody measured."""
    seen = [row for row in seen if family(row) not in UNSEEN]
    constants, allowed = start(names), np.ones(len(seen), dtype=bool)
    for _ in range(3):  # tables around the middle, then around what they gave
        constants = settle(tabulate(seen, constants, done), seen, allowed)
    return constants


def settle(response: ConstantResponse, seen: list[Row], allowed: Array) -> Constants:
    """Constants that fit the allowed ones of the rows behind a response."""
    measured, weights = np.array([float(row["step_s"]) for row in seen]), _weights(seen, allowed)
    told = {name: bool(weights[moved].any()) for name, moved in response.moved.items()}
    constants = {n: v if told[n] else unknown(n, response.around) for n, v in response.around.items()}
    total = response.total(constants)
    for _ in range(SWEEPS):
        for name, moved in response.moved.items():
            if not told[name]:
                continue
            without = total[moved] - response.part(name, constants[name])
            constants[name] = _best(name, response, without, measured[moved], weights[moved], constants[name])
            total[moved] = without + response.part(name, constants[name])
    return {n: v if told[n] else unknown(n, constants) for n, v in constants.items()}


def unknown(name: str, constants: Constants) -> float:
    """The value of a constant that no row tells."""
    value = FREE[name].unknown
    return constants.get(value, math.sqrt(FREE[value].low * FREE[value].high)) if isinstance(value, str) else value


def _weights(seen: list[Row], allowed: Array) -> Array:
    """Weights of rows, a family's together the root of how many of them count; none for what is not allowed."""
    sizes: dict[str, int] = {}
    for row, counts in zip(seen, allowed, strict=True):
        sizes[family(row)] = sizes.get(family(row), 0) + bool(counts)
    return np.array([c / math.sqrt(max(sizes[family(row)], 1)) for row, c in zip(seen, allowed, strict=True)])


def _best(name: str, response: ConstantResponse, without: Array, measured: Array, weights: Array, now: float) -> float:
    """One constant, the others fixed; a bounded search from where it stands and from both sides of it."""
    low, high = math.log(FREE[name].low), math.log(FREE[name].high)

    def value(point: Array) -> float:
        return math.exp(min(max(math.log(now) + float(point[0]), low), high))

    def loss(point: Array) -> float:
        seconds = np.maximum(without + response.part(name, value(point)), 1e-9)
        known = FREE[name].unknown
        prior = 0.0 if isinstance(known, str) or not FREE[name].rate else PRIOR * math.log(value(point) / known) ** 2
        return float((weights * np.abs(np.log(seconds / measured))).sum()) + prior

    starts = [np.array([shift]) for shift in (0.0, -0.8, 0.4)]
    return value(min((minimize(loss, start, STEPS) for start in starts), key=loss))


def work() -> int:
    """Rows that a refit prices, for a progress bar."""
    return 4 * len([row for row in rows() if family(row) not in UNSEEN]) + 2 * len(rows())


def refitted(done: Done = lambda count: None) -> list[Table]:
    """By family: the shipped constants and those fitted to the other half of all rows, on the half not fitted; and with the family left out."""
    begun, seen = time.monotonic(), [row for row in rows() if family(row) not in UNSEEN]
    around = fit(seen, FREE, done)
    response = tabulate(seen, around, done)
    halves = settle(response, seen, np.array([fitted(row) for row in seen]))
    groups: dict[str, list[Row]] = {}
    for row in rows():
        groups.setdefault(family(row), []).append(row)
    found, late = [], []
    for name, members in groups.items():
        if time.monotonic() - begun > LIMIT_S:
            late.append(name)
            continue
        without = settle(response, seen, np.array([family(row) != name for row in seen]))
        found.append(_Family(name, members, halves, without, done))
    return [Table("refit: training", [*(f.line() for f in found), *_sums(found)], _notes(halves, around, late))]


class _Family:
    """Errors of one family: with constants fitted to half of all rows, with those that ship, and with those of the other families."""

    def __init__(self, name: str, members: list[Row], halves: Constants, without: Constants, done: Done):
        self.name, self.rows = name, len(members)
        test = [row for row in members if not fitted(row)] or members
        self.moe = [moe(row) for row in members]
        self.half = [abs(error(row, halves)) for row in test]
        self.shipped, self.out, self.held = [], [], []
        for row in members:
            known = {name: without[name] for name in names_of(row)}
            answer = answered(row, known, STRANGER if self._stranger(row, without) else None)
            self.shipped.append(abs(error(row, {})))
            self.out.append(abs(_error(row, answer)))
            self.held.append(inside(row, answer))
            done(2)

    @staticmethod
    def _stranger(row: Row, without: Constants) -> bool:
        """Whether a constant of the row's framework or chip was known from no other family."""
        return any(without[name] == unknown(name, without) for name in names_of(row))

    def line(self) -> Row:
        return _line(self.name, self.half, self.shipped, self.out, self.held)


def _line(name: str, half: list[float], shipped: list[float], out: list[float], held: list[bool]) -> Row:
    return {
        "group": name,
        "rows": len(out),
        "fitted": fmean(half),
        "shipped": fmean(shipped),
        "left_out": fmean(out),
        "left_out_median": median(out),
        "left_out_inside": fmean(held),
    }


def _sums(found: list[_Family]) -> list[Row]:
    """Dense rows, mixtures of experts, all; and every family with the same weight."""
    lines = []
    for name, wanted in (("dense", (False,)), ("MoE", (True,)), ("all", (False, True))):
        picked = [(f, i) for f in found for i, moe in enumerate(f.moe) if moe in wanted]
        if picked:
            half = [e for f in found if any(moe in wanted for moe in f.moe) for e in f.half]
            columns = [[getattr(f, key)[i] for f, i in picked] for key in ("shipped", "out", "held")]
            lines.append(_line(name, half, *columns))
    if found:
        each = [f.line() for f in found]
        keys = ("fitted", "shipped", "left_out", "left_out_median", "left_out_inside")
        lines.append({"group": "every family alike", "rows": len(found)} | {k: fmean(e[k] for e in each) for k in keys})
    return lines


def _notes(halves: Constants, whole: Constants, late: list[str]) -> list[str]:
    shown = ", ".join(f"{name} {halves[name]:.3g} / {value:.3g}" for name, value in whole.items())
    notes = [
        "fitted and shipped: mean error, the first on the half that its fit did not see; left out: all rows of the family, with every constant fitted to the other "
        "families alone, or at the value of an unknown framework or chip where no other moves it; then the share of them inside the 80 % interval, whose base is "
        f"{STRANGER} where a constant is at that value, as for frameworks that no fit saw. "
        "The last line gives every family the same weight.",
        f"Fitted to half / to all: {shown}.",
    ]
    if late:
        notes.append(f"Not reached in {LIMIT_S / 60:.0f} minutes: {', '.join(late)}.")
    return notes
