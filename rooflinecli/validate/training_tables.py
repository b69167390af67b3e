"""Tables of training steps: published runs of each round, by family and by kind of model."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from rooflinecli.specs.published_runs import excluded
from rooflinecli.validate import gpu_hours
from rooflinecli.validate import published_training as steps
from rooflinecli.validate.stats import Points, Table, joined, summary


def tables() -> list[Table]:
    """Published training steps: the runs of each round, by family and by kind of model."""
    by: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    kinds: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    for row in steps.timed():
        held = steps.compared(row)
        answer, round_ = held.answer, steps.round_of(row)
        found = (row["step_s"], answer.time_s, answer.floor_s, *answer.interval_s)
        by[round_, steps.family(row)].append(found)
        kind = "MoE" if held.moe else "dense"
        kinds[round_, kind].append(found)
        if round_ < 3:
            kinds[0, kind].append(found)
    return [*(_round(title, by, kinds, which, notes) for which, title, notes in _rounds()), gpu_hours.table()]


def _rounds() -> list[tuple[int, str, list[str]]]:
    """Number, title and notes of the tables of training steps; 0 is the first two together."""
    first = [
        "The rows that constants of frameworks, experts and attention kernels were first fitted to, matmul rates to the same families; "
        "Korthikanti et al. Table 5 (korthikanti_t5) was in no fit.",
        *excluded("training"),
    ]
    second = [
        "200 runs that the first fit had not seen; the terms of the second round (docs/accuracy.md) were chosen with them in view.",
    ]
    others = [
        "Other frameworks. internevo and xtuner: constants of their own, fitted to these rows; torchtune: constants of torchtitan, no row of it in a fit, "
        "and chips that no training run was fitted to. "
        "whole_runs: GPU-hours of a whole run over its tokens, in no fit; restarts and what else the hours hold are in them.",
        *excluded("training_3"),
    ]
    both = ["The first and the second round together."]
    return [
        (1, "training: seconds per step", first),
        (2, "training: second round", second),
        (3, "training: other frameworks", others),
        (0, "training: both", both),
    ]


def _round(
    title: str,
    by: dict[tuple[int, str], list[tuple[float, ...]]],
    kinds: dict[tuple[int, str], list[tuple[float, ...]]],
    which: int,
    notes: list[str],
) -> Table:
    """One table: the families of a round, then its dense models and its mixtures of experts, then all."""
    points = [
        Points.of(name, rows) for (round_, name), rows in by.items() if which == round_ or (not which and round_ < 3)
    ]
    shown = points if which else []
    lines = [Points.of(kind, kinds[which, kind]) for kind in ("dense", "MoE") if (which, kind) in kinds]
    rows = [summary(p) for p in (*shown, *lines, joined("all", points))]
    return Table(title, [*rows, _alike([summary(p) for p in points])], notes, shown)


def _alike(families: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors and coverage with the same weight for every family, however many rows it has."""
    scored = [row for row in families if "mean" in row]
    means = {key: float(np.mean([row[key] for row in scored])) for key in ("mean", "median", "coverage")}
    return {"group": "every family alike", "rows": len(scored), **means}
