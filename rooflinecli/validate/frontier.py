"""The front of serving held against published ones: at the speed of one user, tokens per second per device, theirs and ours.

Published points (data_published/pareto.yaml) say neither layout nor engine, and some decode speculatively or prefill on devices of
their own, so this is no error of a price: it says what a search claims where people have measured.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rooflinecli.answers.search.serve import search
from rooflinecli.errors import Remark
from rooflinecli.specs.published import published
from rooflinecli.validate.stats import Table

DEVICES = 8  # of an instance at most: no page prints its count
NOTE = (
    "over published: tokens per second per device (prompt and output) that the best of our layouts on up to "
    f"{DEVICES} devices gives at the published speed of one user, over the published rate; below -50 % and above 100 % a front is off by twice. "
    "Pages print neither layout nor engine; speculative decoding and pools apart are in some and not in ours."
)


def reached(row: dict[str, Any]) -> float:
    """Our rate over the published one at its speed of one user; 0 where no layout is as fast."""
    options = {"model": row["model"], "hw": row["hardware"], "n": str(DEVICES)}
    options |= {name: str(row[name]) for name in ("dtype", "prompt", "output") if name in row}
    limits = {"ttft": None, "itl": f"{1 / row['tokens_per_s_per_user']!r} s", "qps": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Remark)  # published formats are as they are
        best = search(options, "throughput", [], limits, 1)["results"]
    if not best:
        return 0.0
    made = best[0]["serve"]["tokens_per_s_per_device"]
    both = (row["prompt"] + row["output"]) / row["output"]
    return float(made * both / row["total_tokens_per_s_per_device"])


def table() -> Table:
    """A line for every published front: points, those that ours reaches, and by how much it is above or below."""
    fronts: dict[str, list[float]] = {}
    for row in published("pareto")["rows"]:
        name = f"{row['model']} {row['hardware']} {row.get('dtype', 'as released')} {row['prompt']}x{row['output']}"
        fronts.setdefault(name, []).append(reached(row))
    return Table("search: front of serving", [_line(name, found) for name, found in fronts.items()], [NOTE])


def _line(name: str, found: list[float]) -> dict[str, Any]:
    ratios = np.array(found)
    able = ratios[ratios > 0]
    line: dict[str, Any] = {"group": name, "points": len(found), "reached": len(able)}
    if len(able):
        line |= {
            "over": float(np.median(able) - 1),
            "over_least": float(able.min() - 1),
            "over_most": float(able.max() - 1),
        }
    return line
