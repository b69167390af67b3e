"""A simulation: latency percentiles, what else the run shows, classes, and how the SLO is met; a study of several, a row each."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.core.text import plural
from rooflinecli.questions.estimate.answer_types import TriedChange
from rooflinecli.questions.simulate.question import SimulateAnswer, SloAnswer, StudyAnswer
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, Table, page, records
from rooflinecli.render.numbers import layout, money, percent, text
from rooflinecli.render.views.estimate import tried
from rooflinecli.specs.quantities import QUANTITIES
from rooflinecli.specs.snapshots import packaged

MAX_CLASSES = 20  # rows of a table; JSON has them all
_POINTS = ("mean", "p50", "p90", "p95", "p99")
_LATENCIES = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E latency", "queue": "queueing"}
_NAMES = Column("", lambda name: _LATENCIES[name], text=True)
_TABLE = packaged(__file__)
_SHOWN, _FIRST = _TABLE["shown"], _TABLE["first"]
_IF_ANY = ("prefix_cache_hit_rate", "preemptions")


def view(answer: SimulateAnswer, changes: Sequence[TriedChange] = ()) -> Page:
    """Title, latencies, the other numbers of the run, what limits it, changes that would help by the estimate, classes, targets, notes."""
    most = Column("max", lambda name: text(answer.simulate[f"{name}_max_s"], "time_s"))
    return page(
        [Headline(_title(answer))],
        [_latencies(answer)],
        [_numbers(answer, True)],
        [Pairs(_limits(answer, changes)), *map(Prose, _fewest(answer.slo, answer.simulate["replicas"]))],
        [_classes(answer)],
        [None if answer.slo is None or len(answer.slo.targets) < 2 else records(_TARGETS, answer.slo.targets)],
        [*map(Note, [*_interruption(answer), *_left_out(answer), *answer.notes[1:]])],
        details=[[records([_NAMES, most], _measured(answer))], [_numbers(answer, False)]],
        about="maxima, input throughput, batches, cache, energy, prices",
    )


def _title(answer: SimulateAnswer) -> str:
    load, values = answer.load, answer.simulate
    what = (
        f"{load.qps:g} requests/s"
        if load.qps
        else f"{load.concurrency} in flight"
        if load.concurrency
        else "as recorded"
    )
    if not answer.sustained:
        what += f", of which it completes {values['requests_per_s']:.3g}/s: overloaded"
    if load.trace:
        what += f" in {load.trace}" if what == "as recorded" else f", lengths of {load.trace}"
    copies = f"{'up to ' if load.autoscale else ''}{values['replicas']} x " if values["replicas"] > 1 else ""
    sizes = layout(answer.layout.to_dict()) if answer.layout.devices > 1 else "one device"
    requests = plural(values["requests"], "request")
    found = [
        f"{label} p50 {text(values[f'{name}_p50_s'], 'time_s')} (p99 {text(values[f'{name}_p99_s'], 'time_s')})"
        for name, label in (("ttft", "TTFT"), ("itl", "ITL"))
        if values.get(f"{name}_p50_s") is not None
    ]
    found.append(text(values["output_tokens_per_s"], "output_tokens_per_s"))
    if (usd := values.get("usd_per_million_tokens")) is not None:
        found.append(f"{money(usd)}/M tokens")
    if answer.slo is not None:
        found.append(f"SLO {'met' if answer.slo.met else 'missed'}")
    scheduler = "" if answer.policy == answer.engine.lower() else f", {answer.policy} scheduler"
    return (
        f"{answer.model} on {copies}{answer.layout.devices} {answer.hardware} ({sizes}, {answer.dtype}), {answer.engine}"
        f"{scheduler}: {requests}, {what}; {', '.join(found)}"
    )


def _latencies(answer: SimulateAnswer) -> Table:
    values, ends = answer.simulate, answer.interval
    points = map(lambda point: Column(point, lambda name: text(values[f"{name}_{point}_s"], "time_s")), _POINTS)
    between = Column(
        "p99, 80% interval", lambda name: text(ends[f"{name}_p99_s"], "time_s") if f"{name}_p99_s" in ends else ""
    )
    return records([_NAMES, *points, *([between] if ends else [])], _measured(answer))


def _measured(answer: SimulateAnswer) -> list[str]:
    """The latencies that the run has: requests of one token have none between two."""
    return [name for name in _LATENCIES if f"{name}_mean_s" in answer.simulate]


def _limits(answer: SimulateAnswer, changes: Sequence[TriedChange]) -> list[tuple[str, str]]:
    """What is full and what requests wait for, changes that would help by the estimate, and whether the SLO is met."""
    values, slo = answer.simulate, answer.slo
    parts = [
        f"engine {percent(values['engine_utilization'])} busy, KV cache {percent(values['kv_cache_usage_max'])} full at most"
    ]
    if values.get("ttft_mean_s"):
        parts.append(f"queueing {percent(values['queue_mean_s'] / values['ttft_mean_s'])} of TTFT")
    rows = [("limits", "; ".join(parts)), *(("try", f"{tried(change)}, by estimate") for change in changes)]
    if slo is None:
        return rows
    if len(slo.targets) > 1:
        said = f"{sum(t.met for t in slo.targets)} of {len(slo.targets)} targets"
    else:
        ends = answer.interval.get("slo_attainment")
        shown = f"{values['slo_attainment']:.2%}"
        low, high = (f"{end:.2%}" for end in ends or (values["slo_attainment"],) * 2)
        between = "" if {low, high} == {shown} else f" ({low.removesuffix('%')}–{high})"
        said = f"attainment {shown}{between}, target {100 * slo.target:.4g}%"
    gap = "; itl here is the TPOT of a request" if any("itl" in t.limits for t in slo.targets) else ""
    at = f" at the {slo.bound} bound" if slo.met != (values["slo_attainment_margin"] >= 0) else ""
    return [*rows, ("SLO", f"{'met' if slo.met else 'missed'}{at}: {said}{gap}")]


def _numbers(answer: SimulateAnswer, first: bool) -> Table:
    """Quantities of the run: those of the first screen, or the others."""
    values, ends = answer.simulate, answer.interval
    tiers = [name for name in values if name.startswith("reloaded_")]
    place = _SHOWN.index("prefix_cache_hit_rate") + 1
    rows = []
    for name in (*_SHOWN[:place], *tiers, *_SHOWN[place:]):
        if name not in values or (name in _IF_ANY and not values[name]) or (name in _FIRST) != first:
            continue
        label = f"  of it, reloaded from {name[9:-6]}" if name in tiers else _label(name)
        between = ends.get(name)
        rows.append([label, text(values[name], name), *([text(between, name) if between else ""] if ends else [])])
    return Table([Column("over the run", text=True), Column(""), *([Column("80% interval")] if ends else [])], rows)


def _label(name: str) -> str:
    return f"{'cost ' if name.startswith('usd_') else ''}{QUANTITIES[name].label}"


def _classes(answer: SimulateAnswer) -> Table | None:
    """A row for each class of requests, the most frequent ones."""
    if not answer.classes:
        return None
    names = {"ttft_p50_s": 3, "ttft_p99_s": 0, "tpot_p50_s": 2, "tpot_p99_s": 0, "e2e_p99_s": 0, "queue_p99_s": 1}
    if any("slo_attainment" in row for row in answer.classes):
        names["slo_attainment"] = 0
    columns = [
        Column("class", lambda r: r["class"] or "(none)", text=True),
        Column("requests", lambda r: f"{r['requests']:,}"),
        *(Column(_label(n), n, drop=drop) for n, drop in names.items()),
    ]
    return records(columns, answer.classes[:MAX_CLASSES])


_TARGETS = (
    Column("SLO target", "text", text=True),
    Column("requests", lambda t: f"{t.requests:,}"),
    Column("attainment", lambda t: f"{t.attainment:.2%}"),
    Column("", lambda t: "met" if t.met else "missed", text=True),
)


def _interruption(answer: SimulateAnswer) -> list[str]:
    if not answer.interrupted:
        return []
    if answer.search_interrupted:
        tried = answer.simulate["replicas"]
        return [
            f"Interrupted in a search for the fewest replicas: {tried} is what had been tried last or met the SLO; fewer may do."
        ]
    return [f"Interrupted: these are the {answer.simulate['requests']:,} requests that had ended."]


def _fewest(slo: SloAnswer | None, replicas: int) -> list[str]:
    """What one replica fewer would do, where the fewest were searched."""
    if slo is None or slo.margin_with_one_fewer_replica is None:
        return []
    expected, at_bound = slo.expected_attainment_with_one_fewer_replica, slo.attainment_with_one_fewer_replica
    short = f"attainment is {at_bound:.2%}"
    if expected != at_bound:
        short = f"attainment is {expected:.2%} as expected and {at_bound:.2%} at the {slo.bound} bound"
    if len(slo.targets) > 1:
        short = f"a target is missed by {-100 * slo.margin_with_one_fewer_replica:.2f} points"
    return [f"{replicas} replicas are the fewest that meet the SLO: with {replicas - 1}, {short}."]


def _left_out(answer: SimulateAnswer) -> list[str]:
    load = answer.load
    lines = []
    if load.invalid_rows:
        lines.append(f"{plural(load.invalid_rows, 'malformed row')} of the trace skipped.")
    if load.failed_requests:
        lines.append(f"{plural(load.failed_requests, 'request')} that had failed when recorded left out.")
    if load.warmup_s:
        lines.append(f"Requests of the first {text(load.warmup_s, 'time_s')} are warm-up and not counted.")
    return lines


def study(answer: StudyAnswer) -> Page:
    """The axes, then the quantities that some row has."""
    names = [
        name
        for name in _TABLE["studied"]
        if name not in answer.axes and any(row.get(name) not in (None, "") for row in answer.rows)
    ]
    columns = [Column(axis, axis, text=True) for axis in answer.axes] + [
        Column(
            _TABLE["heads"].get(name) or (QUANTITIES[name].label if name in QUANTITIES else name),
            name,
            text=name == "violation",
            least=30 if name == "violation" else 0,
        )
        for name in names
    ]
    return page([records(columns, answer.rows)])
