"""Published and collected families as rows for a calibration, on constants that were refitted without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from rooflinecli.calibrate.phase_fit import placed
from rooflinecli.calibrate.predicted_row import PHASE, PredictedRow, RowPredictor
from rooflinecli.core.errors import RooflineError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.validate import aiconfigurator_tables, inference, leave_one_family_out
from rooflinecli.validate import published_training as steps
from rooflinecli.validate.inference import Run

FEWEST, MOST = 4, 24  # rows of a family that can be scored, and of a collected one that are taken
Make = Callable[[], PredictedRow]


@dataclass(eq=False)
class Unit:
    """Rows of one family, chip and software."""

    name: str
    questions: list[PredictedRow] = field(default_factory=list)

    @cached_property
    def pricer(self) -> RowPredictor:
        return RowPredictor(self.questions)

    @cached_property
    def measured(self) -> Any:
        """ln of measured seconds [rows]."""
        return np.log([q.measured for q in self.questions])

    @cached_property
    def shipped(self) -> Any:
        """ln(measured / expected) before a calibration [rows]."""
        return self.measured - self.pricer.log_seconds(np.zeros((len(self.pricer.blocks), 1)))[:, 0]

    @cached_property
    def places(self) -> Any:
        """Logarithms of sizes [rows, sizes]."""
        return np.log(np.stack([self.sizes[name] for name in sorted(self.sizes)], axis=1))

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """What places each row: devices, lengths, batch, parameters [rows]."""
        rows = [placed(q) for q in self.questions]
        return {name: np.array([float(np.max(row[name])) for row in rows]) for name in rows[0]}


@lru_cache(maxsize=4)
def units(phase: str) -> tuple[Unit, ...]:
    """Families of a phase with rows enough, thinned evenly to MOST."""
    members: dict[str, list[Make]] = {}
    for name, make in _training() if phase == "train" else _serving(phase):
        members.setdefault(name, []).append(make)
    found = []
    for name, makes in members.items():
        questions = [make() for make in makes[:: -(-len(makes) // MOST)]]
        unit = Unit(name, [q for q in questions if phase == "train" or _possible(q)])
        if len(unit.questions) >= FEWEST:
            found.append(unit)
    return tuple(found)


def _training() -> Iterable[tuple[str, Make]]:
    for row in steps.timed():
        name = " ".join((steps.family(row), row["hardware"], row["plan"].get("software", "any")))
        yield (
            name,
            lambda row=row: PredictedRow(  # type: ignore[misc]
                steps.ctx(row, leave_one_family_out.training(row)), steps.plan(row), "train", row["step_s"]
            ),
        )


def _serving(phase: str) -> Iterable[tuple[str, Make]]:
    runs = inference.published_runs() + (inference.collected_runs()[0] if aiconfigurator_tables.installed() else [])
    for run in runs:
        name = " ".join((run.group, str(run.options["hw"]), run.engine))
        loaded = run.options.get("concurrency") is not None or run.options.get("qps") is not None
        for quantity, value in run.measured.items():
            what = _quantity(quantity, run.static, loaded)
            if PHASE[what] == phase:
                named = f"{name} {what}" if what in ("static", "throughput") else name
                seconds = 1.0 / value if quantity == "throughput" else value
                yield named, lambda run=run, what=what, seconds=seconds: _asked(run, what, seconds)  # type: ignore[misc]


def _asked(run: Run, what: str, seconds: float) -> PredictedRow:
    return PredictedRow(
        EstimateContext(build_request.request(run.options), override=leave_one_family_out.serving(run)),
        run.layout,
        what,
        seconds,
    )


def _quantity(quantity: str, static: bool, loaded: bool) -> str:
    if quantity == "throughput":
        return "static" if static else "throughput"
    return quantity if quantity == "itl" or loaded else "prefill"


def _possible(question: PredictedRow) -> bool:
    """Whether the row's load can be followed at all."""
    try:
        return bool(question.on(question.ctx.chip) > 0)
    except RooflineError:
        return False
