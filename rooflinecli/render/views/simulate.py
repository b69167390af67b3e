"""A simulation for people (table), documents (markdown) and programs (json, csv)."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import count, duration, si
from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.specs.quantities import unit_of

MOST_CLASSES = 20  # rows of a table; JSON has them all
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
TIMES = {
    "ttft": "time to first token",
    "itl": "between two tokens",
    "tpot": "per further token",
    "e2e": "whole answer",
    "queue": "queueing",
}


def text(result: dict[str, Any], format: str, width: int) -> str:
    """The answer in one of the formats."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        values = [(f"simulate.{name}", value) for name, value in result["simulate"].items()]
        ends = [
            (f"interval.{name}.{end}", v)
            for name, both in result["interval"].items()
            for end, v in zip(("low", "high"), both, strict=True)
        ]
        return comma.rows([("quantity", "value"), *values, *ends])
    if format == "markdown":
        parts = [f"### {_title(result)}", marked.table(_times(result)), marked.table(_rest(result))]
        parts += [*(marked.table(grid) for grid in (_classes(result), _promises(result)) if grid), *_said(result)]
        return "\n\n".join(parts)
    lines = [*terminal.prose(_title(result), width), ""]
    lines += [*terminal.table(_times(result), width, drop=("p95", "max", "mean", "p90"), shrink={"": 12}), ""]
    rest = [row if result["interval"] else row[:2] for row in _rest(result)]
    lines += terminal.table(rest, width, left=(0,))
    for grid in (_classes(result), _promises(result)):
        lines += (
            ["", *terminal.table(grid, width, left=(0,), drop=("queue p99", "token p50", "ttft p50"))] if grid else []
        )
    for said in _said(result):
        lines += ["", *terminal.prose(said, width)]
    return "\n".join(lines)


def _title(result: dict[str, Any]) -> str:
    load, plan, values = result["load"], result["plan"], result["simulate"]
    what = (
        f"{load['qps']:g} requests/s"
        if load["qps"]
        else f"{load['concurrency']} at once"
        if load["concurrency"]
        else "as recorded"
    )
    traced = (
        f", lengths of {load['trace']}"
        if load["trace"] and what != "as recorded"
        else f" in {load['trace']}"
        if load["trace"]
        else ""
    )
    axes = " ".join(f"{name} {plan[name]}" for name in ("tp", "pp", "dp", "cp", "ep") if plan[name] > 1) or "one device"
    most = "up to " if load["autoscale"] else ""
    copies = f"{most}{values['replicas']} x " if values["replicas"] > 1 else ""
    return (
        f"{result['model']} on {copies}{plan['devices']} {result['hardware']} ({axes}, {result['dtype']}), {result['engine']} "
        f"({result['policy']}): {count(values['requests'])} request{'s' if values['requests'] != 1 else ''}, {what}{traced}"
    )


def _times(result: dict[str, Any]) -> list[list[str]]:
    values = result["simulate"]
    rows = [["", *COLUMNS, "p99: low to high"]]
    for name, label in TIMES.items():
        ends = result["interval"].get(f"{name}_p99_s")
        spread = f"{duration(ends[0])} to {duration(ends[1])}" if ends else ""
        rows.append([label, *(_time(values[f"{name}_{column}_s"]) for column in COLUMNS), spread])
    return rows if result["interval"] else [row[:-1] for row in rows]


def _time(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"


_ROWS = {
    "output_tokens_per_s": "output tokens per second",
    "input_tokens_per_s": "input tokens per second",
    "output_tokens_per_s_per_device": "output tokens per second and device",
    "requests_per_s": "requests per second",
    "goodput_per_s": "requests per second inside the SLO",
    "goodput_per_s_per_device": "the same per device",
    "slo_share": "requests inside every limit",
    "slo_ttft_share": "inside the limit of the first token",
    "slo_itl_share": "inside the limit per further token",
    "slo_e2e_share": "inside the limit of the whole answer",
    "slo_queue_share": "inside the limit of queueing",
    "batch_mean": "sequences at once, mean",
    "batch_max": "sequences decoding at once, most",
    "busy_share": "time at work",
    "kv_use_mean_share": "cache in use, mean",
    "kv_use_max_share": "cache in use, most",
    "hit_share": "prompt tokens known already",
    "preemptions": "preemptions",
    "replicas_mean": "replicas paid for, mean",
    "replicas_started": "replicas started",
    "restarts": "requests begun anew after a loss",
    "usd_per_million_output_tokens": "USD per million output tokens",
    "joules_per_output_token": "joules per output token, at full draw",
    "duration_s": "simulated time",
}


def _rest(result: dict[str, Any]) -> list[list[str]]:
    values, ends = result["simulate"], result["interval"]
    rows = [["over the run", "", "low to high"]]
    for name, label in _labels(values):
        if name not in values or (not values[name] and name in ("hit_share", "preemptions")):
            continue
        both = ends.get(name)
        rows.append(
            [label, shown(name, values[name]), f"{shown(name, both[0])} to {shown(name, both[1])}" if both else ""]
        )
    return rows


def _labels(values: dict[str, Any]) -> list[tuple[str, str]]:
    """What is said of a run, in order; what tiers brought back stands under what was known already."""
    found = list(_ROWS.items())
    tiers = [(name, f"of these, back from {name[9:-6]}") for name in values if name.startswith("reloaded_")]
    place = list(_ROWS).index("hit_share") + 1
    return found[:place] + tiers + found[place:]


def shown(name: str, value: Any) -> str:
    """A number as people read it, by the unit that its name says."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    unit = unit_of(name)
    if unit == "fraction":
        return f"{value:.2%}" if 0.99 <= value < 1 else f"{value:.1%}"
    if unit == "s":
        return _time(value)
    return (
        si(value, "").strip() if unit == "tokens/s" else f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
    )


def _said(result: dict[str, Any]) -> list[str]:
    said = []
    if result["interrupted"]:
        asked = result["simulate"]["replicas"]
        said.append(
            f"Interrupted in a search for the fewest replicas: {asked} is what had been tried last or kept to the SLO; fewer may do."
            if result["search_interrupted"]
            else f"Interrupted: these are the {result['simulate']['requests']:,} requests that had ended."
        )
    slo = result["slo"]
    if slo is not None:
        share, copies = result["simulate"]["slo_share"], result["simulate"]["replicas"]
        several = len(slo["promises"]) > 1
        state = "kept" if slo["kept"] else "missed"
        said.append(
            f"The SLO is {state}: {sum(one['kept'] for one in slo['promises'])} of {len(slo['promises'])} promises."
            if several
            else f"The SLO is {state}: {share:.2%} of requests inside every limit, {100 * slo['share']:.4g}% asked for."
        )
        if slo["one_fewer_share"] is not None:
            short = f"miss a promise by {-100 * slo['one_fewer_margin_share']:.2f} points"
            fewer = short if several else f"serve {slo['one_fewer_share']:.2%} inside the limits"
            said.append(f"{copies} replicas are the fewest: {copies - 1} {fewer}.")
    for name, what in (
        ("skipped", "malformed rows of the trace were skipped"),
        ("failed", "requests that had failed when they were recorded were left out"),
    ):
        if result["load"][f"{name}_rows"]:
            said.append(f"{result['load'][f'{name}_rows']:,} {what}.")
    if result["load"]["warmup_s"]:
        said.append(f"Requests of the first {duration(result['load']['warmup_s'])} warm it up and are not counted.")
    return said


def _classes(result: dict[str, Any]) -> list[list[str]]:
    """A row for each class of requests, the most frequent ones."""
    found = result["classes"]
    if not found:
        return []
    names = {"ttft_p50_s": "ttft p50", "ttft_p99_s": "ttft p99", "tpot_p50_s": "token p50", "tpot_p99_s": "token p99",
             "e2e_p99_s": "answer p99", "queue_p99_s": "queue p99"}  # fmt: skip
    if any("slo_share" in row for row in found):
        names["slo_share"] = "in the SLO"
    rows = [["class", "requests", *names.values()]]
    for row in found[:MOST_CLASSES]:
        rows.append(
            [row["class"] or "(none)", f"{row['requests']:,}", *(shown(n, row[n]) if n in row else "" for n in names)]
        )
    return rows


def _promises(result: dict[str, Any]) -> list[list[str]]:
    """A row for each promise, where there are several."""
    found = result["slo"]["promises"] if result["slo"] else []
    if len(found) < 2:
        return []
    rows = [["promise", "requests", "inside", ""]]
    for one in found:
        rows.append(
            [one["promise"], f"{one['requests']:,}", f"{one['inside_share']:.2%}", "kept" if one["kept"] else "missed"]
        )
    return rows
