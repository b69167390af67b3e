"""Hardware file of a calibration, which extends the file that was calibrated."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rooflinecli.calibrate.answer import CalibrationAnswer
from rooflinecli.calibrate.phase_fit import PhaseFit, own_rows
from rooflinecli.calibrate.posterior import merged
from rooflinecli.core.text import plural
from rooflinecli.price import overrides
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.name_lookup import files

LEAST = 5e-4  # of a factor: a smaller move is not written


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
