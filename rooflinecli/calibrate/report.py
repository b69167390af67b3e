"""Report of a calibration, schema roofline/calibrate/2: tables and sentences."""

from __future__ import annotations

import numpy as np

from rooflinecli.calibrate.answer import CalibrationAnswer
from rooflinecli.calibrate.phase_fit import PhaseFit
from rooflinecli.core.record import Record, ReportTable

Rows = list[dict[str, float | str | None]]
# contraction from which rows determine a group of constants, or do so in part: fits to half of the rows agree from there on
DETERMINED, PARTLY = 0.75, 0.3
NAMED = 0.01  # contraction from which a group has a line
FAR = 2.0  # shipped errors (standard deviations): a larger move points to the file, not to the constants


class CalibrationReport(Record):
    """Everything that is printed of a calibration."""

    schema: str = "roofline/calibrate/2"
    hardware: str
    rows: int
    tables: list[ReportTable]
    notes: list[str]


def report(result: CalibrationAnswer) -> CalibrationReport:
    """The tables and sentences of a calibration."""
    lines: Rows = []
    for g in result.groups:
        for block, x, c in zip(g.posterior.blocks, g.posterior.x, g.posterior.contraction, strict=True):
            if c <= NAMED:
                continue
            lines.append(
                {
                    "phase": g.phase,
                    "software": g.software,
                    "block": block.name,
                    "move": float(np.expm1(x)) if c >= PARTLY and g.posterior.supported else None,
                    "contraction": float(c),
                    "says": "your rows determine it" if c >= DETERMINED else "partly" if c >= PARTLY else "prior",
                }
            )
    tables: dict[str, Rows] = {
        "error on your rows (median), and share inside the 80% interval": [
            {"phase": g.phase, "software": g.software, **vars(score), "interval": float(g.posterior.error)}
            for g in result.groups
            for score in g.scores
        ],
        "what your rows determine: seconds of each block against the shipped constants": lines,
        "rows that contradict physics, each other or the rest": [
            {"row": row.where, "left_out": "yes" if row.left_out else "no", "reason": row.reason}
            for row in result.contradictions
        ],
        "not read": aside(result.aside),
        "next measurement: standard deviation of the target, now and then": [
            {"phase": phase, "software": name, "measure": s["what"], "sd_before": s["before"], "sd_after": s["after"]}
            for (phase, name), found in result.next.items()
            for s in found
        ],
    }
    return CalibrationReport(
        hardware=result.hardware.id,
        rows=result.rows,
        tables=[ReportTable(title=title, rows=rows) for title, rows in tables.items()],
        notes=[*result.notes, *(note for g in result.groups for note in _notes(g))],
    )


def aside(rows: list[tuple[str, str]]) -> Rows:
    """Excluded rows, a line for each reason with the first of them."""
    places: dict[str, list[str]] = {}
    for where, reason in rows:
        places.setdefault(reason, []).append(where)
    return [{"row": each[0], "rows": len(dict.fromkeys(each)), "reason": reason} for reason, each in places.items()]


def _notes(g: PhaseFit) -> list[str]:
    """Caveats of one fit."""
    posterior, notes = g.posterior, []
    if not posterior.supported:
        near = ", but near these rows answers follow them" if g.moved else ""
        notes.append(
            f"the evidence does not favor moving the shipped constants ({posterior.evidence:+.1f} nats); they stay{near}"
        )
    elif len({row.where for row in g.rows}) == 1:
        x, block = max(zip(posterior.x, posterior.blocks, strict=True), key=lambda pair: abs(pair[0]))
        notes.append(
            f"one row alone moved {block.name} by {np.expm1(x):+.0%}, and would as far if it were wrong; add a second, measured elsewhere"
        )
    held_out = [score for score in g.scores if score.on == "held out"]
    if g.moved and not held_out:
        notes.append("too few rows to hold some out; the error on the fitted rows is no proof")
    if g.refused:
        notes.append(
            f"worse on the held-out rows ({held_out[0].error_before:.1%} before, {held_out[0].error_after:.1%} after)"
        )
    for block, x, prior in zip(posterior.blocks, posterior.x, posterior.prior / posterior.setting.width, strict=True):
        if posterior.supported and abs(x) > FAR * prior:
            notes.append(
                f"{block.name} moved by {np.expm1(x):+.0%}, more than {FAR:g} shipped errors: check the chip file, the layout and the formats first"
            )
    return [f"{g.phase} ({g.software}): {note}" for note in notes]
