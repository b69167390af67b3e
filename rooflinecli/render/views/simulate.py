"""A simulation: latency percentiles, what else the run shows, classes, and how the SLO is met."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.core.units import count
from rooflinecli.questions.simulate.question import SimulateAnswer, SloAnswer
from rooflinecli.render.blocks import Block, Column, Headline, Note, Page, Prose, Table, page
from rooflinecli.render.numbers import layout, text
from rooflinecli.specs.quantities import QUANTITIES

MAX_CLASSES = 20  # rows of a table; JSON has them all
_POINTS = ("mean", "p50", "p90", "p95", "p99")
_LATENCIES = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E latency", "queue": "queueing"}
_SHOWN = (
    "output_tokens_per_s", "input_tokens_per_s", "output_tokens_per_s_per_device", "requests_per_s", "goodput_requests_per_s",
    "goodput_requests_per_s_per_device", "slo_attainment", "slo_attainment_ttft", "slo_attainment_itl", "slo_attainment_e2e",
    "slo_attainment_queue", "running_requests_mean", "decode_batch_max", "engine_utilization", "kv_cache_usage_mean", "kv_cache_usage_max",
    "prefix_cache_hit_rate", "preemptions", "replicas_mean", "replicas_started", "requests_restarted",
    "usd_per_million_input_tokens", "usd_per_million_output_tokens", "usd_per_million_tokens",
    "joules_per_output_token", "duration_s", "steady_s",
)  # fmt: skip
_FIRST = (  # on the first screen
    "output_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slo_attainment", "running_requests_mean", "engine_utilization", "kv_cache_usage_max",
    "prefix_cache_hit_rate", "preemptions", "replicas_mean", "usd_per_million_tokens", "joules_per_output_token",
)  # fmt: skip
_IF_ANY = ("prefix_cache_hit_rate", "preemptions")


def view(answer: SimulateAnswer) -> Page:
    """Title, latencies, the other numbers of the run, classes, targets, notes."""
    return page(
        [Headline(_title(answer))],
        [_latencies(answer)],
        [_numbers(answer, True)],
        [_classes(answer)],
        [_targets(answer.slo)],
        *([note] for note in _notes(answer)),
        details=[[_longest(answer)], [_numbers(answer, False)]],
        about="maxima, input throughput, batches, cache, prices of input and output",
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
    if load.trace:
        what += f" in {load.trace}" if what == "as recorded" else f", lengths of {load.trace}"
    copies = f"{'up to ' if load.autoscale else ''}{values['replicas']} x " if values["replicas"] > 1 else ""
    sizes = layout(answer.layout.to_dict()) if answer.layout.devices > 1 else "one device"
    requests = f"{count(values['requests'])} request{'s' if values['requests'] != 1 else ''}"
    found = [
        f"{label} {text(values[f'{name}_p50_s'], 'time_s')} (p99 {text(values[f'{name}_p99_s'], 'time_s')})"
        for name, label in (("ttft", "TTFT"), ("itl", "ITL"))
        if values.get(f"{name}_p50_s") is not None
    ]
    found.append(text(values["output_tokens_per_s"], "output_tokens_per_s"))
    return (
        f"{answer.model} on {copies}{answer.layout.devices} {answer.hardware} ({sizes}, {answer.dtype}), {answer.engine} "
        f"({answer.policy}): {requests}, {what}; {', '.join(found)}"
    )


def _latencies(answer: SimulateAnswer) -> Table:
    values, ends = answer.simulate, answer.interval
    rows = []
    for name, label in _LATENCIES.items():
        cells = [text(values[f"{name}_{point}_s"], "time_s") for point in _POINTS]
        between = ends.get(f"{name}_p99_s")
        rows.append([label, *cells, *([text(between, "time_s") if between else ""] if ends else [])])
    columns = [Column("", text=True), *map(Column, _POINTS), *([Column("p99, 80% interval")] if ends else [])]
    return Table(columns, rows)


def _longest(answer: SimulateAnswer) -> Table:
    rows = [[label, text(answer.simulate[f"{name}_max_s"], "time_s")] for name, label in _LATENCIES.items()]
    return Table([Column("", text=True), Column("max")], rows)


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
        Column("class", text=True),
        Column("requests"),
        *(Column(_label(n), drop=drop) for n, drop in names.items()),
    ]
    rows = [
        [row["class"] or "(none)", f"{row['requests']:,}", *(text(row[n], n) if n in row else "" for n in names)]
        for row in answer.classes[:MAX_CLASSES]
    ]
    return Table(columns, rows)


def _targets(slo: SloAnswer | None) -> Table | None:
    """A row for each target, where there are several."""
    if slo is None or len(slo.targets) < 2:
        return None
    columns = [Column("SLO target", text=True), Column("requests"), Column("attainment"), Column("", text=True)]
    return Table(
        columns,
        [[t.text, f"{t.requests:,}", f"{t.attainment:.2%}", "met" if t.met else "missed"] for t in slo.targets],
    )


def _notes(answer: SimulateAnswer) -> list[Block]:
    return [
        *map(Note, _interruption(answer)),
        *map(Prose, _slo(answer)),
        *map(Note, [*_left_out(answer), *answer.notes[1:]]),
    ]


def _interruption(answer: SimulateAnswer) -> list[str]:
    if not answer.interrupted:
        return []
    if answer.search_interrupted:
        tried = answer.simulate["replicas"]
        return [
            f"Interrupted in a search for the fewest replicas: {tried} is what had been tried last or met the SLO; fewer may do."
        ]
    return [f"Interrupted: these are the {answer.simulate['requests']:,} requests that had ended."]


def _slo(answer: SimulateAnswer) -> list[str]:
    slo, values = answer.slo, answer.simulate
    if slo is None:
        return []
    several, state = len(slo.targets) > 1, "met" if slo.met else "missed"
    lines = [
        f"The SLO is {state}: {sum(t.met for t in slo.targets)} of {len(slo.targets)} targets."
        if several
        else f"The SLO is {state}: attainment {values['slo_attainment']:.2%}, target {100 * slo.target:.4g}%."
    ]
    if slo.attainment_with_one_fewer_replica is not None and slo.margin_with_one_fewer_replica is not None:
        short = (
            f"miss a target by {-100 * slo.margin_with_one_fewer_replica:.2f} points"
            if several
            else f"attain {slo.attainment_with_one_fewer_replica:.2%}"
        )
        lines.append(f"{values['replicas']} replicas are the fewest: {values['replicas'] - 1} {short}.")
    return lines


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
