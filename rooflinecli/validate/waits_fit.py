"""Refitting an engine's waits (phi, k, o_f) on collected closed-loop runs: on half of the cells, and with each model left out.

A cell is a model, chip, engine, format and layout; a hash of it says whether a fit may see it. The pass, the batch and the
inter-token latency of a run are the estimate's own; only the three waits are free. Loss and search as for kernels (fit.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.inference import sequences_per_stage, token
from rooflinecli.engine.scene import Scene
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import serving
from rooflinecli.specs import ask
from rooflinecli.specs.engine import load_engine
from rooflinecli.validate import inference
from rooflinecli.validate.fit import minimise
from rooflinecli.validate.stats import Array, Table, half_by_name

START = np.log([0.15, 2.0, 0.05])  # phi, k, o_f in seconds
LARGEST = np.log([1.0, 50.0, 1.0])
STARTS = (-0.7, 0.0, 0.7)


@dataclass
class Waits:
    """Runs of one engine as arrays."""

    model: Array
    seen: Array
    measured: Array
    alone: Array
    batch: Array
    itl: Array

    def expected(self, point: Array) -> Array:
        """Seconds to the first token with the waits at a point (their logarithms)."""
        wait, steps, front = np.exp(np.minimum(point, LARGEST))
        return serving.closed_loop_ttft(self.alone, wait, self.batch, steps, self.itl, front)

    def errors(self, point: Array) -> Array:
        return np.abs(self.expected(point) / self.measured - 1)

    def fit(self, mask: Array) -> Array:
        """The point that fits the runs of a mask."""

        def loss(point: Array) -> float:
            return float(np.minimum(self.errors(point)[mask], 2).mean())

        return min((minimise(loss, START + start) for start in STARTS), key=loss)


def gather() -> dict[str, Waits]:
    """Collected runs by engine."""
    by: dict[str, list[tuple[Any, ...]]] = {}
    for run in inference.collected_runs()[0]:
        by.setdefault(run.engine, []).append(_run(run))
    return {engine: Waits(*(np.array(column) for column in zip(*found, strict=True))) for engine, found in by.items()}


def _run(run: inference.Run) -> tuple[Any, ...]:
    scene, plan = Scene(ask.request(run.options)), run.plan
    alone = forward_step(scene, plan, 1.0, scene.prompt, scene.prompt, decode=False).seconds
    busy = load(scene, plan)
    cell = f"{run.options['model']} {run.options['hw']} {run.engine} {scene.dtype} {plan.tp:g} {plan.dp:g}"
    itl = token(scene, plan, busy).seconds
    return run.group, half_by_name(cell), run.measured["ttft"], alone, sequences_per_stage(plan, busy), itl


def refitted() -> list[Table]:
    """Per engine: median error of first tokens on the cells not fitted, of the fitted waits and the shipped ones, and with each model left out."""
    rows = []
    for engine, waits in sorted(gather().items()):
        point, test = waits.fit(waits.seen), ~waits.seen
        left_out = np.empty(len(test))
        for model in np.unique(waits.model):
            mine = waits.model == model
            left_out[mine] = waits.errors(waits.fit(~mine))[mine]
        shipped = load_engine(engine)
        now = np.log(np.maximum([shipped.wait, shipped.steps_waited, shipped.front], 1e-9))
        rows.append(
            {
                "group": engine,
                "rows": int(test.sum()),
                "fitted": float(np.median(waits.errors(point)[test])),
                "shipped": float(np.median(waits.errors(now)[test])),
                "left_out": float(np.median(left_out)),
                **dict(zip(("phi", "k", "o_f"), (float(f"{v:.3g}") for v in np.exp(point)), strict=True)),
            }
        )
    notes = [
        "refitted and shipped: median error on the half of the cells not fitted; left out: all runs, each model with waits fitted to the others."
    ]
    return [Table("refit: time to first token in a closed loop", rows, notes)]
