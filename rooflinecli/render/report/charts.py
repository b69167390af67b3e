"""The roofline with a model's operations on it, and latency against throughput."""

from __future__ import annotations

from math import atan, degrees

from rooflinecli.core.record import Json
from rooflinecli.core.units import count, duration, si
from rooflinecli.questions.sweep.plot_points import Picture
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, tag
from rooflinecli.render.report.svg import SIZES, Chart

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
    wide, peaks = roofs["bandwidth_bytes_per_s"], roofs["peak_flops_per_s"]
    ridges = [peak / wide for peak in peaks.values()]
    xs = [*ridges, *(row["intensity_flops_per_byte"] for _, _, row in points)]
    ys = [row["achieved_flops_per_s"] for _, _, row in points]
    low, high = min(xs) / 2, max(xs) * 2.5
    chart = Chart(kind, (low, high, True), (min(min(ys), low * wide) / 1.5, max(peaks.values()) * 2.2, True))
    chart.axes(
        "FLOP per byte", "FLOP/s of one device", lambda v: f"{v:g}" if v < 1e4 else count(v), lambda v: si(v, "")
    )
    for peak in peaks.values():
        chart.line([(low, low * wide), (peak / wide, peak), (high, peak)], "roof")
        ridge = round(chart.x(peak / wide), 1)
        chart.put("line", x1=ridge, x2=ridge, y1=chart.bottom, y2=round(chart.y(peak), 1), class_="ridge")
        chart.label(peak / wide, chart.y.low * 1.6, 6, f"ridge {peak / wide:.0f}", "roofname")
    _slope(chart, low, wide)
    for phase, i, row in sorted(points, key=lambda p: -p[2]["share"]):
        words = (
            f"{phase}: {row['name']} {row['shape']}; {row['intensity_flops_per_byte']:.4g} FLOP/B, "
            f"{si(row['achieved_flops_per_s'], 'FLOP/s')}, {row['share']:.1%} of the time, bound by {row['bound']}"
        )
        chart.mark(
            row["intensity_flops_per_byte"],
            row["achieved_flops_per_s"],
            3.2 + 9 * row["share"] ** 0.5,
            "round" if row["group"] == "matmul" else "diamond",
            f"mark {phase}",
            words,
            data_path=f"operations.{phase}.{i}",
        )
    for dtype, peak in peaks.items():
        chart.name_line(chart.x(peak / wide), peak, f"{si(peak, 'FLOP/s')} {dtype}", "roofname")
    for phase, _, row in sorted(points, key=lambda p: -p[2]["share"]):
        if row["share"] >= LABELLED:
            chart.label(
                row["intensity_flops_per_byte"],
                row["achieved_flops_per_s"],
                6 + 9 * row["share"] ** 0.5,
                row["name"],
                f"label {phase}",
            )
    return chart


def _slope(chart: Chart, low: float, wide: float) -> None:
    """The bandwidth's name, along its roof."""
    x = low * (2.2 if chart.kind == "wide" else 1.6)
    a, b = chart.x(x), chart.y(x * wide)
    turn = degrees(atan((chart.y(x * wide * 10) - b) / (chart.x(x * 10) - a)))
    chart.put(
        "text", si(wide, "B/s"), transform=f"translate({a:.1f} {b - 8:.1f}) rotate({turn:.1f})", class_="roofname"
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
    keys = [_key(f"mark s{i % 8 + 1}", name) for i, name in enumerate(drawn.series) if name]
    dashed = [tag("li", f"dashed: {name}") for name in drawn.limits]
    return join(charts, tag("ul", keys, dashed, class_="legend"))


def _plotted(kind: str, drawn: Picture, ident: str) -> Chart:
    points = [point for line in drawn.series.values() for point in line]
    xs = [*(x for x, _ in points), *(peak / wide for peak, wide in drawn.roofs.values())]
    ys = [*(y for _, y in points), *drawn.limits.values(), *(peak for peak, _ in drawn.roofs.values())]
    ys += [min(xs) / 1.3 * wide for _, wide in drawn.roofs.values()]
    log_x, log_y = drawn.log, drawn.log or drawn.log_up
    across = (min(xs) / 1.3, max(xs) * 1.3, True) if log_x else _span(xs)
    chart = Chart(kind, across, (min(ys) / 1.3, max(ys) * 1.3, True) if log_y else _span(ys))
    chart.axes(drawn.x, drawn.y, lambda v: f"{v:g}", lambda v: f"{v:g}")
    for name, (peak, wide) in drawn.roofs.items():
        low, high = chart.x.low, chart.x.high
        chart.line([(low, low * wide), (peak / wide, peak), (high, peak)], "roof")
        chart.name_line(chart.x(peak / wide), peak, name, "roofname")
    for name, y in drawn.limits.items():
        chart.line([(chart.x.low, y), (chart.x.high, y)], "floorline")
        chart.name_line(chart.left, y, name, "roofname")
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
            p["tokens_per_s"],
            p["time_s"],
            6.0 if p["batch"] == asked else 3.2,
            "round",
            f"mark {phase}{state}",
            f"batch {count(p['batch'])}: {duration(p['time_s'])}, {si(p['tokens_per_s'], 'tokens/s')}",
            data_path=f"curves.{phase}.{i}",
        )
    for p in sorted(points, key=lambda p: p["batch"] != asked):
        chart.label(p["tokens_per_s"], p["time_s"], 7, count(p["batch"]), above=True)
    return chart
