"""published_runs/highest_mfu.yaml: the highest training MFU that a published run reached, by chip and format.

`python -m lab.max_published_mfu` rewrites the file; a test compares it with the rows.
"""

from __future__ import annotations

from typing import Any

import yaml

from rooflinecli.specs.snapshots import PUBLISHED
from rooflinecli.validate.published_training import compared, ctx, family, timed

FILE = PUBLISHED / "highest_mfu.yaml"
_HEAD = "# The highest measured MFU of published_runs/training*.yaml, by chip and format (python -m lab.max_published_mfu).\n"


def highest() -> list[dict[str, Any]]:
    """chip, kind, dtype, mfu and row: model FLOPs over the measured time, as the estimate counts them (causal attention)."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in timed():
        if family(row) == "whole_runs":  # hours with restarts and other phases bound no step
            continue
        context, answer = ctx(row), compared(row).answer
        spec, dtype = context.chip.spec, context.dtype
        mfu = float(answer.mfu * answer.time_s / row["step_s"])
        if mfu > best.get((spec.id, dtype), {"mfu": 0.0})["mfu"]:
            at = {"chip": spec.id, "kind": spec.kind, "dtype": dtype}
            best[spec.id, dtype] = {**at, "mfu": round(mfu, 4), "row": row["id"]}
    return [best[key] for key in sorted(best)]


def text() -> str:
    """The file."""
    return _HEAD + yaml.safe_dump({"rows": highest()}, sort_keys=False, width=200, default_flow_style=None)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
