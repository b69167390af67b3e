"""Tables of training steps (each round of published runs, by family and by kind of model) and of GPU-hours of whole runs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from rooflinecli.specs.published_runs import excluded, published
from rooflinecli.validate import published_training as steps
from rooflinecli.validate.stats import Points, Row, Table, error_table, notes, summary

BOTH = 0  # the first two rounds together
TITLES = {
    1: "training: seconds per step",
    2: "training: second round",
    3: "training: other frameworks",
    4: "training: other releases and hybrids",
    BOTH: "training: both",
}


def tables() -> list[Table]:
    """Published training steps: the runs of each round, by family and by kind of model; then whole runs."""
    families: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    kinds: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    for row in steps.timed():
        compared, round_ = steps.compared(row), steps.round_of(row)
        answer = compared.answer
        found = (row["step_s"], answer.time_s, answer.floor_s, *answer.interval_s)
        families[round_, steps.family(row)].append(found)
        if "at_fault" in row:
            continue
        for which in (round_, BOTH) if round_ < 3 else (round_,):
            kinds[which, "MoE" if compared.moe else "dense"].append(found)
    made = []
    for which, title in TITLES.items():
        points = [Points.of(name, rows) for (r, name), rows in families.items() if r in ([which] if which else (1, 2))]
        by_kind = [Points.of(kind, kinds[which, kind]) for kind in ("dense", "MoE") if (which, kind) in kinds]
        shown = points if which else []
        scored = [p for p in points if not p.group.endswith(steps.AT_FAULT)]
        left_out = excluded({1: "training", 3: "training_3"}[which]) if which in (1, 3) else []
        table = error_table(title, [*shown, *by_kind], notes(f"training {which}") + left_out, {"all": scored})
        table.points = shown
        table.rows.append(_family_mean([summary(p) for p in scored]))
        made.append(table)
    return [*made, gpu_hours()]


def _family_mean(families: list[Row]) -> Row:
    """Errors and coverage with the same weight for every family, however many rows it has."""
    scored = [row for row in families if "mean" in row]
    means = {key: float(np.mean([row[key] for row in scored])) for key in ("mean", "median", "coverage")}
    return {"group": "mean over families", "rows": len(scored), **means}


def gpu_hours() -> Table:
    """Published GPU-hours of whole runs: hours expected and published, and the MFU that the published ones imply."""
    runs = published("whole_runs")["runs"]
    by_name, by_id = {run["run"]: run for run in runs}, {row["id"]: row for row in steps.rows()}
    lines = []
    for run in runs:
        same = by_name[run["as"]] if "as" in run else run  # the run whose steps it shares
        row = by_id[same["row"]] if "row" in same else {"id": same["run"], **same}
        answer, layout = steps.compared(row).answer, steps.plan(row)
        num_steps = run["tokens"] / (row["batch"] * row["model"]["seq"])
        hours = num_steps * float(answer.time_s) * layout.devices / 3600
        lines.append(
            {
                "group": run["run"],
                "expected_hours": f"{hours / 1e6:.2f} M",
                "published_hours": f"{run['hours'] / 1e6:.2f} M",
                "off": hours / run["hours"] - 1,
                "mfu": float(answer.mfu),
                "implied_mfu": float(answer.mfu) * hours / run["hours"],
                "layout": run["layout"],
            }
        )
    return Table("training: GPU-hours of whole runs", lines, notes("GPU-hours"))
