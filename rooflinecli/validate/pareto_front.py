"""Pareto front of serving against published ones: tokens per second per device at the published speed of one user.

Published points (published_runs/pareto.yaml) state neither layout nor engine, and some decode speculatively or prefill on separate
devices, so this is no error of a price: it compares the results of a search with what people have measured.
"""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np

from rooflinecli.core.errors import RooflineWarning
from rooflinecli.questions.search.serving import search
from rooflinecli.specs.published_runs import published
from rooflinecli.validate.stats import Row, Table, notes

DEVICES = 8  # of an instance at most: no page prints its count
POOLED = 32  # of two pools together: room for several instances of one kind and one of the other


def reached(row: Row) -> tuple[float, float]:
    """Our rate over the published one at its speed of one user, with both phases on the same devices and in separate pools; 0 where no layout is as fast."""
    options = {"model": row["model"], "hw": row["hardware"], "hold": "expected"}
    options |= {name: str(row[name]) for name in ("dtype", "prompt", "output") if name in row}
    limits = {"ttft": None, "itl": f"{1 / row['tokens_per_s_per_user']!r} s", "qps": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)  # published formats are as they are
        best = search({**options, "n": str(DEVICES)}, "throughput", [], limits, 1)["results"]
        pools = search({**options, "n": str(POOLED)}, "throughput", [], limits, 1)["pool_rows"]
    tokens, published_rate = row["prompt"] + row["output"], row["total_tokens_per_s_per_device"]
    together = best[0]["serve"]["requests_per_s"] / best[0]["serve"]["devices"] if best else 0.0
    apart = float(pools[0]["requests_per_s"] / pools[0]["devices"]) if pools else 0.0
    return float(together * tokens / published_rate), float(apart * tokens / published_rate)


def table() -> Table:
    """A line for every published front: points, those that ours reaches, and by how much it is above or below."""
    fronts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in published("pareto")["rows"]:
        name = f"{row['model']} {row['hardware']} {row.get('dtype', 'as released')} {row['prompt']}x{row['output']}"
        fronts[name].append(reached(row))
    return Table("search: front of serving", [_line(name, points) for name, points in fronts.items()], notes("pareto"))


def _line(name: str, points: list[tuple[float, float]]) -> Row:
    together, apart = np.array(points).T
    able, other = together[together > 0], apart[apart > 0]
    line: Row = {"group": name, "points": len(points), "reached": len(able)}
    if len(able):
        over = {"over": np.median(able), "over_least": able.min(), "over_most": able.max()}
        line |= {key: float(value - 1) for key, value in over.items()}
    return line | ({"over_apart": float(np.median(other) - 1)} if len(other) else {})
