"""The answer of `report`: an estimate with all that explains it: operations, the curve over the batch, derivations, sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from rooflinecli.core.derivation import Traced
from rooflinecli.core.lift import TracedLift
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as answered
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.explain import quantities
from rooflinecli.questions.ops.answer import Operation, Roofs, phase_operations, roofs
from rooflinecli.questions.profile.compare_estimate import TraceComparison
from rooflinecli.questions.simulate.from_estimate import ServedLoad, Unserved
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import Request

EXPLAINED = ("time_s", "floor_s", "tokens_per_s", "mfu", "mbu", "memory.total_bytes")

MOST = 2**16  # sequences per replica in serving: beyond it a curve tells nothing new
BEYOND = 4  # a training curve ends at this multiple of the batch asked for


class Source(Record):
    """A figure that was read from a file: its line, and the citation it comes with."""

    symbol: str
    value: float | None
    unit: str
    at: str
    citation: str


class CurvePoint(Record):
    """A phase at another batch."""

    batch: float
    time_s: float
    floor_s: float
    interval_s: list[float]
    tokens_per_s: float
    memory_bytes: float
    feasible: bool


class ReportAnswer(Record):
    """An estimate with its operations and curves by phase, the simulation of its load and a trace of its phase."""

    schema: str = "roofline/report/1"
    estimate: EstimateAnswer
    roofs: Roofs
    operations: dict[str, list[Operation]]
    curves: dict[str, list[CurvePoint]]
    simulation: ServedLoad | Unserved | None = field(default=None, metadata=OPTIONAL)
    profile: TraceComparison | None = field(default=None, metadata=OPTIONAL)
    sources: list[Source]


def report(
    request: Request, simulation: ServedLoad | Unserved | None = None, trace: TraceComparison | None = None
) -> tuple[ReportAnswer, dict[str, Traced]]:
    """Everything the page shows, and the derivations of the estimate's main numbers by their path in it.

    Raises what `estimate` raises; an infeasible plan is reported all the same.
    """
    result = estimate(request)
    traced = {path: n for path, n in quantities(estimate(request, TracedLift())).items() if isinstance(n, Traced)}
    answer = outline(request, result)
    answer.simulation, answer.profile = simulation, trace
    at = request.model.document.location("source")
    model = Source(symbol="model", value=None, unit="", at=at, citation=str(request.model.source))
    found: dict[tuple[str, str], Source] = {}
    for number in _leaves(list(traced.values())):  # inputs that were read from a file, once for each line
        at, _, citation = number.source.partition("; ")
        if ".yaml:" in at or ".json:" in at:
            source = Source(symbol=number.symbol, value=number.value, unit=number.unit, at=at, citation=citation)
            found.setdefault((number.symbol, at), source)
    answer.sources = [model, *sorted(found.values(), key=lambda source: (*_line(source.at), source.symbol))]
    wanted = [f"{phase}.{key}" for phase in result.phases for key in EXPLAINED]
    wanted += [f"cost.{key}" for key, _ in result.cost.entries()]
    return answer, {path: traced[path] for path in wanted if path in traced and traced[path].op != "leaf"}


def outline(request: Request, result: EstimateAnswer) -> ReportAnswer:
    """What there is to show of an estimate before anything is derived: roofs, operations, the curve over the batch."""
    plans, _ = choose_layouts(context_of(request))
    curves = {phase: curve(request, phase, choice.layout, result.phases[phase]) for phase, choice in plans.items()}
    return ReportAnswer(
        estimate=result,
        roofs=roofs(request),
        operations=phase_operations(request, result),
        curves={phase: points for phase, points in curves.items() if points},
        sources=[],
    )


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


def curve(request: Request, phase: str, plan: Layout, answer: PhaseAnswer) -> list[CurvePoint]:
    """Points by rising batch: powers of two, the batch asked for, and in serving the largest that fits; none of a prefill, whose prompts are
    served alone. A closed loop stays one, an open loop is answered as a steady batch."""
    points = []
    for batch in () if phase == "prefill" else _batches(request, phase, plan, answer):
        loop = None if request.concurrency is None else batch
        ctx = EstimateContext(replace(request, batch=batch, concurrency=loop, qps=None))
        found = answered(ctx, ctx.lifted(plan), phase)
        points.append(
            CurvePoint.like(
                found,
                batch=float(batch),
                interval_s=list(found.interval_s),
                memory_bytes=found.memory.total_bytes,
                feasible=found.memory.fits,
            )
        )
    return points


def _batches(request: Request, phase: str, plan: Layout, answer: PhaseAnswer) -> list[float]:
    ctx = EstimateContext(request)
    if phase == "train":
        least, asked = plan.dp * plan.micro_batch, ctx.train_batch
        sizes = {asked, *(least * 2**i for i in range(64) if least * 2**i <= BEYOND * asked)}
        taken = {size: EstimateContext(replace(request, batch=size)) for size in sizes}
        return sorted(size for size, other in taken.items() if legality.first_violation(other, plan, "train") is None)
    assert isinstance(answer, DecodeAnswer)  # prefill has no curve
    asked, most = answer.batch, min(float(answer.max_batch), MOST)
    found = {1.0, asked, *(2.0**i for i in range(17) if 2.0**i <= max(most, asked))}
    return sorted({*found, most} if most >= 1 else found)
