"""Published runs on local machines (published_runs/desk.yaml) and their predictions.

Groups whose rows gave the constants of engines/*.yaml are kept apart from those that no fit saw.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rooflinecli.core.num import value
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.host_offload import offload_to_fit
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.published_runs import published
from rooflinecli.specs.request import Request
from rooflinecli.validate.stats import Points, Table, joined, summary

UNSTATED = {
    "prompt": 512.0,
    "output": 256.0,
}  # lengths of a row without any: the middle of the nine that LocalScore averages
VOLUNTEERS = ("localscore_2026", "normiebench_2026", "llmfit_2026")
TIMES = 2.0  # by how much a lesser chip must be faster
NOTE = "Tokens per second. fitted: groups whose rows the constants saw (chips left out in turn: engines/llamacpp.yaml); left out: groups in no fit."
APART = (
    "comparable: without {} of volunteers' databases, on a chip that a lesser one of its maker beats twofold, so that it was not at work, or whose "
    "memory does not hold the file, so that its driver moved pages (`implausible` of validate/local_machines.py). No prediction decides."
)


def rows() -> tuple[dict[str, Any], ...]:
    """All rows, as read."""
    return tuple(published("desk")["rows"])


def ctx(row: dict[str, Any], prompt: float | None = None, output: float | None = None) -> EstimateContext:
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
        output=output if output is not None else float(row.get("output", UNSTATED["output"])),
        dtype="fp16" if "fp16" in hardware.peak else None,
        weight_dtype=weights,
        engine=row["engine"],
        flash=bool(row.get("flash", row["engine"] != "llamafile")),
    )
    found = EstimateContext(asked)
    alone = row.get("devices", 1) == 1 and not {"gpu_layers", "experts_on"} & set(row)
    if not alone or hardware.host_link is None or hardware.kind == "cpu":
        return found
    away = offload_to_fit(found, Layout(), engine_constant(found, "reserve_bytes", "B"))
    return EstimateContext(replace(asked, **away)) if away else found


def _rate(count: float, answer: Any) -> tuple[float, float, float, float]:
    """Expected, best, and the interval, in tokens per second."""
    times = (answer.time_s, answer.floor_s, answer.interval_s[1], answer.interval_s[0])
    return tuple(count / float(value(t)) for t in times)  # type: ignore[return-value]


def _plan(row: dict[str, Any]) -> Layout:
    """One device, or several that share out the layers."""
    count = float(row.get("devices", 1))
    return Layout() if count == 1 else WHOLE.with_changes(pp=count)


def tests_of(row: dict[str, Any]) -> list[list[float]]:
    """The tests that a source means over, where a row gives no lengths."""
    found = published("desk")["tests"].get(row["source"], [])
    return found if "prompt" not in row and "depth" not in row else []


def _contexts(row: dict[str, Any], prompt: float | None = None) -> list[EstimateContext]:
    """The contexts of a row: one for each test that its source means over, else its own."""
    return [ctx(row, p, o) for p, o in tests_of(row)] or [ctx(row, prompt)]


def _mean(answers: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    return tuple(float(n) for n in np.mean(np.array(answers), axis=0))  # type: ignore[return-value]


def decoded(row: dict[str, Any]) -> tuple[float, float, float, float]:
    """Tokens per second of all its sequences: expected, at the floor, low, high."""
    batch, plan = float(row.get("batch", 1)), _plan(row)
    return _mean([_rate(batch, decode(one, plan)) for one in _contexts(row)])


def prefilled(row: dict[str, Any]) -> tuple[float, float, float, float]:
    """Prompt tokens per second: expected, at the floor, low, high. Prompts of several sequences share micro-batches."""
    prompt, plan = float(row.get("prompt", UNSTATED["prompt"])), _plan(row)
    if row.get("after_prompt") and "micro_batch" in row:
        prompt = max(prompt, min(prompt * float(row["batch"]), float(row["micro_batch"])))
    return _mean([_rate(float(one.prompt), prefill(one, plan)) for one in _contexts(row, prompt)])


def points(which: str, group: str, without: frozenset[str] = frozenset()) -> Points:
    """Predictions and measurements of a group but for the rows `without`; `which` is decode or prefill."""
    answer = {"decode": decoded, "prefill": prefilled}[which]
    chosen = [
        row for row in rows() if row["group"] == group and which in row and not (which == "prefill" and "depth" in row)
    ]
    chosen = [row for row in chosen if row["id"] not in without]
    return Points.of(group, [(float(row[which]), *answer(row)) for row in chosen], higher=True)


@cache
def implausible() -> frozenset[str]:
    """Ids of volunteers' rows that are not the machine they name: beaten by a lesser chip, or too large for its memory."""
    volunteers = [row for row in rows() if row["group"] in VOLUNTEERS]
    spilled = [row["id"] for row in volunteers if any(context.host for context in _contexts(row))]
    return beaten_by_lesser(rows()) | frozenset(spilled)


def beaten_by_lesser(rows: tuple[dict[str, Any], ...]) -> frozenset[str]:
    """Ids of volunteers' rows whose chip a lesser one of its vendor beats twofold on the same file.

    A mean over users mixes drivers, shares of a virtual board and fallbacks to the CPU, and nothing in a row tells which. The rule uses
    no prediction: it compares measured decode rates, which weights on their way over a bus decide, on boards with no more bandwidth, matrix
    rate and memory. Prompts are not compared: matrix units of different years want different kernels.
    """
    volunteers = [row for row in rows if row["group"] in VOLUNTEERS]
    return frozenset(row["id"] for row in volunteers if any(_beats(other, row) for other in rows))


def _beats(other: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether `other` shows that the chip of `row` was not at work."""
    same = ("model", "weights", "engine", "batch", "devices", "prompt")
    if any(row.get(key, 1) != other.get(key, 1) for key in same):
        return False
    if not other.get("decode", 0.0) > TIMES * row.get("decode", float("inf")):
        return False
    lesser, chip = load_hardware(other["hardware"]), load_hardware(row["hardware"])
    if lesser.id == chip.id or lesser.vendor != chip.vendor:
        return False
    return all(a <= b for a, b in zip(_figures(lesser), _figures(chip), strict=True))


def _figures(spec: HardwareSpec) -> tuple[float, float, float]:
    rate = max(figure.si for name, figure in spec.peak.items() if name in ("fp16", "bf16", "fp32"))
    return spec.memory.bandwidth.si, rate, spec.memory.capacity.si


@cache
def tables() -> list[Table]:
    """Decode and prefill, group by group and by whether a fit saw them."""
    fits = dict.fromkeys((row["group"], row["fit"]) for row in rows())
    strange = implausible()
    made = []
    for which in ("decode", "prefill"):
        parts = [(fit, points(which, group)) for group, fit in fits]
        lines, known = [], [(fit, p) for fit, p in parts if len(p.measured)]
        for kind in ("fitted", "left out"):
            mine = [p for fit, p in known if fit == kind]
            lines += [{"fit": kind, **summary(p)} for p in mine]
            lines.append({"fit": kind, **summary(joined(f"all {kind}", mine))})
        lines += _comparable(which, mine, strange)
        made.append(
            Table(f"desk machines: {which}", lines, [NOTE, APART.format(f"{len(strange)} rows")], [p for _, p in known])
        )
    return made


def _comparable(which: str, left_out: list[Points], strange: frozenset[str]) -> list[dict[str, Any]]:
    """The volunteers' groups and all that is left out once more, without the strange rows."""
    kept = [points(which, p.group, strange) if p.group in VOLUNTEERS else p for p in left_out]
    fewer = [k for k, p in zip(kept, left_out, strict=True) if len(k.measured) < len(p.measured)]
    named = [*(replace(p, group=f"{p.group}, comparable") for p in fewer), joined("all left out, comparable", kept)]
    return [{"fit": "left out", **summary(p)} for p in named]
