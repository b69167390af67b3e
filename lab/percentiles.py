"""Percentiles of published runs against those of their simulation."""

from __future__ import annotations

from itertools import product

import numpy as np

from lab.show import show
from rooflinecli.questions.simulate.answer import run
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.snapshots import published
from rooflinecli.validate.stats import Row, Table, errors, notes

FLAGS = {  # of the scripts: github SemiAnalysisAI/InferenceX at 359900b4, benchmarks/gptoss_fp4_*.sh
    "vllm": ("graph_tokens=2048",),
}
FORMATS = {"bf16": {"dtype": "bf16"}, "fp8": {"dtype": "fp8"}, "fp4": {"dtype": "bf16", "weight-dtype": "mxfp4"}}
POINTS = ("mean", "p50", "p99")
NAMES = ("ttft", "tpot", "itl", "e2e")


def simulated(row: Row) -> dict[str, float]:
    """Simulated values of a published run, by name."""
    options: Row = {key: row[key] for key in ("model", "hw", "engine")} | FORMATS[row["precision"]]
    options |= {"n": str(row["tp"]), **{key: str(row[key]) for key in ("tp", "prompt", "output")}}
    if "qps" in row:
        options |= {"qps": float(row["qps"]), "num_requests": row["requests"], "replicas": row.get("replicas", 1)}
    else:
        flags = FLAGS.get(row["engine"], ())
        options |= {"concurrency": row["concurrency"], "length_range": "0.8:1", "scheduler_config": flags}
        if row["model"] == "deepseek-r1":  # runners/launch_mi355x-amd.sh, which starts its machines, sets NUM_PROMPTS
            options["num_requests"] = row["concurrency"] * (20 if row["output"] == 8192 else 50)
    return run(Simulate.read(options)).values


def group(row: Row) -> str:
    """The engine, the kind of load, and what had to be assumed."""
    name = f"{row['engine']}, {'open' if 'qps' in row else 'closed'} loop"
    if row["engine"] == "atom":  # whose constants were read off one of its models and formats
        name = f"{name}, {row['model']} {row['precision']}"
    return f"{name}, {row['assumed']} assumed" if "assumed" in row else name


def tables() -> list[Table]:
    """Errors of mean, median and p99 by engine: every quantity of every run."""
    found = [(row, simulated(row)) for row in published("percentiles")["rows"]]
    groups = sorted({group(row) for row, _ in found})
    lines = [_line(found, *each) for each in product(POINTS, groups, NAMES)]
    return [Table("simulation: percentiles of published runs", [line for line in lines if line], notes("percentiles"))]


def _line(found: list[tuple[Row, dict[str, float]]], point: str, name: str, quantity: str) -> Row | None:
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


if __name__ == "__main__":
    show(tables())
