"""What a calibration writes: its report, schema roofline/calibrate/2, and a hardware file that extends the one that was calibrated."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rooflinecli.calibrate.answer import CalibrationAnswer
from rooflinecli.calibrate.phase_fit import PhaseFit, own_rows
from rooflinecli.calibrate.posterior import merged
from rooflinecli.core.record import Record, ReportTable
from rooflinecli.core.text import plural
from rooflinecli.price import overrides
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.name_lookup import files

Rows = list[dict[str, float | str | None]]
# contraction from which rows determine a group of constants, or do so in part: fits to half of the rows agree from there on
DETERMINED, PARTLY = 0.75, 0.3
NAMED = 0.01  # contraction from which a group has a line
LEAST = 5e-4  # of a factor: a smaller move is not written
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


def hardware_yaml(result: CalibrationAnswer, today: date | None = None) -> str:
    """The text of the file: `extends`, and for each phase its factors, errors, rows, sources and range."""
    day = (today or date.today()).isoformat()
    data: dict[str, object] = {
        "extends": base(result.hardware),
        "calibration": {
            phase: {g.software: _entry(g, result.hardware, day) for g in result.moved if g.phase == phase}
            for phase in dict.fromkeys(g.phase for g in result.moved)
        },
    }
    if result.refused:
        data["measured"] = {"forced": "held-out rows got worse by this calibration"}
    head = f"# Written by `roofline calibrate` on {day} from {plural(result.rows, 'row')}; factors multiply the constants of the file below.\n"
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=150)


def base(hardware: HardwareSpec) -> str:
    """The file to extend: a registered one by its name, another by its path."""
    path = hardware.document.path
    known = files("hardware").get(path.stem)
    return path.stem if known is not None and known.resolve() == path.resolve() else str(Path(path).resolve())


def _entry(g: PhaseFit, hardware: HardwareSpec, day: str) -> dict[str, object]:
    near, known = _near(g), overrides.classes(hardware)
    factors = {
        path: round(float(f), 4)
        for path, f in merged(g.phase, g.posterior.taken).items()
        if abs(float(f) - 1) > LEAST or (near and (path.startswith(overrides.ENGINE) or path.split(".")[1] in known))
    }  # the local residual moves every constant, also those that stay elsewhere
    tables = {str(phase): table for phase, table in hardware.calibration.items()}
    earlier = tables.get(g.phase, {}).get(g.software)
    stale = {path: 1.0 for path in (earlier.factors if earlier else {}) if path not in factors}
    shown = next((p for p in g.scores if p.on == "held out"), g.scores[0] if g.scores else None)
    return {
        "factors": {**factors, **stale},
        "error": round(g.posterior.error, 4),
        "date": day,
        "rows": len(g.rows),
        "sources": list(dict.fromkeys(row.where.rpartition(":")[0] for row in g.rows)),
        "before": round(shown.error_before, 4) if shown else 0.0,
        "after": round(shown.error_after, 4) if shown else 0.0,
        "range": {name: [low, high] for name, (low, high) in g.range.items()},
        **({"near": near} if near else {}),
        **({"note": "micro-benchmarks alone"} if not own_rows(g.rows) else {}),
    }


def _near(g: PhaseFit) -> list[dict[str, object]]:
    """Rows with a local residual."""
    names = sorted(g.range)
    return [
        {"at": {n: float(f"{np.exp(v):.6g}") for n, v in zip(names, place, strict=True)}, "move": round(float(move), 4)}
        for place, move in zip(g.local.places, g.local.moves, strict=True)
        if abs(move) > LEAST
    ]
