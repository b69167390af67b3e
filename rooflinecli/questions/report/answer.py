"""The answer of `report`: an estimate with all that explains it: operations, the curve over the batch, derivations, sources.

An estimate's load is simulated for it: percentiles, batch and queue over time, and what other loads would see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from rooflinecli.core.derivation import Traced
from rooflinecli.core.derivation_text import quantities
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.lift import TracedLift
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as answered
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.ops.answer import Operation, Roofs, phase_operations, roofs
from rooflinecli.questions.profile.compare_estimate import TraceComparison
from rooflinecli.questions.simulate.answer import curves, run, with_layout
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST, Request

EXPLAINED = ("time_s", "floor_s", "tokens_per_s", "mfu", "mbu", "memory.total_bytes")

MOST_SEQUENCES = 2**16  # sequences per replica in serving: beyond it a curve tells nothing new
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


def curve(request: Request, phase: str, layout: Layout, answer: PhaseAnswer) -> list[CurvePoint]:
    """Points by rising batch: powers of two, the batch asked for, and in serving the largest that fits; none of a prefill, whose prompts are
    served alone. A closed loop stays one, an open loop is answered as a steady batch."""
    points = []
    for batch in () if phase == "prefill" else _batches(request, phase, layout, answer):
        loop = None if request.concurrency is None else batch
        ctx = EstimateContext(replace(request, batch=batch, concurrency=loop, qps=None))
        found = answered(ctx, ctx.lifted(layout), phase)
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


def _batches(request: Request, phase: str, layout: Layout, answer: PhaseAnswer) -> list[float]:
    ctx = EstimateContext(request)
    if phase == "train":
        least, asked = layout.dp * layout.micro_batch, ctx.train_batch
        sizes = {asked, *(least * 2**i for i in range(64) if least * 2**i <= BEYOND * asked)}
        taken = {size: EstimateContext(replace(request, batch=size)) for size in sizes}
        return sorted(size for size, other in taken.items() if legality.first_violation(other, layout, "train") is None)
    assert isinstance(answer, DecodeAnswer)  # prefill has no curve
    asked, most = answer.batch, min(float(answer.max_batch), MOST_SEQUENCES)
    found = {1.0, asked, *(2.0**i for i in range(17) if 2.0**i <= max(most, asked))}
    return sorted({*found, most} if most >= 1 else found)


LOADS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
REQUESTS, INSTANTS = 500, 300
NOT_MEANT = ("kv-tier", "prompts-per-slot", "lengths")  # which an estimate has as means, or for other work
NUMBERS = tuple(
    "requests ttft_p50_s ttft_p99_s tpot_p50_s tpot_p99_s e2e_p99_s output_tokens_per_s decode_batch_max preemptions".split()
)


class LoadPoint(Record):
    """What requests see under another load."""

    load: float
    ttft_p99_s: float
    output_tokens_per_s: float
    slo_attainment: float | None = field(default=None, metadata=OPTIONAL)


class ServedLoad(Record):
    """A simulated load and its multiples; `values` are quantities of `simulate`.

    percentiles: the seconds (`time_s`) that a `share` of the requests keeps to; over_time: sequences that decode and that queue at an instant.
    """

    load: dict[str, float]
    slo: str | None
    values: dict[str, float]
    percentiles: dict[str, list[dict[str, float]]]
    over_time: list[dict[str, float]]
    loads: list[LoadPoint]


class Unserved(Record):
    """Why a load cannot be served."""

    violation: str


def served(options: Options, slo: str | None) -> ServedLoad | Unserved | None:
    """Curves of the load that options of an estimate ask for; None without --qps or a finite --concurrency, and where it cannot be held.

    `slo` is an SLO as `roofline simulate` takes it: with one, other loads say the share of requests inside it.
    """
    load = "qps" if options.get("qps") is not None else "concurrency"
    if options.get(load) is None or str(options[load]) == "max":
        return None
    known = Simulate.fields()
    own = {name: value for name, value in options.items() if name not in NOT_MEANT and OPTIONS[name].parameter in known}
    question = Simulate.read(own | ({"slo": slo} if slo else {}))
    if load == "qps":
        question = question.replace(num_requests=REQUESTS)
    try:
        found = run(question)
    except Infeasible as error:
        return Unserved(violation=str(error))
    question = with_layout(question, found.about["layout"])
    samples = found.replicas[0].tally.samples
    names = [name for name in (*NUMBERS, "slo_attainment") if name in found.values]
    return ServedLoad(
        load={load: getattr(question, load)},
        slo=question.limits.text if question.limits else None,
        values={name: found.values[name] for name in names},
        percentiles={
            name: [{"share": share, "time_s": seconds} for share, seconds in line]
            for name, line in curves(found, 100).items()
            if name != "queue"
        },
        over_time=[
            {"at_s": at, "batch": b, "queue": q} for at, b, q, _ in samples[:: max(-(-len(samples) // INSTANTS), 1)]
        ],
        loads=[point for factor in LOADS if (point := _at(question, load, factor)) is not None],
    )


def _at(question: Simulate, load: str, factor: float) -> LoadPoint | None:
    """Another load; None where it cannot be held, or is the same again."""
    amount = getattr(question, load) * factor
    if load == "concurrency" and (amount < 1 or amount != round(amount) or amount >= MOST):
        return None
    try:
        values = run(question.replace(**{load: type(getattr(question, load))(amount)})).values
    except Infeasible:
        return None
    return LoadPoint(
        load=float(amount),
        ttft_p99_s=values["ttft_p99_s"],
        output_tokens_per_s=values["output_tokens_per_s"],
        slo_attainment=values["slo_attainment"] if question.limits else None,
    )
