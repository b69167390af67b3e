"""Published runs on local machines (published_runs/desk.yaml) and their predictions, in tokens per second.

Groups whose rows gave the constants of engines/*.yaml are kept apart from those that no fit saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from rooflinecli.core.num import value
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.host_offload import offload_to_fit
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request
from rooflinecli.specs.snapshots import published
from rooflinecli.validate.stats import Points, Row, Table, joined, notes, summary

Rate = tuple[float, float, float, float]  # expected, ceiling, low, high

# tokens where a row has none: the middle of the nine tests that LocalScore averages
UNSTATED = {"prompt": 512.0, "output": 256.0}
VOLUNTEERS = ("localscore_2026", "normiebench_2026", "llmfit_2026")


def rows() -> tuple[Row, ...]:
    """All rows, as read."""
    return tuple(published("desk")["rows"])


def ctx(row: Row, prompt: float | None = None, output: float | None = None) -> EstimateContext:
    """The context of a row: its model in its file type, on its chip, by its engine; `prompt` defaults to the tokens before the one decoded.

    A model that exceeds one device is split as llama.cpp would: as many layers on the device as fit.
    """
    weights = None if row["weights"] == "fp16" else row["weights"]
    hardware = load_hardware(row["hardware"])
    before = float(row["depth"] if "depth" in row else row["prompt"] if row.get("after_prompt") else 0)
    request = Request(
        load_model(row["model"]), hardware, devices=float(row.get("devices", 1)),
        gpu_layers=float(row["gpu_layers"]) if "gpu_layers" in row else None, experts_on=row.get("experts_on"),
        host=load_hardware(row["host"]) if "host" in row else None,
        token_budget=float(row["micro_batch"]) if "micro_batch" in row else None, batch=float(row.get("batch", 1)),
        prompt=prompt or before or 1.0, output=output if output is not None else float(row.get("output", UNSTATED["output"])),
        dtype="fp16" if "fp16" in hardware.peak else None, weight_dtype=weights, engine=row["engine"],
        flash=bool(row.get("flash", row["engine"] != "llamafile")),
    )  # fmt: skip
    found = EstimateContext(request)
    alone = row.get("devices", 1) == 1 and not {"gpu_layers", "experts_on"} & set(row)
    if not alone or hardware.host_link is None or hardware.kind == "cpu":
        return found
    away = offload_to_fit(found, Layout(), engine_constant(found, "reserve_bytes", "B"))
    return EstimateContext(replace(request, **away)) if away else found


def _mean_rate(
    row: Row, contexts: list[EstimateContext], count: float | None, phase: Callable[..., PhaseAnswer]
) -> Rate:
    """Mean over `contexts` (the tests that a source averages, else the row itself) of `count` (else the prompt's) tokens over the phase's time."""
    devices = float(row.get("devices", 1))
    layout = Layout() if devices == 1 else WHOLE.with_changes(pp=devices)  # several devices share the layers
    rates = []
    for context in contexts:
        answer = phase(context, layout)
        times = (answer.time_s, answer.floor_s, answer.interval_s[1], answer.interval_s[0])
        tokens = float(context.prompt) if count is None else count
        rates.append([tokens / float(value(t)) for t in times])
    expected, ceiling, low, high = np.mean(np.array(rates), axis=0)
    return float(expected), float(ceiling), float(low), float(high)


def tests_of(row: Row) -> list[list[float]]:
    """Prompt and output of the tests that a source averages, where a row gives no lengths."""
    tests: list[list[float]] = published("desk")["tests"].get(row["source"], [])
    return tests if "prompt" not in row and "depth" not in row else []


def contexts(row: Row, prompt: float | None = None) -> list[EstimateContext]:
    return [ctx(row, p, o) for p, o in tests_of(row)] or [ctx(row, prompt)]


def decoded(row: Row) -> Rate:
    """Tokens per second of all its sequences."""
    return _mean_rate(row, contexts(row), float(row.get("batch", 1)), decode)


def prefilled(row: Row) -> Rate:
    """Prompt tokens per second; behind the row's `depth` tokens the prompt of both, of which the context is cached. Prompts of several sequences share micro-batches."""
    prompt = float(row.get("prompt", UNSTATED["prompt"]))
    if depth := float(row.get("depth", 0)):
        asked = replace(ctx(row, prompt).request, prompt=depth + prompt, prefix_hit=depth / (depth + prompt))
        return _mean_rate(row, [EstimateContext(asked)], prompt, prefill)
    if row.get("after_prompt") and "micro_batch" in row:
        prompt = max(prompt, min(prompt * float(row["batch"]), float(row["micro_batch"])))
    return _mean_rate(row, contexts(row, prompt), None, prefill)


# quantity of a table -> field of a row, whether the row has tokens before its prompt (None: either), prediction
QUANTITIES: dict[str, tuple[str, bool | None, Callable[[Row], Rate]]] = {
    "decode": ("decode", None, decoded),
    "prefill": ("prefill", False, prefilled),
    "prefill behind a context": ("prefill", True, prefilled),
}


def points(which: str, group: str, without: frozenset[str] = frozenset()) -> Points:
    """Predictions and measurements of a group but for the rows `without`; `which` is one of QUANTITIES."""
    name, deep, answer = QUANTITIES[which]
    chosen = [
        row
        for row in rows()
        if row["group"] == group and name in row and row["id"] not in without and deep in (None, "depth" in row)
    ]
    return Points.of(group, [(float(row[name]), *answer(row)) for row in chosen], higher=True)


def implausible() -> frozenset[str]:
    """Ids of volunteers' rows that were not measured on the machine they name, by published_runs/implausible.yaml."""
    return frozenset(published("implausible")["rows"])


@cache
def tables() -> list[Table]:
    """Decode and prefill, group by group and by whether a fit saw them; once more without implausible rows."""
    fits = dict.fromkeys((row["group"], row["fit"]) for row in rows())
    strange = implausible()
    made = []
    for which in QUANTITIES:
        parts = [(fit, p) for group, fit in fits if len((p := points(which, group)).measured)]
        lines: list[Row] = []
        lines += [{"fit": "at fault", **summary(p)} for fit, p in parts if fit == "at fault"]
        for kind in ("fitted", "left out"):
            groups = [p for fit, p in parts if fit == kind]
            lines += [{"fit": kind, **summary(p)} for p in (*groups, joined(f"all {kind}", groups))]
        kept = [points(which, p.group, strange) if p.group in VOLUNTEERS else p for p in groups]
        fewer = [
            replace(k, group=f"{k.group}, comparable")
            for k, p in zip(kept, groups, strict=True)
            if len(k.measured) < len(p.measured)
        ]
        lines += [{"fit": "left out", **summary(p)} for p in (*fewer, joined("all left out, comparable", kept))]
        comparable = [note.format(len(strange)) for note in notes("comparable")]
        title = f"local machines: {which}"
        made.append(Table(title, lines, notes("local machines") + comparable, [p for _, p in parts]))
    return made
