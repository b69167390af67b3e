"""Pareto front of serving against published ones: tokens per second per device at the published speed of one user.

Published points (published_runs/pareto.yaml) say neither layout nor engine, and some decode speculatively or prefill on devices of
their own, so this is no error of a price: it says what a search claims where people have measured.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rooflinecli.core.errors import RooflineWarning
from rooflinecli.questions.search.serving import search
from rooflinecli.specs.published_runs import published
from rooflinecli.validate.stats import Table

DEVICES = 8  # of an instance at most: no page prints its count
POOLED = 32  # of two pools together: room for several instances of the one beside one of the other
NOTE = (
    "over published: tokens per second per device (prompt and output) that the best of our layouts on up to "
    f"{DEVICES} devices gives at the published speed of one user, over the published rate; below -50 % and above 100 % a front is off by twice. "
    f"pools apart: the same of our best prefill and decode pools on up to {POOLED}. Pages print neither layout nor engine; "
    "speculative decoding is in some and not in ours."
)


def reached(row: dict[str, Any]) -> tuple[float, float]:
    """Our rate over the published one at its speed of one user, both jobs on the same devices and in pools apart; 0 where no layout is as fast."""
    options = {"model": row["model"], "hw": row["hardware"]}
    options |= {name: str(row[name]) for name in ("dtype", "prompt", "output") if name in row}
    limits = {"ttft": None, "itl": f"{1 / row['tokens_per_s_per_user']!r} s", "qps": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)  # published formats are as they are
        best = search({**options, "n": str(DEVICES)}, "throughput", [], limits, 1)["results"]
        apart = _apart(options, limits)
    both, theirs = row["prompt"] + row["output"], row["total_tokens_per_s_per_device"]
    together = best[0]["serve"]["requests_per_s"] / best[0]["serve"]["devices"] if best else 0.0
    return float(together * both / theirs), float(apart * both / theirs)


def _apart(options: dict[str, Any], limits: dict[str, str | None]) -> float:
    """Requests per second per device of the best pair of pools."""
    pairs = search({**options, "n": str(POOLED)}, "throughput", [], limits, 1)["pool_rows"]
    return float(pairs[0]["requests_per_s"] / pairs[0]["devices"]) if pairs else 0.0


def table() -> Table:
    """A line for every published front: points, those that ours reaches, and by how much it is above or below."""
    fronts: dict[str, list[tuple[float, float]]] = {}
    for row in published("pareto")["rows"]:
        name = f"{row['model']} {row['hardware']} {row.get('dtype', 'as released')} {row['prompt']}x{row['output']}"
        fronts.setdefault(name, []).append(reached(row))
    return Table("search: front of serving", [_line(name, found) for name, found in fronts.items()], [NOTE])


def _line(name: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    together, apart = np.array(found).T
    able, other = together[together > 0], apart[apart > 0]
    line: dict[str, Any] = {"group": name, "points": len(found), "reached": len(able)}
    if len(able):
        line |= {
            "over": float(np.median(able) - 1),
            "over_least": float(able.min() - 1),
            "over_most": float(able.max() - 1),
        }
    return line | ({"over_apart": float(np.median(other) - 1)} if len(other) else {})
