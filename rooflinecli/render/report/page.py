"""Answers as self-contained pages; the page of a report, section by section; the page of `roofline web` shows the same sections. Figures are those of the JSON they embed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from rooflinecli.core.derivation import Traced
from rooflinecli.core.record import Json, Record
from rooflinecli.core.units import duration, si
from rooflinecli.questions.ops.answer import Operation
from rooflinecli.questions.report.answer import ReportAnswer, Unserved
from rooflinecli.render.answer import to_json
from rooflinecli.render.blocks import Block, Command, Drawing, Headline, Note, Page, Pairs, Picture, Table, records
from rooflinecli.render.formats.terminal import command
from rooflinecli.render.numbers import label, text
from rooflinecli.render.report import charts
from rooflinecli.render.report.html import DerivationTree, EmbeddedFigures, EscapedHtml, join, pairs, table, tag
from rooflinecli.render.views import estimate, ops, pictures, profile

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
COLUMNS = ("operation", "share", "expected", "floor", "bound", "FLOP/B", "FLOPs", "bytes", "launches", "shape")  # what matters first  # fmt: skip

TITLES = {"prefill": ("Prefill", "TTFT"), "decode": ("Decode", "ITL"), "train": ("Training", "step")}
GROUPS = tuple("matmul attention elementwise communication overhead engine optimizer bubble stragglers".split())
TINY = 0.0005
COMMAND = 88  # characters of a line of a command


def page(report: ReportAnswer, derivations: dict[str, Traced], command: str) -> str:
    """HTML of a report with derivations that unfold; `command` is what prints the same estimate."""
    embeds = to_json(report)
    figures = EmbeddedFigures(json.loads(embeds))
    found = report.estimate
    title, tree = f"{found.model.name} on {found.hardware.name}", DerivationTree()
    further = [
        section("operations", "Operations", [_operations(figures, *item) for item in report.operations.items()]),
        *([section("simulation", "Under the load", _simulation(figures, report))] if report.simulation else []),
        *(
            [section("profile", "Against the trace", draw(profile.against(report.profile, 20)))]
            if report.profile
            else []
        ),
        section(
            "derivations",
            "Derivations",
            tag("div", [tree.root(path, number) for path, number in derivations.items()], class_="derivations"),
            "The arithmetic that ran. Each number unfolds into the ones under it.",
        ),
        section("sources", "Sources", _sources(figures)),
    ]
    names = (found.model.name, " ", tag("span", "on"), " ", found.hardware.name)
    return document(
        f"{title}: roofline report",
        tag("header", tag("p", "Roofline report", class_="over"), tag("h1", *names)),
        tag("main", sections(figures, report), further),
        tag("footer", tag("p", "The same numbers: ", tag("code", f"{command} --format json"), ". This page embeds them; it loads nothing.")),
        embedded(embeds),
    )  # fmt: skip


def document(title: str, *parts: EscapedHtml, served: Sequence[EscapedHtml] = ()) -> str:
    """A page that loads nothing: its style inside, light and dark, for a screen and for paper; one that is `served` has these links instead."""
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        None if served else tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"), tag("link", rel="icon", href="data:,"), tag("title", title),
        served or tag("style", EscapedHtml(STYLE.read_text(encoding="utf-8"))),
    )  # fmt: skip
    return f"<!doctype html>\n{tag('html', head, tag('body', *parts), lang='en')}\n"


def embedded(text: str) -> EscapedHtml:
    """The JSON, unable to end its own element."""
    return tag(
        "script",
        EscapedHtml(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")),
        type="application/json",
        id="roofline-data",
    )


def whole(answer: Record, page: Page) -> str:
    """A self-contained page of an answer: its pictures, its blocks, and its JSON inside."""
    name = str(getattr(answer, "schema", "")).split("/")[1:2]
    return whole_of(" ".join(["roofline", *name]), page, pictures.pictures(answer), to_json(answer))


def whole_of(title: str, page: Page, drawn: Sequence[Picture], json_text: str) -> str:
    """A self-contained page of blocks, pictures and a JSON document."""
    body = tag("main", draw(page), shown(drawn))
    return document(title, tag("header", tag("h1", title)), body, embedded(json_text))


def shown(drawn: Sequence[Picture]) -> EscapedHtml:
    """Pictures, a section each."""
    return join([tag("section", tag("h2", p.title), charts.picture(p, f"picture-{i}")) for i, p in enumerate(drawn)])


def draw(page: Page) -> EscapedHtml:
    """The blocks of an answer, its details folded."""
    groups, details = (
        [tag("section", [*map(_block, group)]) for group in part] for part in (page.groups, page.details)
    )
    more = tag("details", tag("summary", f"More: {page.about}"), details) if details else None
    return tag("div", groups, more, class_="blocks")


def _block(block: Block) -> EscapedHtml:
    if isinstance(block, Headline):
        return tag("h2", block.text)
    if isinstance(block, Pairs):
        return join(tag("h3", block.title) if block.title else None, pairs(block.rows))
    if isinstance(block, Table):
        right = {i for i, column in enumerate(block.columns) if i and not column.text}
        head = [column.head.replace("\n", " ") for column in block.columns]
        head, *rows = [[tag("span", cell, class_="figure") if i in right else cell for i, cell in enumerate(row)] for row in (head, *block.rows)]  # fmt: skip
        return table(block.title or "Answer", head, rows, hidden=not block.title)
    if isinstance(block, Drawing):
        return tag(
            "pre", "\n".join(block.lines), role="img", aria_label=block.words or None, class_="scroll", tabindex=0
        )
    if isinstance(block, Command):
        lines = "\n".join(command(block.words, COMMAND))
        return tag("pre", tag("code", lines), class_="scroll", tabindex=0)
    return tag("p", block.text, class_="note" if isinstance(block, Note) else None)


def section(ident: str, name: str, content: object, note: str = "") -> EscapedHtml:
    """A part of a page under its name."""
    about = tag("p", note, class_="note") if note else None
    return tag(
        "section", tag("h2", name, id=f"{ident}-title"), about, content, id=ident, aria_labelledby=f"{ident}-title"
    )


def sections(figures: EmbeddedFigures, report: ReportAnswer) -> EscapedHtml:
    """What an estimate answers: the first screen of the command, a card for each phase, memory, the curve, the roofline, where time goes."""
    screen = estimate.view(report.estimate)
    groups = [g for g in screen.groups if not isinstance(g[0], Table) and getattr(g[0], "style", "") != "red"]
    said = Page(groups, screen.details, "layout, memory, cost")
    problems = [
        tag("p", tag("strong", "Does not fit: "), v.message, class_="bad box") for v in report.estimate.violations
    ]
    several = len(report.curves) > 1
    curves = [
        join(tag("h3", TITLES[phase][0]) if several else None, charts.throughput(figures, phase))
        for phase in report.curves
    ]
    cards = [_card(figures, phase) for phase in report.estimate.timed]
    floor = "Floor is the speed of light of this chip; expected adds what kernels, links and the engine lose. The band is the 80% interval."
    roof = "Each mark is an operation: its FLOPs per byte, and the rate it is expected to reach. Under the slope memory limits it, under the flat roof compute does."
    return join(
        section("answer", "Answer", [problems, tag("div", cards, class_="cards"), draw(said)], floor),
        section("memory", "Memory per device", _memory(figures)),
        section("curve", "Latency against throughput", curves, "The same layout with other batches.") if curves else None,
        section("roofline", "Roofline", charts.roofline(figures), roof), section("time", "Where the time goes", _spent(figures)),
    )  # fmt: skip


def _titled(figures: EmbeddedFigures, phase: str) -> tuple[str, str]:
    """A phase, and what its time is that of; a sampler's pass ends in images, not in a first token."""
    work = figures.data["estimate"]["workload"]
    if phase == "prefill" and "diffusion_steps" in work:
        kind = f"{'Video' if 'video_frames' in work else 'Image'}{'' if work['batch'] == 1 else 's'}"
        return kind, f"{work['diffusion_steps']:g} steps of the sampler"
    return TITLES[phase]


def _card(figures: EmbeddedFigures, phase: str) -> EscapedHtml:
    path, answer = f"estimate.phases.{phase}", figures.data["estimate"]["phases"][phase]
    name, what = _titled(figures, phase)
    uses = [
        (key.upper(), figures(f"{path}.{key}"))
        for key in ("mfu", "hfu", "mbu")
        if answer.get(key) and not (key == "hfu" and answer["hfu"] <= answer["mfu"] * 1.001)
    ]
    facts: list[tuple[object, object]] = [
        ("floor", figures(f"{path}.floor_s")),
        ("80% interval", figures(f"{path}.interval_s")),
        ("limited by", answer["bottleneck"]),
        ("throughput", figures(f"{path}.tokens_per_s")),
        ("80% interval", figures(f"{path}.tokens_per_s_interval")),
        *uses,
    ]
    if phase == "decode":
        facts.append(("per user", figures(f"{path}.tokens_per_s_per_user")))
    if "measured_time_s" in answer:
        facts.append(("measured", figures(f"{path}.measured_time_s")))
    return tag(
        "section", tag("h3", name, " ", tag("small", what)), tag("p", figures(f"{path}.time_s"), class_=f"big {phase}"),
        _strip(phase, answer), pairs(facts), class_="card",
    )  # fmt: skip


def _strip(phase: str, answer: Json) -> EscapedHtml:
    """Floor, expected and interval on one line from zero."""
    low, high = answer["interval_s"]
    end = max(high, answer["time_s"]) * 1.04
    at = {
        name: f"{100 * value / end:.2f}%"
        for name, value in (("low", low), ("high", high), ("floor", answer["floor_s"]), ("time", answer["time_s"]))
    }
    words = (
        f"floor {duration(answer['floor_s'])}, expected {duration(answer['time_s'])}, "
        f"interval {duration(low)} to {duration(high)}"
    )
    return tag(
        "div", tag("i", class_=f"range {phase}", style=f"left:{at['low']};width:{100 * (high - low) / end:.2f}%"),
        tag("i", class_="floor", style=f"left:{at['floor']}"), tag("i", class_=f"dot {phase}", style=f"left:{at['time']}"),
        class_="strip", role="img", aria_label=words,
    )  # fmt: skip


def _spent(figures: EmbeddedFigures) -> EscapedHtml:
    """Where the expected time of each phase goes."""
    bars = []
    for phase, answer in figures.data["estimate"]["phases"].items():
        if (total := answer.get("time_s")) is None:
            continue
        parts = [
            (group, seconds, f"estimate.phases.{phase}.breakdown_s.{group}")
            for group, seconds in answer["breakdown_s"].items()
            if seconds > TINY * total
        ]
        parts.sort(key=lambda part: -part[1])

        def share(seconds: float, total: float = total) -> str:
            return f"{seconds / total:.1%}"

        bars.append(_bar(figures, _titled(figures, phase)[0], parts, total, share))
    return join(bars)


def _memory(figures: EmbeddedFigures) -> EscapedHtml:
    """What a device holds in each phase, against what it has."""
    bars = []
    for phase, answer in figures.data["estimate"]["phases"].items():
        held, path = answer["memory"], f"estimate.phases.{phase}.memory"
        parts = [(name, held[key], f"{path}.{key}") for key, name in estimate.PIECES if held.get(key)]
        full = held["total_bytes"] / held["capacity_bytes"]
        title = join(
            _titled(figures, phase)[0], ": ", figures(f"{path}.total_bytes"), " of ", figures(f"{path}.capacity_bytes"),
            f", {full:.0%}", tag("strong", " does not fit", class_="bad") if full > 1 else None,
        )  # fmt: skip
        mark, end = held["capacity_bytes"] if full > 1 else None, max(held["capacity_bytes"], held["total_bytes"])
        bars.append(_bar(figures, title, parts, end, lambda value: si(value, "B"), mark))
    return join(bars)


def _bar(
    figures: EmbeddedFigures,
    title: object,
    parts: list[tuple[str, float, str]],
    whole: float,
    text: Callable[[float], str],
    mark: float | None = None,
) -> EscapedHtml:
    """A bar of parts with its legend, which carries the figures."""
    colours = {name: _colour(name, i) for i, (name, _, _) in enumerate(parts)}
    pieces = [tag("i", class_=colours[name], style=f"width:{100 * value / whole:.3f}%") for name, value, _ in parts]
    if mark is not None:
        pieces.append(tag("b", style=f"left:{100 * mark / whole:.3f}%"))
    words = ", ".join(f"{name} {text(value)}" for name, value, _ in parts)
    keys = [
        tag(
            "li",
            tag("i", class_=colours[name], aria_hidden="true"),
            f"{name.replace('_', ' ')} ",
            figures(path, text(value)),
        )
        for name, value, path in parts
    ]
    if mark is not None:
        keys.append(tag("li", tag("strong", "|", class_="bad", aria_hidden="true"), "what the device has"))
    return tag(
        "figure",
        tag("figcaption", title),
        tag("div", pieces, class_="bar", role="img", aria_label=words),
        tag("ul", keys, class_="legend"),
    )


def _colour(name: str, index: int) -> str:
    """The same name has the same color in every bar."""
    names = [label for _, label in estimate.PIECES]
    order = names.index(name) if name in names else GROUPS.index(name) if name in GROUPS else len(GROUPS)
    return f"c{order + 1}"


def _operations(figures: EmbeddedFigures, phase: str, operations: list[Operation]) -> EscapedHtml:
    """The rows of a phase, folded."""
    heads, body = [column.head for column in ops.COLUMNS], []
    for i, row in enumerate(records(ops.COLUMNS, operations).rows):
        cells, path = dict(zip(heads, row, strict=True)), f"operations.{phase}.{i}"
        shown = {"expected": figures(f"{path}.time_s"), "share": figures(f"{path}.share", cells["share"])}
        body.append([shown.get(name, cells[name]) for name in COLUMNS])
    name = TITLES[phase][0]
    return tag(
        "details",
        tag("summary", f"{name}: {len(body)} operations of one device"),
        table(f"Operations of {phase}", list(COLUMNS), body, hidden=True),
    )


_SIMULATED = (
    "ttft_p50_s ttft_p99_s tpot_p50_s tpot_p99_s e2e_p99_s output_tokens_per_s slo_attainment preemptions".split()
)


def _simulation(figures: EmbeddedFigures, report: ReportAnswer) -> EscapedHtml:
    """Numbers and pictures of the simulated load."""
    found = report.simulation
    if found is None or isinstance(found, Unserved):
        return tag("p", "" if found is None else found.violation, class_="bad box")
    rows = [(label(name), figures(f"simulation.values.{name}")) for name in _SIMULATED if name in found.values]
    drawn = [
        (tag("h3", one.title), charts.picture(one, f"simulation-{i}")) for i, one in enumerate(pictures.served(found))
    ]
    return join(pairs(rows), drawn)


def _sources(figures: EmbeddedFigures) -> EscapedHtml:
    """Every figure that was read from a file, under the citation it comes with."""
    body = []
    for i, source in enumerate(figures.data["sources"]):
        value = source["value"]
        unit, written = source["unit"], ""
        if value is not None:
            known = unit in ("B", "B/s", "FLOP/s", "s", "W")
            said = (
                si(value, unit) if known else f"{text(value, 'value')} {unit if unit not in ('1', '') else ''}".strip()
            )
            written = figures(f"sources.{i}.value", said)
        body.append([source["symbol"], written, source["at"], source["citation"]])
    return tag(
        "details",
        tag("summary", f"{len(body)} figures, each with the line it was read from"),
        table("Sources", ["figure", "value", "file and line", "source"], body, hidden=True),
        class_="sources",
    )
