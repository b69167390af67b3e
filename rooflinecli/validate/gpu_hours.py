"""Published GPU-hours of whole trainings against those of their tokens at the expected step time."""

from __future__ import annotations

from typing import Any

from rooflinecli.specs.published_runs import published
from rooflinecli.validate import published_training as steps
from rooflinecli.validate.stats import Table

NOTES = [
    "Expected: tokens over the tokens of a step, times its time and the devices. None of it is in a fit.",
    "Published hours are total GPU time for training a model, so they hold restarts, further stages (longer context, annealing) and what else a run was charged. "
    "Where the layout was published (405B, DeepSeek-V3), the step explains them within 15 %.",
    "For Llama 3 8B and 70B no layout, batch, step time or MFU was published; the layout here is filled in, with tensor parallelism overlapped as in Megatron. "
    "Steps of these models in bf16 on H100 were published for torchtitan alone: 29 to 35 % MFU for the 8B, 27 to 30 % for the 70B with tensor parallelism exposed. "
    "So the hours of the 70B are those of such steps, and no published step comes near those of the 8B: half of its hours are no step of this model. "
    "Meta does not say what they are. They are shown and not scored, and nothing here is bent toward them.",
]


def table() -> Table:
    """One line per run: hours expected and published, and the MFU that the published ones imply."""
    data = published("whole_runs")
    known = {run["run"]: run for run in data["runs"]}
    return Table("training: GPU-hours of whole runs", [_line(run, known) for run in data["runs"]], NOTES)


def _line(run: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    row = _row(known[run["as"]] if "as" in run else run)
    answer = steps.compared(row).answer
    devices, tokens = steps.plan(row).devices, run["tokens"] / (row["batch"] * row["model"]["seq"])
    hours = tokens * float(answer.time_s) * devices / 3600
    return {
        "group": run["run"],
        "expected_hours": f"{hours / 1e6:.2f} M",
        "published_hours": f"{run['hours'] / 1e6:.2f} M",
        "off": hours / run["hours"] - 1,
        "mfu": float(answer.mfu),
        "implied_mfu": float(answer.mfu) * hours / run["hours"],
        "layout": run["layout"],
    }


def _row(run: dict[str, Any]) -> dict[str, Any]:
    """The row of a run: one of the published steps, or its own."""
    if "row" not in run:
        return {"id": run["run"], **run}
    return next(row for row in steps.rows() if row["id"] == run["row"])
