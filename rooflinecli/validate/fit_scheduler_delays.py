"""Refitting an engine's waits (hold, o_f, o_c) on collected closed-loop runs: on half of the cells, and with each model left out.

A cell is a model, chip, engine, format and layout; a hash of it says whether a fit may see it. The pass, the batch, the
inter-token latency and what the flags of a run's script cost are the estimate's own; only the three waits are free: steps held
beyond what flags say, the front end, and what a stream adds to it. Loss and search as for kernels (fit.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.engine import build_request
from rooflinecli.engine.closed_loop import client_state
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import prefill_pass
from rooflinecli.engine.inference import decode_seconds, token
from rooflinecli.engine.pipelined_decode import sequences_per_stage
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import closed_loop
from rooflinecli.validate import inference
from rooflinecli.validate.fit_kernels import minimize
from rooflinecli.validate.stats import Array, Table, half_by_name

START = np.log([2.0, 0.03, 5e-4])  # steps held, o_f and o_c in seconds
LARGEST = np.log([50.0, 1.0, 0.1])
SLOT = 10.0  # prompts of a slot in the harness that most of the runs used
STARTS = (-0.7, 0.0, 0.7)


@dataclass
class SchedulerDelays:
    """Runs of one engine as arrays."""

    model: Array
    seen: Array
    measured: Array
    burst: Array
    ahead: Array
    mixed: Array
    share: Array
    batch: Array
    itl: Array
    waits: Array  # steps that flags say
    beside: Array  # seconds of messages that wait and of the prompt's tokens
    shipped: Array  # the estimate as it is

    def expected(self, point: Array) -> Array:
        """Seconds to the first token with the waits at a point (their logarithms)."""
        hold, front, per_stream = np.exp(np.minimum(point, LARGEST))
        turn = closed_loop.turn_ttft(hold + self.waits, 0.0, self.ahead, self.itl, self.mixed, self.share)
        turn = np.where(self.batch > 1, turn, self.mixed)
        return closed_loop.closed_loop_ttft(self.burst, turn, SLOT, self.beside, front, per_stream, self.batch)

    def errors(self, point: Array) -> Array:
        return np.abs(self.expected(point) / self.measured - 1)

    def as_shipped(self) -> Array:
        return np.abs(self.shipped / self.measured - 1)

    def fit(self, mask: Array) -> Array:
        """The point that fits the runs of a mask."""

        def loss(point: Array) -> float:
            return float(np.minimum(self.errors(point)[mask], 2).mean())

        return min((minimize(loss, START + start) for start in STARTS), key=loss)


def gather() -> dict[str, SchedulerDelays]:
    """Collected runs by engine."""
    by: dict[str, list[tuple[Any, ...]]] = {}
    for run in inference.collected_runs()[0]:
        if run.options.get("equal_lengths"):  # in lockstep nothing waits for steps
            continue
        by.setdefault(run.engine, []).append(_run(run))
    return {
        engine: SchedulerDelays(*(np.array(column) for column in zip(*found, strict=True)))
        for engine, found in by.items()
    }


def _run(run: inference.Run) -> tuple[Any, ...]:
    ctx, plan = EstimateContext(build_request.request(run.options)), run.layout
    busy = load(ctx, plan)
    cell = f"{run.options['model']} {run.options['hw']} {run.engine} {ctx.dtype} {plan.tp:g} {plan.dp:g}"
    itl, batch = token(ctx, plan, busy).seconds, sequences_per_stage(plan, busy.batch)
    met = client_state(ctx, plan, busy, prefill_pass(ctx, plan).seconds, itl, decode_seconds(ctx, plan, busy))
    engine = ctx.engine
    return (
        run.group,
        half_by_name(cell),
        run.measured["ttft"],
        met.burst,
        engine.look_ahead,
        met.mixed,
        met.share,
        batch,
        itl,
        met.held + engine.skipped_looks / 2,
        engine.late_tokens * itl + engine.per_token * ctx.prompt,
        inference.predict(run)["ttft"][0],
    )


def refitted(done: Callable[[int], None] = lambda count: None) -> list[Table]:
    """Per engine: median error of first tokens on the cells not fitted, of the fitted waits and the shipped ones, and with each model left out."""
    rows = []
    for engine, waits in sorted(gather().items()):
        point, test = waits.fit(waits.seen), ~waits.seen
        left_out = np.empty(len(test))
        for model in np.unique(waits.model):
            mine = waits.model == model
            left_out[mine] = waits.errors(waits.fit(~mine))[mine]
        rows.append(
            {
                "group": engine,
                "rows": int(test.sum()),
                "fitted": float(np.median(waits.errors(point)[test])),
                "shipped": float(np.median(waits.as_shipped()[test])),
                "left_out": float(np.median(left_out)),
                **dict(zip(("hold", "o_f", "o_c"), (float(f"{v:.3g}") for v in np.exp(point)), strict=True)),
            }
        )
    notes = [
        "refitted and shipped: median error on the half of the cells not fitted; left out: all runs, each model with waits fitted to the others."
    ]
    return [Table("refit: time to first token in a closed loop", rows, notes)]
