"""The page of a report, section by section. It shows nothing that is not in the JSON it embeds."""

from __future__ import annotations

import json
from pathlib import Path

from rooflinecli.core.derivation import Traced
from rooflinecli.core.units import count, si
from rooflinecli.questions.ops.answer import Operation
from rooflinecli.questions.report.answer import ReportAnswer
from rooflinecli.render.answer import to_json
from rooflinecli.render.blocks import records
from rooflinecli.render.numbers import text
from rooflinecli.render.report import answer, charts, profile, simulation
from rooflinecli.render.report.derivation_tree import DerivationTree
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, table, tag
from rooflinecli.render.views import ops as rows

STYLE = Path(__file__).with_name("style.css")
COLUMNS = (
    "operation",
    "share",
    "expected",
    "floor",
    "bound",
    "FLOP/B",
    "FLOPs",
    "bytes",
    "launches",
    "shape",
)  # what matters first
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(report: ReportAnswer, derivations: dict[str, Traced], command: str) -> str:
    """HTML of a report with derivations that unfold; `command` is what prints the same estimate."""
    text = to_json(report)
    figures = EmbeddedFigures(json.loads(text))
    title = f"{figures.data['estimate']['model']['name']} on {figures.data['estimate']['hardware']['name']}"
    return document(
        f"{title}: roofline report",
        _header(figures),
        tag("main", _sections(figures, derivations, report)),
        _footer(command),
        embedded(text),
    )


def document(title: str, *parts: EscapedHtml) -> str:
    """A page that loads nothing: its style inside, light and dark, for a screen and for paper."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", EscapedHtml(STYLE.read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *parts), lang='en')}\n"


def embedded(text: str) -> EscapedHtml:
    """The JSON, unable to end its own element."""
    return tag(
        "script",
        EscapedHtml(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")),
        type="application/json",
        id="roofline-data",
    )


def _header(figures: EmbeddedFigures) -> EscapedHtml:
    estimate = figures.data["estimate"]
    model, chip = estimate["model"], estimate["hardware"]
    parameters = model["parameters"]
    active = (
        ""
        if parameters["active"] == parameters["total"]
        else join(" (", figures("estimate.model.parameters.active", count(parameters["active"])), " active per token)")
    )
    about = join(
        figures("estimate.model.parameters.total", count(parameters["total"])),
        " parameters",
        active,
        ", ",
        figures("estimate.model.weights_bytes"),
        f" of weights, {estimate['workload']['dtype']}. Chip: ",
        figures("estimate.hardware.peak_flops_per_s"),
        ", ",
        figures("estimate.hardware.bandwidth_bytes_per_s"),
        ", ",
        figures("estimate.hardware.capacity_bytes"),
        ", ridge at ",
        figures("estimate.hardware.ridge_flops_per_byte", f"{chip['ridge_flops_per_byte']:.0f} FLOP/B"),
        ".",
    )
    problems = [
        tag("p", tag("strong", "Does not fit: "), v["message"], class_="bad box") for v in estimate["violations"]
    ]
    return tag(
        "header",
        tag("p", "Roofline report", class_="over"),
        tag("h1", model["name"], " ", tag("span", "on"), " ", chip["name"]),
        tag("p", about),
        problems,
    )


def _sections(figures: EmbeddedFigures, derivations: dict[str, Traced], report: ReportAnswer) -> EscapedHtml:
    curves = [
        tag("h3", answer.TITLES[phase][0]) if len(figures.data["curves"]) > 1 else None
        for phase in figures.data["curves"]
    ]
    drawn = [
        join(title, charts.throughput(figures, phase))
        for title, phase in zip(curves, figures.data["curves"], strict=True)
    ]
    parts = [
        (
            "answer",
            "Answer",
            "Floor is the speed of light of this chip; expected adds what kernels, links and the engine lose. "
            "The band is the interval that covers 80%.",
            answer.times(figures),
        ),
        ("time", "Where the time goes", "", answer.spent(figures)),
        ("memory", "Memory per device", "", answer.memory(figures)),
        (
            "roofline",
            "Roofline",
            "Each mark is an operation of the model: its FLOPs per byte, and the rate it is expected to reach. "
            "Under the slope memory limits it, under the flat roof compute does.",
            charts.roofline(figures),
        ),
        ("operations", "Operations", "", [_operations(figures, *item) for item in report.operations.items()]),
        ("curve", "Latency against throughput", "The same plan with other batches.", drawn) if drawn else None,
        (
            "simulation",
            "Under the load",
            "An engine's scheduler over these step prices, request by request; `roofline simulate` says more.",
            simulation.section(figures),
        )
        if "simulation" in figures.data
        else None,
        (
            "profile",
            "Against the trace",
            "Kernels that ran, by the operation of the estimate they belong to; `roofline profile --against` says more.",
            profile.section(figures),
        )
        if "profile" in figures.data
        else None,
        ("plan", "Plan and workload", "", answer.plan(figures)),
        ("cost", "Cost", "", answer.cost(figures)),
        (
            "derivations",
            "Derivations",
            "The arithmetic that ran. Each number unfolds into the ones under it.",
            _derivations(derivations),
        ),
        ("sources", "Sources", "", _sources(figures)),
    ]
    return join(
        [
            tag(
                "section",
                tag("h2", name, id=f"{ident}-title"),
                tag("p", note, class_="note") if note else None,
                content,
                id=ident,
                aria_labelledby=f"{ident}-title",
            )
            for ident, name, note, content in filter(None, parts)
        ]
    )


def _operations(figures: EmbeddedFigures, phase: str, operations: list[Operation]) -> EscapedHtml:
    """The rows of a phase, folded."""
    body = []
    for i, row in enumerate(operations):
        cells, path = (
            dict(zip((c.head for c in rows.COLUMNS), records(rows.COLUMNS, [row]).rows[0], strict=True)),
            f"operations.{phase}.{i}",
        )
        cells |= {"expected": figures(f"{path}.time_s"), "share": figures(f"{path}.share", cells["share"])}
        body.append([cells[name] for name in COLUMNS])
    name = answer.TITLES[phase][0]
    return tag(
        "details",
        tag("summary", f"{name}: {len(body)} operations of one device"),
        table(f"Operations of {phase}", list(COLUMNS), body, hidden=True),
    )


def _derivations(derivations: dict[str, Traced]) -> EscapedHtml:
    unfold = DerivationTree()
    return tag("div", [unfold.root(path, number) for path, number in derivations.items()], class_="derivations")


def _sources(figures: EmbeddedFigures) -> EscapedHtml:
    """Every figure that was read from a file, under the citation it comes with."""
    body = []
    for i, source in enumerate(figures.data["sources"]):
        value = source["value"]
        body.append(
            [
                source["symbol"],
                "" if value is None else figures(f"sources.{i}.value", _quantity(value, source["unit"])),
                source["at"],
                source["citation"],
            ]
        )
    return tag(
        "details",
        tag("summary", f"{len(body)} figures, each with the line it was read from"),
        table("Sources", ["figure", "value", "file and line", "source"], body, hidden=True),
        class_="sources",
    )


def _quantity(value: float, unit: str) -> str:
    if unit in ("B", "B/s", "FLOP/s", "s", "W"):
        return si(value, unit)
    return f"{text(value, 'value')} {unit if unit not in ('1', '') else ''}".strip()


def _footer(command: str) -> EscapedHtml:
    return tag(
        "footer",
        tag(
            "p",
            "The same numbers: ",
            tag("code", f"{command} --format json"),
            ". This page embeds them; it loads nothing.",
        ),
    )
