"""Published and collected families as rows for a calibration, on constants that were refitted without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import numpy as np

from lab import leave_one_family_out
from lab.fit import Array
from rooflinecli.calibrate.phase_fit import placed, places
from rooflinecli.calibrate.predicted_row import PHASE, PredictedRow, RowPredictor
from rooflinecli.core.errors import RooflineError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.validate import aiconfigurator_tables, inference
from rooflinecli.validate import published_training as steps
from rooflinecli.validate.inference import Run

FEWEST, MOST = 4, 24  # rows of a family that can be scored, and of a collected one that are taken
Make = Callable[[], PredictedRow]


@dataclass(eq=False)
class Family:
    """Rows of one family, chip and software."""

    name: str
    rows: list[PredictedRow] = field(default_factory=list)

    @cached_property
    def predictor(self) -> RowPredictor:
        return RowPredictor(self.rows)

    @cached_property
    def measured(self) -> Array:
        """ln of measured seconds [rows]."""
        return np.log([row.measured for row in self.rows])

    @cached_property
    def shipped(self) -> Array:
        """ln(measured / expected) before a calibration [rows]."""
        return self.measured - self.predictor.log_seconds(np.zeros((len(self.predictor.blocks), 1)))[:, 0]

    @cached_property
    def places(self) -> Array:
        """Logarithms of sizes [rows, sizes]."""
        return places(self.rows)

    @cached_property
    def sizes(self) -> dict[str, Array]:
        """Sizes by name: devices, lengths, batch, parameters [rows]."""
        rows = [placed(row) for row in self.rows]
        return {name: np.array([float(np.max(row[name])) for row in rows]) for name in rows[0]}


@lru_cache(maxsize=4)
def families(phase: str) -> tuple[Family, ...]:
    """Families of a phase with rows enough, thinned evenly to MOST."""
    members: dict[str, list[Make]] = {}
    for name, make in _training() if phase == "train" else _serving(phase):
        members.setdefault(name, []).append(make)
    found = []
    for name, makes in members.items():
        rows = [make() for make in makes[:: -(-len(makes) // MOST)]]
        family = Family(name, [row for row in rows if phase == "train" or _answerable(row)])
        if len(family.rows) >= FEWEST:
            found.append(family)
    return tuple(found)


def _training() -> Iterable[tuple[str, Make]]:
    for row in steps.timed():
        name = " ".join((steps.family(row), row["hardware"], row["plan"].get("software", "any")))
        yield name, partial(_training_row, row)


def _training_row(row: dict[str, object]) -> PredictedRow:
    return PredictedRow(
        steps.ctx(row, dict(leave_one_family_out.training(row))), steps.plan(row), "train", float(str(row["step_s"]))
    )


def _serving(phase: str) -> Iterable[tuple[str, Make]]:
    runs = inference.published_runs() + (inference.collected_runs()[0] if aiconfigurator_tables.installed() else [])
    for run in runs:
        name = " ".join((run.group, str(run.options["hw"]), run.engine))
        loaded = run.options.get("concurrency") is not None or run.options.get("qps") is not None
        for measured, value in run.measured.items():
            quantity = _quantity(measured, run.static, loaded)
            if PHASE[quantity] == phase:
                named = f"{name} {quantity}" if measured == "throughput" else name
                yield named, partial(_serving_row, run, quantity, 1.0 / value if measured == "throughput" else value)


def _serving_row(run: Run, quantity: str, seconds: float) -> PredictedRow:
    override = dict(leave_one_family_out.serving(run))
    return PredictedRow(
        EstimateContext(build_request.request(run.options), override=override), run.layout, quantity, seconds
    )


def _quantity(measured: str, static: bool, loaded: bool) -> str:
    if measured == "throughput":
        return "static" if static else "throughput"
    return measured if measured == "itl" or loaded else "prefill"


def _answerable(row: PredictedRow) -> bool:
    """Whether the row's load has a steady state."""
    try:
        return bool(row.on(row.ctx.chip) > 0)
    except RooflineError:
        return False
