"""One choice of structure over a box of sizes: `estimate`'s own arithmetic on arrays.

Each size that varies gets an array dimension of its own, so a term that depends on few sizes costs few operations and the
results broadcast only at the end. The longest axis is laid out last, where numpy is fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rooflinecli.answers import ask
from rooflinecli.answers.estimate import cost
from rooflinecli.answers.sweep import legal
from rooflinecli.answers.sweep.axes import Axis, figure
from rooflinecli.answers.sweep.grid import Box
from rooflinecli.engine import choose as planning
from rooflinecli.engine import inference
from rooflinecli.engine.scene import SEQ, Scene
from rooflinecli.engine.serving_load import arriving
from rooflinecli.engine.training import train
from rooflinecli.num import Number
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request

PHASE = {"prefill": inference.prefill, "decode": inference.decode, "train": train}
_PLAN = ("tp", "pp", "dp", "cp", "ep", "micro_batch", "virtual_stages")


@dataclass
class Answer:
    """What `estimate` says of every point of a box, as numbers and arrays that broadcast to `shape`."""

    phases: dict[str, dict[str, Any]]
    plan: dict[str, Number]
    cost: dict[str, Any]
    rules: list[legal.Rule]
    fits: list[legal.Rule]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    axes: dict[str, Number]
    roofs: dict[str, Number]

    def flat(self, value: Number) -> np.ndarray:
        """One value per point, in the order of points."""
        return np.broadcast_to(value, self.shape).transpose(self.order).reshape(-1)

    @property
    def points(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def request_of(choice: dict[str, Any], phases: tuple[str, ...]) -> Request:
    """The question of one choice of structure, sizes left open."""
    words = {ask.WORDS[k]: v for k, v in choice.items() if k in ask.WORDS}
    words |= {ask.SWITCHES[k]: v for k, v in choice.items() if k in ask.SWITCHES}
    return Request(
        load_model(choice["model"]), load_hardware(choice["hw"]), zero=choice.get("zero"), phases=phases, **words
    )


def lay_out(
    axes: tuple[Axis, ...], box: Box, request: Request
) -> tuple[dict[str, Number], tuple[int, ...], tuple[int, ...]]:
    """Values of every axis inside the box, the shape they broadcast to, and the transpose back to the order of points."""
    lengths = [stop - start for start, stop in box]
    places = sorted(range(len(box)), key=lambda i: lengths[i])  # place -> axis
    shape = tuple(lengths[i] for i in places)
    found: dict[str, Number] = {}
    for i, (axis, (start, stop)) in enumerate(zip(axes, box, strict=True)):
        scale = figure(request.hardware, axis.name).si if axis.relative else 1.0
        if len(axis.values) == 1:
            found[axis.name] = axis.values[0] * scale if axis.relative else axis.values[0]
            continue
        dims = [1] * len(box)
        dims[places.index(i)] = stop - start
        found[axis.name] = np.array(axis.values[start:stop], dtype=np.float64).reshape(dims) * scale
    order = tuple(places.index(i) for i in range(len(box)))
    return found, shape, order


def answer(request: Request, axes: tuple[Axis, ...], box: Box) -> Answer:
    """Evaluate a box. Raises UsageError for a structure that does not exist (a dtype the chip lacks)."""
    sizes, shape, order = lay_out(axes, box, request)
    question, override, fields = question_of(request, axes, sizes)
    plans = {phase: plan_of(question, phase, fields) for phase in request.phases}
    with np.errstate(all="ignore"):
        scene = Scene(question, override=override)
        results = {phase: PHASE[phase](scene, plan) for phase, plan in plans.items()}
        bill = cost(scene, results, {k: planning.Choice(p, False, "", True) for k, p in plans.items()})
        rules = [rule for phase, plan in plans.items() for rule in legal.rules(scene, plan, phase)]
    fits = [
        (f"{phase}.memory", held["memory"]["total_bytes"] <= held["memory"]["capacity_bytes"])
        for phase, held in results.items()
    ]
    if question.qps is not None:
        with np.errstate(all="ignore"):
            rules += [("prompts leave time to decode", arriving(scene, plan)[2] < 1) for plan in plans.values()]
    plan = next(iter(plans.values()))
    shown = {name: getattr(plan, name) for name in ("devices", *_PLAN)}
    roofs = {"peak": scene.chip.peak(scene.formats.compute), "bandwidth": scene.chip.bandwidth}
    return Answer(results, shown, bill, rules, fits, shape, order, sizes, roofs)


def question_of(
    request: Request, axes: tuple[Axis, ...], sizes: dict[str, Number]
) -> tuple[Request, dict[str, Number], dict[str, Number]]:
    """The request with its workload filled in, the hardware figures overridden, and every size by its field."""
    override = {a.name: sizes[a.name] for a in axes if a.kind == "figure"}
    fields = {ask.NUMBERS[a.name]: sizes[a.name] for a in axes if a.kind == "number"}
    if any(a.name == "batch" and a.tokens for a in axes):
        fields["batch"] = fields["batch"] / fields.get("seq", SEQ)
    return replace(request, **{k: v for k, v in fields.items() if k not in (*_PLAN, "devices")}), override, fields


def missing(request: Request, axes: tuple[Axis, ...], box: Box, why: str) -> Answer:
    """A box of points whose structure does not exist on this chip: every one infeasible, for the reason given."""
    sizes, shape, order = lay_out(axes, box, request)
    return Answer({}, {}, {}, [(why, np.bool_(False))], [], shape, order, sizes, {})


def plan_of(request: Request, phase: str, sizes: dict[str, Number]) -> Plan:
    """The plan given: sizes default to 1 (dp to what -n leaves), ZeRO to 1, recomputation to none, as the help says."""
    given = {name: sizes[name] for name in _PLAN if name in sizes}
    if "devices" in sizes and "dp" not in given:
        given["dp"] = sizes["devices"] / (given.get("tp", 1.0) * given.get("pp", 1.0) * given.get("cp", 1.0))
    parallel = request.sequence_parallel
    if phase != "train":
        return Plan(**given, zero=0, sequence_parallel=bool(parallel), flash=request.flash, **planning.layout(request))
    if parallel is None:  # at tp = 1 it changes nothing, so a block may decide it once
        parallel = bool(np.any(np.greater(given.get("tp", 1.0), 1)))
    return Plan(
        **given,
        zero=1 if request.zero is None else request.zero,
        sequence_parallel=parallel,
        recompute=request.recompute or "none",
        flash=request.flash,
        **planning.layout(request),
    )
