"""Percentiles of measured runs beside those of their simulation: the only truth there is for a p99."""

from __future__ import annotations

from typing import Any

import numpy as np

from rooflinecli.answers.simulate.question import Question
from rooflinecli.answers.simulate.run import run
from rooflinecli.specs.published import published
from rooflinecli.validate.stats import Table

ENGINES = {"atom": "python-server"}  # engines that have no constants of their own here
FORMATS = {"fp8": {"dtype": "fp8"}, "fp4": {"dtype": "bf16", "weight-dtype": "mxfp4"}}
POINTS = ("mean", "p50", "p99")


def simulated(row: dict[str, Any]) -> dict[str, float]:
    """What a simulation of a published run says, by name of the answer."""
    options = {
        "model": row["model"],
        "hw": row["hw"],
        "engine": ENGINES.get(row["engine"], row["engine"]),
        "n": str(row["tp"]),
        "tp": str(row["tp"]),
        **FORMATS[row["precision"]],
    }
    asked = Question(
        tuple(sorted(options.items())),
        concurrency=row["concurrency"],
        prompt=str(row["prompt"]),
        output=str(row["output"]),
        spread="0.8:1",
    )
    return run(asked).values


def tables() -> list[Table]:
    """Errors of mean, median and p99 by engine: every quantity of every run."""
    rows = published("percentiles")["rows"]
    found = [(row, simulated(row)) for row in rows]
    lines = []
    for engine in sorted({row["engine"] for row in rows}):
        mine = [(row, values) for row, values in found if row["engine"] == engine]
        for name in ("ttft", "tpot", "itl", "e2e"):
            for i, point in enumerate(POINTS):
                ratio = np.array([values[f"{name}_{point}_s"] / row[name][i] for row, values in mine])
                error = np.abs(ratio - 1)
                lines.append(
                    {
                        "group": f"{engine}, {name} {point}",
                        "rows": len(mine),
                        "mean": float(error.mean()),
                        "median": float(np.median(error)),
                        "p90": float(np.quantile(error, 0.9)),
                        "bias": float(np.exp(np.log(ratio).mean()) - 1),
                    }
                )
    notes = [
        "Nothing was fitted to these runs. The engine `atom` has no constants here and is simulated as a Python server with vLLM's order; "
        "fp4 is read as 4-bit weights under 16-bit arithmetic."
    ]
    return [Table("simulation: percentiles of published runs", lines, notes)]
