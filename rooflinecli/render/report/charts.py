"""The roofline with a model's operations on it, and latency against throughput."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import atan, degrees

from rooflinecli.core.record import Json
from rooflinecli.core.units import count, duration, si
from rooflinecli.render.blocks import Picture
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, tag

LETTER = 6.3  # width of a letter of a label, in units of the drawing
SIZES = {"wide": (760, 420), "narrow": (340, 360)}


@dataclass(frozen=True)
class Scale:
    """Data -> drawing: [low, high] onto [start, stop], by value or by its logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, v = (
            (math.log10(x) for x in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (v - low) / (high - low) * (self.stop - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values inside: powers of ten where logarithmic (with 2 and 5 when they are few), else steps of 1, 2 or 5."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for steps in ((1, 2, 5), (1, 3), (1,)):
                inside = [
                    m * 10.0**e for e in range(first, last + 1) for m in steps if self.low <= m * 10.0**e <= self.high
                ]
                if len(inside) <= most:
                    return inside
            return inside[:: -(-len(inside) // most)]
        step = next(
            m * 10.0**e for e in range(-12, 18) for m in (1, 2, 5) if (self.high - self.low) / (m * 10.0**e) <= most
        )
        return [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


class Chart:
    """One drawing: a frame with axes, then whatever is put into it."""

    def __init__(self, kind: str, x: tuple[float, float, bool], y: tuple[float, float, bool]):
        self.kind, (self.width, self.height) = kind, SIZES[kind]
        self.left, self.right, self.top, self.bottom = 62, self.width - 14, 24, self.height - 46
        self.x = Scale(x[0], x[1], self.left, self.right, x[2])
        self.y = Scale(y[0], y[1], self.bottom, self.top, y[2])
        self.parts: list[EscapedHtml] = []
        self.occupied: list[tuple[float, float, float, float]] = []

    def axes(self, x_title: str, y_title: str, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> None:
        """Grid lines, tick labels, titles."""
        for value in self.x.ticks(8 if self.kind == "wide" else 5):
            at = round(self.x(value), 1)
            self.put("line", x1=at, x2=at, y1=self.top, y2=self.bottom, class_="grid")
            self.text(at, self.bottom + 16, x_text(value), "tick", "middle")
        for value in self.y.ticks(7):
            at = round(self.y(value), 1)
            self.put("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="grid")
            self.text(self.left - 6, at + 4, y_text(value), "tick", "end")
        self.text((self.left + self.right) / 2, self.height - 8, x_title, "axis", "middle")
        self.text(4, 13, y_title, "axis", "start")

    def put(self, name: str, /, *children: object, **attributes: object) -> None:
        self.parts.append(tag(name, *children, **attributes))

    def text(self, x: float, y: float, words: str, class_: str, anchor: str) -> None:
        self.put("text", words, x=round(x, 1), y=round(y, 1), class_=class_, text_anchor=anchor)

    def line(self, points: list[tuple[float, float]], class_: str) -> None:
        """A polyline through data points, which labels stay clear of."""
        drawn = [(self.x(a), self.y(b)) for a, b in points]
        for (a, b), (c, d) in pairwise(drawn):
            steps = max(int(max(abs(c - a), abs(d - b)) / 5), 1)
            centres = [(a + (c - a) * i / steps, b + (d - b) * i / steps) for i in range(steps + 1)]
            self.occupied += [(x - 1, y - 1, x + 1, y + 1) for x, y in centres]
        self.put("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in drawn), class_=class_)

    def area(self, points: list[tuple[float, float]], class_: str) -> None:
        self.put("polygon", points=" ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points), class_=class_)

    def mark(self, x: float, y: float, size: float, shape: str, class_: str, words: str, **data: object) -> None:
        """A point with a title that shows on hover: round, or a diamond."""
        a, b = round(self.x(x), 1), round(self.y(y), 1)
        inside = tag("title", words)
        self.occupied.append((a - size, b - size, a + size, b + size))
        if shape == "round":
            self.put("circle", inside, cx=a, cy=b, r=round(size, 1), class_=class_, **data)
        else:
            s = round(size * 1.25, 1)
            self.put("path", inside, d=f"M{a} {b - s}L{a + s} {b}L{a} {b + s}L{a - s} {b}Z", class_=class_, **data)

    def label(self, x: float, y: float, gap: float, words: str, class_: str = "label", above: bool = False) -> bool:
        """A label next to a data point where nothing is yet: right, left, above or below; False when there is no room."""
        a, b, wide = self.x(x), self.y(y), len(words) * LETTER
        sideways = [(a + gap, b + 4, "start"), (a - gap, b + 4, "end")]
        over = [
            (a, b - gap - 3, "middle"),
            (a, b + gap + 11, "middle"),
            (a + gap, b + gap + 11, "start"),
            (a - gap, b - gap - 3, "end"),
        ]
        for at, baseline, anchor in [*over, *sideways] if above else [*sideways, *over]:
            start = at - {"start": 0.0, "end": wide, "middle": wide / 2}[anchor]
            box = (start, baseline - 10, start + wide, baseline + 3)
            inside = box[0] >= self.left and box[2] <= self.right and box[1] >= self.top and box[3] <= self.bottom
            if inside and not any(_overlap(box, other) for other in self.occupied):
                self.occupied.append(box)
                self.text(at, baseline, words, class_, anchor)
                return True
        return False

    def name_line(self, left: float, y: float, words: str, class_: str) -> None:
        """The name of a level line that runs from `left` to the right edge: over it or under it, where nothing is yet."""
        wide, b = len(words) * LETTER, self.y(y)
        ends = [self.right - 4 - step * (self.right - left - wide) / 6 for step in range(7)]
        places = [(end, baseline) for baseline in (b - 7, b + 15) for end in ends]
        free = [
            (end, at)
            for end, at in places
            if not any(_overlap((end - wide, at - 9, end, at + 2), other) for other in self.occupied)
        ]
        end, at = (free or places)[0]
        self.occupied.append((end - wide, at - 10, end, at + 3))
        self.text(end, at, words, class_, "end")

    def svg(self, title: str, description: str, ident: str) -> EscapedHtml:
        """The drawing, named for those who do not see it."""
        name = f"{ident}-{self.kind}"
        return tag(
            "svg", tag("title", title, id=f"{name}-t"), tag("desc", description, id=f"{name}-d"), self.parts,
            class_=f"chart {self.kind}", viewBox=f"0 0 {self.width} {self.height}", role="img",
            aria_labelledby=f"{name}-t {name}-d",
        )  # fmt: skip


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


LABELLED = 0.04  # operations of at least this share of their phase carry their name
DRAWN = 0.002  # and of at least this are drawn
LATENCY = {"decode": "ITL", "train": "step"}
MARKED = 40  # points of a curve that are marked; more only blur it


def roofline(figures: EmbeddedFigures) -> EscapedHtml:
    """Every operation with FLOPs at its intensity and at the FLOP/s it is expected to reach."""
    points = [
        (phase, i, row)
        for phase, rows in figures.data["operations"].items()
        for i, row in enumerate(rows)
        if row["flops"] and row["intensity_flops_per_byte"] and row["achieved_flops_per_s"] and (row["share"] >= DRAWN)
    ]
    if not points:
        return tag("p", "No operation here does matrix work.")
    words = "; ".join(
        f"{phase} {row['name']}: {row['intensity_flops_per_byte']:.3g} FLOP per byte, "
        f"{si(row['achieved_flops_per_s'], 'FLOP/s')}"
        for phase, _, row in points
        if row["share"] >= LABELLED
    )
    drawn = [_roofline(kind, figures.data["roofs"], points).svg("Roofline", words, "roofline") for kind in SIZES]
    legend = tag(
        "ul",
        [_key(f"mark {phase}", phase) for phase in dict.fromkeys(phase for phase, _, _ in points)],
        _key("mark plain", "matmul"),
        _key("mark plain", "attention", diamond=True),
        tag("li", f"size: share of the phase's time; below {DRAWN:.1%} left out"),
        class_="legend",
    )
    return join(drawn, legend)


def _roofline(kind: str, roofs: Json, points: list[tuple[str, int, Json]]) -> Chart:
    bandwidth, peaks = roofs["bandwidth_bytes_per_s"], roofs["peak_flops_per_s"]
    ridges = [peak / bandwidth for peak in peaks.values()]
    xs = [*ridges, *(row["intensity_flops_per_byte"] for _, _, row in points)]
    ys = [row["achieved_flops_per_s"] for _, _, row in points]
    low, high = min(xs) / 2, max(xs) * 2.5
    chart = Chart(kind, (low, high, True), (min(min(ys), low * bandwidth) / 1.5, max(peaks.values()) * 2.2, True))
    chart.axes(
        "FLOP per byte", "FLOP/s of one device", lambda v: f"{v:g}" if v < 1e4 else count(v), lambda v: si(v, "")
    )
    for peak in peaks.values():
        chart.line([(low, low * bandwidth), (peak / bandwidth, peak), (high, peak)], "roof")
        ridge = round(chart.x(peak / bandwidth), 1)
        chart.put("line", x1=ridge, x2=ridge, y1=chart.bottom, y2=round(chart.y(peak), 1), class_="ridge")
        chart.label(peak / bandwidth, chart.y.low * 1.6, 6, f"ridge {peak / bandwidth:.0f}", "roofname")
    _slope(chart, low, bandwidth)
    for phase, i, row in sorted(points, key=lambda p: -p[2]["share"]):
        words = (
            f"{phase}: {row['name']} {row['shape']}; {row['intensity_flops_per_byte']:.4g} FLOP/B, "
            f"{si(row['achieved_flops_per_s'], 'FLOP/s')}, {row['share']:.1%} of the time, bound by {row['bound']}"
        )
        chart.mark(
            row["intensity_flops_per_byte"], row["achieved_flops_per_s"], 3.2 + 9 * row["share"] ** 0.5,
            "round" if row["group"] == "matmul" else "diamond", f"mark {phase}", words, data_path=f"operations.{phase}.{i}",
        )  # fmt: skip
    for dtype, peak in peaks.items():
        chart.name_line(chart.x(peak / bandwidth), peak, f"{si(peak, 'FLOP/s')} {dtype}", "roofname")
    for phase, _, row in sorted(points, key=lambda p: -p[2]["share"]):
        if row["share"] >= LABELLED:
            chart.label(
                row["intensity_flops_per_byte"], row["achieved_flops_per_s"], 6 + 9 * row["share"] ** 0.5, row["name"],
                f"label {phase}",
            )  # fmt: skip
    return chart


def _slope(chart: Chart, low: float, bandwidth: float) -> None:
    """The bandwidth's name, along its roof."""
    x = low * (2.2 if chart.kind == "wide" else 1.6)
    a, b = chart.x(x), chart.y(x * bandwidth)
    turn = degrees(atan((chart.y(x * bandwidth * 10) - b) / (chart.x(x * 10) - a)))
    chart.put(
        "text", si(bandwidth, "B/s"), transform=f"translate({a:.1f} {b - 8:.1f}) rotate({turn:.1f})", class_="roofname"
    )


def _key(class_: str, words: str, diamond: bool = False) -> EscapedHtml:
    """What a color or shape means."""
    drawing = tag("path", d="M8 2L14 8L8 14L2 8Z", class_=class_) if diamond else tag("circle", cx=8, cy=8, r=5, class_=class_)  # fmt: skip
    return tag("li", tag("svg", drawing, viewBox="0 0 16 16", class_="key", aria_hidden="true"), words)


def throughput(figures: EmbeddedFigures, phase: str) -> EscapedHtml:
    """Time against tokens per second as the batch grows: expected with its interval, and the floor."""
    points = figures.data["curves"][phase]
    answer = figures.data["estimate"]["phases"][phase]
    words = "; ".join(
        f"batch {count(p['batch'])}: {duration(p['time_s'])}, {si(p['tokens_per_s'], 'tokens/s')}" for p in points
    )
    asked = answer.get("batch") or figures.data["estimate"]["workload"].get("train_batch")
    drawn = [
        _curve(kind, phase, points, asked).svg(f"{phase}: {LATENCY[phase]} against throughput", words, f"curve-{phase}")
        for kind in SIZES
    ]
    return join(
        drawn,
        tag(
            "ul",
            tag("li", "line: expected"),
            tag("li", "band: 80% interval"),
            tag("li", "dashed: floor"),
            tag("li", "numbers: batch; the large point is the one asked for"),
            tag("li", "hollow: does not fit") if not all(p["feasible"] for p in points) else None,
            class_="legend",
        ),
    )


def picture(drawn: Picture, ident: str) -> EscapedHtml:
    """Points or curves of several series, with limits as level lines and a legend."""
    words = "; ".join(
        f"{name}: " + ", ".join(f"{x:.3g} {y:.3g}" for x, y in line[:12]) for name, line in drawn.series.items()
    )
    charts = [_plotted(kind, drawn, ident).svg(drawn.title, words, ident) for kind in SIZES]
    keys = [_key(f"mark s{i % 8 + 1}", name) for i, name in enumerate(drawn.series or drawn.boxes) if name]
    dashed = [tag("li", f"dashed: {name}") for name in drawn.limits]
    return join(charts, tag("ul", keys, dashed, class_="legend"))


def _plotted(kind: str, drawn: Picture, ident: str) -> Chart:
    points = drawn.points()
    xs = [*(x for x, _ in points), *(peak / bandwidth for peak, bandwidth in drawn.roofs.values())]
    ys = [*(y for _, y in points), *drawn.limits.values(), *(peak for peak, _ in drawn.roofs.values())]
    ys += [min(xs) / 1.3 * bandwidth for _, bandwidth in drawn.roofs.values()]
    log_x, log_y = drawn.log, drawn.log or drawn.log_up
    across = (min(xs) / 1.3, max(xs) * 1.3, True) if log_x else _span(xs)
    chart = Chart(kind, across, (min(ys) / 1.3, max(ys) * 1.3, True) if log_y else _span(ys))
    chart.axes(drawn.x, drawn.y, lambda v: f"{v:g}", lambda v: f"{v:g}")
    for name, (peak, bandwidth) in drawn.roofs.items():
        low, high = chart.x.low, chart.x.high
        chart.line([(low, low * bandwidth), (peak / bandwidth, peak), (high, peak)], "roof")
        chart.name_line(chart.x(peak / bandwidth), peak, name, "roofname")
    for name, y in drawn.limits.items():
        chart.line([(chart.x.low, y), (chart.x.high, y)], "floorline")
        chart.name_line(chart.left, y, name, "roofname")
    for i, (name, boxes) in enumerate(drawn.boxes.items()):
        for left, right, low, high in boxes:
            x, y, end, base = (round(v, 1) for v in (chart.x(left), chart.y(high), chart.x(right), chart.y(low)))
            box = tag("rect", x=x, y=y, width=round(end - x, 1), height=round(base - y, 1), class_=f"mark s{i % 8 + 1}")
            chart.put("g", tag("title", f"{name}: {high - low:g}"), box)
    for i, (name, line) in enumerate(drawn.series.items()):
        if drawn.curves:
            chart.line(line, f"curve s{i % 8 + 1}")
        for x, y in line if len(line) <= MARKED or not drawn.curves else ():
            words = f"{drawn.names.get((x, y), name) or ident}: {x:.4g}, {y:.4g}"
            chart.mark(x, y, 4.5, "round", f"mark s{i % 8 + 1}", words)
    for (x, y), name in reversed(drawn.names.items()):  # the best first, the others where there is room
        chart.label(x, y, 8, name)
    return chart


def _span(values: list[float]) -> tuple[float, float, bool]:
    """A linear axis from zero, or from near the lowest value where all are close to each other."""
    low, high = min(values), max(values)
    room = (high - low) * 0.15 or abs(high) * 0.1 or 1.0
    return (0.0 if low <= high / 3 else low - room), high + room, False


def _curve(kind: str, phase: str, points: list[Json], asked: float | None) -> Chart:
    xs, lows = [p["tokens_per_s"] for p in points], [p["floor_s"] for p in points]
    highs = [p["interval_s"][1] for p in points]
    log = max(highs) > 20 * min(lows)
    narrow = max(xs) / min(xs) < 3
    x_low, x_high = (min(xs) * 0.97, max(xs) * 1.03) if narrow else (min(xs) / 1.3, max(xs) * 1.3)
    chart = Chart(
        kind,
        (x_low, x_high, not narrow),
        (min(lows) / 1.5, max(highs) * 1.3, True) if log else (0.0, max(highs) * 1.08, False),
    )
    chart.axes(
        "tokens per second, all devices",
        LATENCY[phase],
        lambda v: si(v, "", 3).strip(),
        lambda v: duration(v, 3) if v else "0",
    )
    band = [(p["tokens_per_s"], p["interval_s"][1]) for p in points] + [
        (p["tokens_per_s"], p["interval_s"][0]) for p in reversed(points)
    ]
    chart.area(band, f"band {phase}")
    chart.line([(p["tokens_per_s"], p["floor_s"]) for p in points], "floorline")
    chart.line([(p["tokens_per_s"], p["time_s"]) for p in points], f"curve {phase}")
    for i, p in enumerate(points):
        state = "" if p["feasible"] else " nofit"
        chart.mark(
            p["tokens_per_s"], p["time_s"], 6.0 if p["batch"] == asked else 3.2, "round", f"mark {phase}{state}",
            f"batch {count(p['batch'])}: {duration(p['time_s'])}, {si(p['tokens_per_s'], 'tokens/s')}",
            data_path=f"curves.{phase}.{i}",
        )  # fmt: skip
    for p in sorted(points, key=lambda p: p["batch"] != asked):
        chart.label(p["tokens_per_s"], p["time_s"], 7, count(p["batch"]), above=True)
    return chart
