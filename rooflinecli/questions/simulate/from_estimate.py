"""An estimate's load, simulated: percentiles, batch and queue over time, and what other loads would see. For the report."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.importers.source import Options
from rooflinecli.questions.simulate.answer import curves, run, with_layout
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST

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
    names = (*NUMBERS, "slo_attainment") if question.limits else NUMBERS
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
