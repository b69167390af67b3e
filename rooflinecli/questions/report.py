"""`roofline report`: an estimate with all that explains it: operations, the curve over the batch, derivations, sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rooflinecli.core.derivation import Traced
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.core.record import plain
from rooflinecli.questions.estimate.answer import choose_plans, estimate, scene_of
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.explain import quantities
from rooflinecli.questions.estimate.latency_throughput_curve import curve
from rooflinecli.questions.ops import answer as operations
from rooflinecli.questions.profile.compare_estimate import TraceComparison
from rooflinecli.specs.request import Request

SCHEMA = "roofline/report/1"
EXPLAINED = ("time_s", "floor_s", "tokens_per_s", "mfu", "mbu", "memory.total_bytes")


@dataclass(frozen=True, eq=False)
class Report:
    """`data` is what the page shows and embeds, plain and in SI; `derivations` are traced numbers by their path in the estimate."""

    data: dict[str, Any]
    derivations: dict[str, Traced]


def report(request: Request, simulation: dict[str, Any] | None = None, trace: TraceComparison | None = None) -> Report:
    """Everything the page shows, with the `simulation` of its load and a `trace` beside it (answers/against) where there are any.

    Raises what `estimate` raises; an infeasible plan is reported all the same.
    """
    result = estimate(request)
    traced = quantities(estimate(request, TracedInputs()))
    data = outline(request, result) | ({"simulation": simulation} if simulation else {})
    data |= {"profile": plain(trace)} if trace else {}
    data |= {"sources": [*_stated(request), *_sources(traced)]}
    wanted = [
        *(f"{phase}.{key}" for phase in result.phases for key in EXPLAINED),
        *(f"cost.{key}" for key, _ in result.cost.entries()),
    ]
    return Report(
        data,
        {path: traced[path] for path in wanted if isinstance(traced.get(path), Traced) and traced[path].op != "leaf"},
    )


def outline(request: Request, result: EstimateAnswer) -> dict[str, Any]:
    """What there is to show of an estimate before anything is derived: roofs, operations, the curve over the batch."""
    plans, _ = choose_plans(scene_of(request))
    return {
        "schema": SCHEMA,
        "estimate": plain(result),
        "roofs": operations.roofs(request),
        "operations": operations.listed(request, result),
        "curves": {
            phase: points
            for phase, choice in plans.items()
            if (points := curve(request, phase, choice.layout, result.phases[phase]))
        },
    }


def _stated(request: Request) -> list[dict[str, Any]]:
    """Where the model's description comes from, as its own file says."""
    model = request.model
    return [
        {
            "symbol": "model",
            "value": None,
            "unit": "",
            "at": model.document.location("source"),
            "citation": str(model.source),
        }
    ]


def _sources(traced: dict[str, Any]) -> list[dict[str, Any]]:
    """Every input that an answer rests on and that was read from a file: symbol, value, file:line, citation."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for number in _leaves([value for value in traced.values() if isinstance(value, Traced)]):
        at, _, citation = number.source.partition("; ")
        if ".yaml:" in at or ".json:" in at:
            found.setdefault(
                (number.symbol, at),
                {"symbol": number.symbol, "value": number.value, "unit": number.unit, "at": at, "citation": citation},
            )
    return sorted(found.values(), key=lambda s: (*_line(s["at"]), s["symbol"]))


def _line(at: str) -> tuple[str, int, str]:
    """`models/a.yaml:12: images` -> file, line and what follows, so that line 12 comes after line 9."""
    file, _, rest = at.partition(":")
    line, _, more = rest.partition(":")
    return file, int(line) if line.strip().isdigit() else 0, more


def _leaves(roots: list[Traced]) -> Iterator[Traced]:
    """The inputs under some traced numbers, each once."""
    stack, seen = list(roots), set()
    while stack:
        top = stack.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        if top.op == "leaf":
            yield top
        stack += [part for part in top.args if isinstance(part, Traced)]
