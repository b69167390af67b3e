"""Percentiles of published runs against those of their simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.simulate.run import run
from rooflinecli.specs.published_runs import published
from rooflinecli.validate.stats import Table, errors

ENGINES = {"atom": "python-server"}  # engines that have no constants of their own here
FLAGS = {  # of the scripts: github SemiAnalysisAI/InferenceX at 359900b4, benchmarks/gptoss_fp4_*.sh; ROCm/ATOM, guide to scheduling (prompts first)
    "vllm": ("graph_tokens=2048",),
    "atom": ("policy=sglang", "token_budget=16384"),
}
FORMATS = {"bf16": {"dtype": "bf16"}, "fp8": {"dtype": "fp8"}, "fp4": {"dtype": "bf16", "weight-dtype": "mxfp4"}}
POINTS = ("mean", "p50", "p99")
NAMES = ("ttft", "tpot", "itl", "e2e")


def simulated(row: dict[str, Any]) -> dict[str, float]:
    """Simulated values of a published run, by name."""
    options = {
        "model": row["model"],
        "hw": row["hw"],
        "engine": ENGINES.get(row["engine"], row["engine"]),
        "n": str(row["tp"]),
        "tp": str(row["tp"]),
        **FORMATS[row["precision"]],
    }
    lengths: dict[str, Any] = {"prompt": str(row["prompt"]), "output": str(row["output"])}
    if "qps" in row:
        load: dict[str, Any] = {
            "qps": float(row["qps"]),
            "num_requests": row["requests"],
            "replicas": row.get("replicas", 1),
        }
    else:
        load = {"concurrency": row["concurrency"], "length_range": "0.8:1", "scheduler_config": FLAGS[row["engine"]]}
    return run(Simulate.read({**options, **load, **lengths})).values


def group(row: dict[str, Any]) -> str:
    """The engine, the kind of load, and what had to be assumed."""
    name = f"{row['engine']}, {'open' if 'qps' in row else 'closed'} loop"
    if row["engine"] in ENGINES:
        name = f"{name}, {row['model']} {row['precision']}"
    return f"{name}, {row['assumed']} assumed" if "assumed" in row else name


def tables() -> list[Table]:
    """Errors of mean, median and p99 by engine: every quantity of every run."""
    rows = published("percentiles")["rows"]
    found = [(row, simulated(row)) for row in rows]
    lines = []
    for point in POINTS:
        for name in sorted({group(row) for row in rows}):
            lines += [line for quantity in NAMES if (line := _line(found, name, quantity, point)) is not None]
    notes = [
        "Nothing was fitted to these runs. The engine `atom` has no constants here and is simulated as a Python server with vLLM's order; "
        "fp4 is read as 4-bit weights under 16-bit arithmetic."
    ]
    return [Table("simulation: percentiles of published runs", lines, notes)]


def _line(
    found: list[tuple[dict[str, Any], dict[str, float]]], name: str, quantity: str, point: str
) -> dict[str, Any] | None:
    """Errors of a point of a quantity over the runs of a group that state it; None where none does."""
    i = POINTS.index(point)
    ratio = np.array(
        [
            values[f"{quantity}_{point}_s"] / row[quantity][i]
            for row, values in found
            if group(row) == name and quantity in row and row[quantity][i] is not None
        ]
    )
    if not len(ratio):
        return None
    return {"group": f"{point} of {quantity}: {name}", "rows": len(ratio), **errors(ratio)}
