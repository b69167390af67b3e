"""Response of each published step to each free constant of training, as tables that a fit interpolates in place of the engine.

A step is a sum over its parts, so around a point the seconds that constants add or save add up; each row is priced once with arrays in
place of its constants, one after the other over a grid. The sum is an approximation (hidden communication and work join in a norm),
so tables are made again around the fitted constants, and reported errors are the engine's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lab.fit import Array, Values
from lab.training_constants import FREE, Row
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.engine.training import train
from rooflinecli.validate import published_training

# logarithms of the grid around a constant's value
OFFSETS = np.array([-1.6, -1.0, -0.6, -0.3, -0.12, 0.0, 0.12, 0.3, 0.6, 1.0, 1.6])


@dataclass
class ConstantResponse:
    """Tables around a point of constants, by name: the rows each moves (indices), the logarithms of its grid [grid], and the seconds
    it adds there to each [rows, grid]; `seconds` are those of all rows at the point [rows]."""

    around: Values
    seconds: Array
    moved: dict[str, Array]
    grid: dict[str, Array]
    added: dict[str, Array]

    def part(self, name: str, value: float) -> Array:
        """Seconds that a value of one constant adds to the rows it moves."""
        grid, added = self.grid[name], self.added[name]
        at = float(np.clip(math.log(value), grid[0], grid[-1]))
        right = int(np.clip(np.searchsorted(grid, at), 1, len(grid) - 1))
        share = (at - grid[right - 1]) / (grid[right] - grid[right - 1])
        return added[:, right - 1] * (1 - share) + added[:, right] * share

    def total(self, constants: Values) -> Array:
        """Seconds of every row with these constants."""
        total = self.seconds.copy()
        for name, rows in self.moved.items():
            total[rows] += self.part(name, constants[name])
        return np.maximum(total, 1e-9)


def names_of(row: Row) -> list[str]:
    """Constants that move a row."""
    return [name for name, free in FREE.items() if free.moves(row)]


def answered(row: Row, constants: Values) -> TrainAnswer:
    """The engine's answer with some constants replaced."""
    override = {FREE[name].override: constants[name] for name in names_of(row) if name in constants}
    return train(published_training.ctx(row, override), published_training.plan(row))


def tabulate(rows: list[Row], around: Values) -> ConstantResponse:
    """Tables of these rows around some constants."""
    members: dict[str, list[int]] = {name: [] for name in around}
    added: dict[str, list[Array]] = {name: [] for name in around}
    grids = {name: _grid(name, value) for name, value in around.items()}
    seconds = []
    for place, row in enumerate(rows):
        names = [name for name in names_of(row) if name in around]
        base, parts = _answers(row, names, grids, around)
        seconds.append(base)
        for name in names:
            members[name].append(place)
            added[name].append(parts[name] - base)
    return ConstantResponse(
        around,
        np.array(seconds),
        {name: np.array(places, dtype=int) for name, places in members.items()},
        {name: np.log(grid) for name, grid in grids.items()},
        {name: np.array(each).reshape(-1, len(OFFSETS)) for name, each in added.items()},
    )


def _grid(name: str, value: float) -> Array:
    """Values of a constant around this one, within its range, rising."""
    spread = np.clip(value * np.exp(OFFSETS), FREE[name].low, FREE[name].high)
    return spread * (1 + 1e-9 * np.arange(len(spread)))  # clipped ends stay apart for the look-up


def _answers(row: Row, names: list[str], grids: dict[str, Array], around: Values) -> tuple[float, dict[str, Array]]:
    """Seconds of a row at `around`, and along the grid of each constant: one pass of the engine over an array."""
    width = len(OFFSETS)
    size = 1 + width * len(names)
    along = {name: slice(1 + i * width, 1 + (i + 1) * width) for i, name in enumerate(names)}
    arrays = {name: np.full(size, around[name]) for name in names}
    for name in names:
        arrays[name][along[name]] = np.minimum(grids[name], FREE[name].high)
    override = {FREE[name].override: values for name, values in arrays.items()}
    time = np.broadcast_to(train(published_training.ctx(row, override), published_training.plan(row)).time_s, (size,))
    return float(time[0]), {name: time[along[name]] for name in names}
