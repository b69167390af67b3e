"""Published runs on desk machines (data_published/desk.yaml) as questions, and the answers beside what was measured.

Groups whose rows gave the constants of engines/*.yaml stand apart from those that no fit saw.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.host import as_fits
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.scene import Scene
from rooflinecli.num import value
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.plan import WHOLE, Plan
from rooflinecli.specs.published import published
from rooflinecli.specs.request import Request
from rooflinecli.validate.stats import Points, Table, joined, summary

UNSAID = {
    "prompt": 512.0,
    "output": 256.0,
}  # where a row gives no lengths: the middle of the nine that LocalScore averages
NOTE = "Tokens per second. fitted: groups whose rows the constants saw (chips left out in turn: engines/llamacpp.yaml); left out: groups in no fit."


def rows() -> tuple[dict[str, Any], ...]:
    """All rows, as read."""
    return tuple(published("desk")["rows"])


def scene(row: dict[str, Any], prompt: float | None = None, output: float | None = None) -> Scene:
    """The question of a row: its model in its file type, on its chip, by its engine; `prompt`, else the tokens before a token.

    What does not fit on one device is shared out as llama.cpp would: as much of it on the device as goes there.
    """
    weights = None if row["weights"] == "fp16" else row["weights"]
    hardware = load_hardware(row["hardware"])
    before = float(row.get("depth", row["prompt"] if row.get("after_prompt") else 0))
    asked = Request(
        load_model(row["model"]),
        hardware,
        devices=float(row.get("devices", 1)),
        gpu_layers=float(row["gpu_layers"]) if "gpu_layers" in row else None,
        experts_on=row.get("experts_on"),
        host=load_hardware(row["host"]) if "host" in row else None,
        token_budget=float(row["micro_batch"]) if "micro_batch" in row else None,
        batch=float(row.get("batch", 1)),
        prompt=prompt or before or 1.0,
        output=output if output is not None else float(row.get("output", UNSAID["output"])),
        dtype="fp16" if "fp16" in hardware.peak else None,
        weight_dtype=weights,
        engine=row["engine"],
        flash=bool(row.get("flash", row["engine"] != "llamafile")),
    )
    found = Scene(asked)
    alone = row.get("devices", 1) == 1 and not {"gpu_layers", "experts_on"} & set(row)
    if not alone or hardware.host_link is None or hardware.kind == "cpu":
        return found
    away = as_fits(found, Plan(), engine_constant(found, "reserve_bytes", "B"))
    return Scene(replace(asked, **away)) if away else found


def _rate(count: float, answer: Any) -> tuple[float, float, float, float]:
    """Expected, best, and the interval, in tokens per second."""
    times = (answer.time_s, answer.floor_s, answer.interval_s[1], answer.interval_s[0])
    return tuple(count / float(value(t)) for t in times)  # type: ignore[return-value]


def _plan(row: dict[str, Any]) -> Plan:
    """One device, or several that share out the layers."""
    count = float(row.get("devices", 1))
    return Plan() if count == 1 else WHOLE.but(pp=count)


def tests_of(row: dict[str, Any]) -> list[list[float]]:
    """The tests that a source means over, where a row gives no lengths."""
    found = published("desk")["tests"].get(row["source"], [])
    return found if "prompt" not in row and "depth" not in row else []


def _mean(answers: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    return tuple(float(n) for n in np.mean(np.array(answers), axis=0))  # type: ignore[return-value]


def decoded(row: dict[str, Any]) -> tuple[float, float, float, float]:
    """Tokens per second of all its sequences: expected, at the floor, low, high."""
    batch, plan = float(row.get("batch", 1)), _plan(row)
    scenes = [scene(row, p, o) for p, o in tests_of(row)] or [scene(row)]
    return _mean([_rate(batch, decode(one, plan)) for one in scenes])


def prefilled(row: dict[str, Any]) -> tuple[float, float, float, float]:
    """Prompt tokens per second of one prompt: expected, at the floor, low, high."""
    prompt, plan = float(row.get("prompt", UNSAID["prompt"])), _plan(row)
    scenes = [scene(row, p, o) for p, o in tests_of(row)] or [scene(row, prompt)]
    return _mean([_rate(float(one.prompt), prefill(one, plan)) for one in scenes])


def points(which: str, group: str) -> Points:
    """Predictions and measurements of a group; `which` is decode or prefill."""
    answer = {"decode": decoded, "prefill": prefilled}[which]
    chosen = [
        row for row in rows() if row["group"] == group and which in row and not (which == "prefill" and "depth" in row)
    ]
    found = np.array([answer(row) for row in chosen]).reshape(len(chosen), 4)
    measured = np.array([float(row[which]) for row in chosen])
    expected, floor, low, high = found.T
    return Points(group, measured, expected, floor, low, high, higher=True)


@cache
def tables() -> list[Table]:
    """Decode and prefill, group by group and by whether a fit saw them."""
    fits = dict.fromkeys((row["group"], row["fit"]) for row in rows())
    made = []
    for which in ("decode", "prefill"):
        parts = [(fit, points(which, group)) for group, fit in fits]
        lines, known = [], [(fit, p) for fit, p in parts if len(p.measured)]
        for kind in ("fitted", "left out"):
            mine = [p for fit, p in known if fit == kind]
            lines += [{"fit": kind, **summary(p)} for p in mine]
            lines.append({"fit": kind, **summary(joined(f"all {kind}", mine))})
        made.append(Table(f"desk machines: {which}", lines, [NOTE], [p for _, p in known]))
    return made
