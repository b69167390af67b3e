"""Refit of an engine's scheduler delays on collected closed-loop runs: on half of the cells, and with each model left out.

A cell is a model, chip, engine, format and layout; a hash of it says whether a fit may see it. Prefill pass, batch, ITL and what the
flags of a run's script cost are the estimate's own; three delays are free: steps held beyond what flags say, the front end, and what a
stream adds to it. `python -m lab.fit_scheduler_delays`, with the extra `validate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.fit import ABSOLUTE, Array, Constant, Values, fit, half_by_name, leave_one_out
from lab.show import show
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import prefill_pass
from rooflinecli.engine.inference import decode_seconds, token
from rooflinecli.engine.serving_load import (
    burst_ttft,
    decoding_s,
    load,
    prompt_factor,
    sequences_per_stage,
    step_with_prompt,
)
from rooflinecli.formulas import closed_loop
from rooflinecli.validate import inference
from rooflinecli.validate.stats import Table

FREE = {"hold": Constant(1e-3, 50.0), "o_f": Constant(1e-5, 1.0), "o_c": Constant(1e-8, 0.1)}  # steps, seconds, seconds
TYPICAL = {"hold": 2.0, "o_f": 0.03, "o_c": 5e-4}
REQUESTS_PER_SLOT = 10.0  # in the harness that most of the runs used
LARGEST_ERROR = 2.0  # what a run that misses by more counts


@dataclass
class SchedulerDelays:
    """Runs of one engine as arrays [runs]; times in seconds."""

    model: Array
    seen: Array
    measured: Array
    burst: Array
    ahead: Array
    mixed: Array
    share: Array
    batch: Array
    itl: Array
    steps_of_flags: Array
    messages: Array  # seconds of messages that wait and of the prompt's tokens
    shipped: Array

    def expected(self, delays: Values) -> Array:
        """TTFT [runs] with these delays."""
        turn = closed_loop.turn_ttft(
            delays["hold"] + self.steps_of_flags, 0.0, self.ahead, self.itl, self.mixed, self.share
        )
        turn = np.where(self.batch > 1, turn, self.mixed)
        return closed_loop.closed_loop_ttft(
            self.burst, turn, REQUESTS_PER_SLOT, self.messages, delays["o_f"], delays["o_c"], self.batch
        )

    def errors(self, delays: Values) -> Array:
        """Relative error [runs], signed."""
        return self.expected(delays) / self.measured - 1

    def fit(self, runs: Array) -> Values:
        """Delays of least mean absolute error over the runs of a mask."""
        starts = [{name: value * 2.0**k for name, value in TYPICAL.items()} for k in (-1, 0, 1)]
        return fit(FREE, lambda v: np.minimum(self.errors(v)[runs], LARGEST_ERROR), 1.0, ABSOLUTE, starts)


def gather() -> dict[str, SchedulerDelays]:
    """Collected runs by engine, without those in lockstep, where nothing waits for steps."""
    by: dict[str, list[tuple[Any, ...]]] = {}
    for run in inference.collected_runs()[0]:
        if not run.options.get("equal_lengths"):
            by.setdefault(run.engine, []).append(_run(run))
    return {
        engine: SchedulerDelays(*(np.array(column) for column in zip(*rows, strict=True)))
        for engine, rows in by.items()
    }


def _run(run: inference.Run) -> tuple[Any, ...]:
    ctx, layout = EstimateContext(build_request.request(run.options)), run.layout
    served = load(ctx, layout)
    cell = f"{run.options['model']} {run.options['hw']} {run.engine} {ctx.dtype} {layout.tp:g} {layout.dp:g}"
    itl, batch = token(ctx, layout, served).seconds, sequences_per_stage(layout, served.batch)
    alone, engine = prefill_pass(ctx, layout).seconds, ctx.engine
    step = decode_seconds(ctx, layout, served)
    arrivals, held, mixed = step_with_prompt(ctx, layout, served, alone, step)
    share = min(arrivals / itl * prompt_factor(ctx) * served.prefill_interference_s, 1.0)
    return (
        run.group,
        half_by_name(cell),
        run.measured["ttft"],
        burst_ttft(ctx, layout, batch, alone, decoding_s(ctx, step)),
        engine.constant("look_ahead"),
        mixed,
        share,
        batch,
        itl,
        held + engine.constant("skipped_looks") / 2,
        engine.constant("late_tokens") * itl + engine.scheduler.per_token * ctx.prompt,
        inference.predict(run)["ttft"][0],
    )


def tables() -> list[Table]:
    """Per engine: median error of TTFT on the cells not fitted, refitted and shipped, and with each model left out."""
    rows = []
    for engine, runs in sorted(gather().items()):
        delays, test = runs.fit(runs.seen), ~runs.seen
        left_out = np.empty(len(test))
        for _, own, others in leave_one_out(runs.model, runs.fit):
            left_out[own] = runs.errors(others)[own]
        errors = {
            "fitted": runs.errors(delays)[test],
            "shipped": (runs.shipped / runs.measured - 1)[test],
            "left_out": left_out,
        }
        rows.append(
            {
                "group": engine,
                "rows": int(test.sum()),
                **{name: float(np.median(np.abs(each))) for name, each in errors.items()},
                **{name: float(f"{value:.3g}") for name, value in delays.items()},
            }
        )
    note = "refitted and shipped: median error on the half of the cells not fitted; left out: all runs, each model with delays fitted to the others."
    return [Table("refit: TTFT in a closed loop", rows, [note])]


if __name__ == "__main__":
    show(tables())
