"""A simulated load: percentile curves, batch and queue over time, the share inside the limits against the load."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.units import duration
from rooflinecli.importers.source import Json
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, pairs, tag
from rooflinecli.render.report.svg import SIZES, Chart

NAMES = {"ttft": "first token", "tpot": "per further token", "e2e": "whole answer"}
LINES = {"ttft": "curve prefill", "tpot": "curve decode", "e2e": "curve train"}
SHOWN = {
    "ttft_p50_s": "first token, p50",
    "ttft_p99_s": "first token, p99",
    "tpot_p50_s": "per further token, p50",
    "tpot_p99_s": "per further token, p99",
    "e2e_p99_s": "whole answer, p99",
    "output_tokens_per_s": "output tokens per second",
    "slo_attainment": "requests inside the limits",
    "preemptions": "preemptions",
}


def section(figures: EmbeddedFigures) -> EscapedHtml:
    """Numbers and pictures of the simulation."""
    found = figures.data["simulation"]
    if "violation" in found:
        return tag("p", found["violation"], class_="bad box")
    entries: list[tuple[object, object]] = [
        (label, figures(f"simulation.values.{name}")) for name, label in SHOWN.items() if name in found["values"]
    ]
    return join(
        pairs(entries),
        tag("h3", "Percentiles"),
        _drawn(found, _percentiles, "percentiles"),
        _legend(LINES, NAMES),
        tag("h3", "Batch and queue over time"),
        _drawn(found, _over_time, "over-time"),
        _legend({"batch": "curve decode", "queue": "curve prefill"}, {"batch": "decoding", "queue": "queueing"}),
        [tag("h3", _against(found)[0]), _drawn(found, _loads, "loads")] if len(found["loads"]) > 1 else None,
    )


def _drawn(found: Json, draw: Callable[[str, Json], tuple[Chart, tuple[str, str]]], ident: str) -> EscapedHtml:
    charts = [draw(kind, found) for kind in SIZES]
    return join([chart.svg(words[0], words[1], f"simulation-{ident}") for chart, words in charts])


def _legend(lines: dict[str, str], names: dict[str, str]) -> EscapedHtml:
    def key(class_: str) -> EscapedHtml:
        return tag(
            "svg",
            tag("line", x1=0, x2=16, y1=8, y2=8, class_=class_),
            viewBox="0 0 16 16",
            class_="key",
            aria_hidden="true",
        )

    return tag("ul", [tag("li", key(class_), names[name]) for name, class_ in lines.items()], class_="legend")


def _percentiles(kind: str, found: Json) -> tuple[Chart, tuple[str, str]]:
    """Percentile of the latency over the requests, in seconds."""
    lines = {name: [p for p in line if p["time_s"] > 0] for name, line in found["percentiles"].items()}
    lines = {name: line for name, line in lines.items() if line}
    every = [p["time_s"] for line in lines.values() for p in line]
    chart = Chart(kind, (0.0, 100.0, False), (min(every) / 1.3, max(every) * 1.3, True))
    chart.axes("per cent of requests", "seconds they keep to", lambda v: f"{v:g}", lambda v: duration(v, 2))
    for name, line in lines.items():
        chart.line([(100 * p["share"], p["time_s"]) for p in line], LINES[name])
    ends = "; ".join(
        f"{NAMES[name]}: half within {duration(line[len(line) // 2]['time_s'])}, all within {duration(line[-1]['time_s'])}"
        for name, line in lines.items()
    )
    return chart, ("Percentiles of requests", ends)


def _over_time(kind: str, found: Json) -> tuple[Chart, tuple[str, str]]:
    """Sequences decoding and queueing."""
    points = found["over_time"]
    end = max(points[-1]["at_s"], 1e-9) if points else 1.0
    most = max((max(p["batch"], p["queue"]) for p in points), default=1) or 1
    chart = Chart(kind, (0.0, end, False), (0.0, most * 1.08, False))
    chart.axes("seconds since the start", "sequences of a replica", lambda v: f"{v:g}", lambda v: f"{v:g}")
    chart.line([(p["at_s"], p["batch"]) for p in points], "curve decode")
    chart.line([(p["at_s"], p["queue"]) for p in points], "curve prefill")
    return chart, ("Batch and queue over time", f"at most {most:g} sequences at once within {duration(end)}")


def _against(found: Json) -> tuple[str, str]:
    """A title and the quantity that it draws."""
    name = "requests per second" if "qps" in found["load"] else "requests in flight"
    if found["slo"]:
        return f"Share inside {found['slo']} against {name}", "slo_attainment"
    return f"First token, p99, against {name}", "ttft_p99_s"


def _loads(kind: str, found: Json) -> tuple[Chart, tuple[str, str]]:
    """The promise, or the p99 of the first token, under less and more of the load."""
    title, what = _against(found)
    points = found["loads"]
    share = what == "slo_attainment"
    text = _per_cent if share else _seconds
    highs = 1.05 if share else max(p[what] for p in points) * 1.08
    chart = Chart(kind, (0.0, max(p["load"] for p in points) * 1.05, False), (0.0, highs, False))
    chart.axes(
        title.rpartition("against ")[2], "share of requests" if share else "first token, p99", lambda v: f"{v:g}", text
    )
    chart.line([(p["load"], p[what]) for p in points], "curve decode")
    asked = next(iter(found["load"].values()))
    for i, p in enumerate(points):
        words = f"{p['load']:g}: {text(p[what])}"
        chart.mark(
            p["load"],
            p[what],
            6.0 if p["load"] == asked else 3.2,
            "round",
            "mark decode",
            words,
            data_path=f"simulation.loads.{i}",
        )
    return chart, (title, "; ".join(f"{p['load']:g}: {text(p[what])}" for p in points))


def _per_cent(value: float) -> str:
    return f"{value:.0%}"


def _seconds(value: float) -> str:
    return duration(value, 2) if value else "0"
