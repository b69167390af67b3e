"""A calibration as plain data: the object `roofline/calibrate/1`, tables and sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from rooflinecli.calibrate.answer import CalibrationAnswer
from rooflinecli.calibrate.phase_fit import PhaseFit

SCHEMA = "roofline/calibrate/1"
DETERMINED, PARTLY = (
    0.75,
    0.3,
)  # contraction from which rows determine a block, or do so in part: half files agree from there on
FAR = 2.0  # prior standard deviations: a block moved further says that the file is wrong, not its constants


def data(result: CalibrationAnswer) -> dict[str, Any]:
    """Everything that is printed."""
    return {
        "schema": SCHEMA,
        "hardware": result.hardware.id,
        "rows": result.rows,
        "tables": [
            {"title": "error on your rows (median), and share inside the 80 % interval", "rows": _proofs(result)},
            {
                "title": "what your rows determine: seconds of each block against the shipped constants",
                "rows": _blocks(result),
            },
            {"title": "rows that contradict physics, each other or the rest", "rows": _contradictions(result)},
            {"title": "not read", "rows": aside(result.aside)},
            {"title": "next measurement: standard deviation of the target, now and then", "rows": _next(result)},
        ],
        "notes": _notes(result),
    }


def aside(rows: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Rows left aside, a line for each reason with the first of them."""
    found: dict[str, list[str]] = {}
    for where, reason in rows:
        found.setdefault(reason, []).append(where)
    return [
        {"row": places[0], "rows": len(dict.fromkeys(places)), "reason": reason} for reason, places in found.items()
    ]


def _proofs(result: CalibrationAnswer) -> list[dict[str, Any]]:
    return [
        {
            "phase": g.phase,
            "software": g.software,
            "on": p.on,
            "rows": p.rows,
            "before": p.before,
            "after": p.after,
            "covered_before": p.covered_before,
            "covered": p.covered,
            "interval": float(g.posterior.error),
        }
        for g in result.groups
        for p in g.proofs
    ]


def _blocks(result: CalibrationAnswer) -> list[dict[str, Any]]:
    """Blocks that the rows say anything of; a move is reported only where they do."""
    found = []
    for g in result.groups:
        for block, x, c in zip(g.posterior.blocks, g.posterior.x, g.posterior.contraction, strict=True):
            if c > 0.01:
                verdict = "your rows determine it" if c >= DETERMINED else "partly" if c >= PARTLY else "prior"
                moved = float(np.expm1(x)) if c >= PARTLY and g.posterior.supported else None
                found.append(
                    {
                        "phase": g.phase,
                        "software": g.software,
                        "block": block.name,
                        "move": moved,
                        "contraction": float(c),
                        "says": verdict,
                    }
                )
    return found


def _contradictions(result: CalibrationAnswer) -> list[dict[str, Any]]:
    return [
        {"row": c.where, "left_out": "yes" if c.left_out else "no", "reason": c.reason} for c in result.contradictions
    ]


def _next(result: CalibrationAnswer) -> list[dict[str, Any]]:
    return [
        {"phase": phase, "software": name, "measure": s.what, "sd_before": s.before, "sd_after": s.after}
        for (phase, name), found in result.next.items()
        for s in found
    ]


def _notes(result: CalibrationAnswer) -> list[str]:
    return [*result.notes, *(note for g in result.groups for note in _of(g))]


def _alone(g: PhaseFit) -> str:
    """What a single row moved, and how far: nothing contradicts it."""
    if len({q.where for q in g.questions}) != 1 or not (g.posterior.supported and len(g.posterior.blocks)):
        return ""
    x, block = max(zip(g.posterior.x, g.posterior.blocks, strict=True), key=lambda pair: abs(pair[0]))
    return f"one row alone moved {block.name} by {np.expm1(x):+.0%}, and would as far if it were wrong; add a second, measured elsewhere"


def _of(g: PhaseFit) -> list[str]:
    """What a reader should know of one fit."""
    found = []
    name = f"{g.phase} ({g.software})"
    if not g.posterior.supported:
        near = ", but near these rows answers follow them" if g.moved else ""
        found.append(
            f"{name}: the evidence does not favour moving the shipped constants ({g.posterior.evidence:+.1f} nats); they stay{near}"
        )
    held = [p for p in g.proofs if p.on == "held out"]
    alone = _alone(g)
    if alone:
        found.append(f"{name}: {alone}")
    if g.moved and not held:
        found.append(f"{name}: too few rows to hold some out; the error on the fitted rows is no proof")
    if g.refused:
        found.append(f"{name}: worse on the rows held out ({held[0].before:.1%} before, {held[0].after:.1%} after)")
    for block, x, prior in zip(
        g.posterior.blocks, g.posterior.x, g.posterior.prior / g.posterior.setting.width, strict=True
    ):
        if g.posterior.supported and abs(x) > FAR * prior:
            found.append(
                f"{name}: {block.name} moved by {np.expm1(x):+.0%}, more than {FAR:g} shipped errors: check the chip file, the layout and the formats first"
            )
    return found
