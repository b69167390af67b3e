"""Operations on the roofline, of a model or of a compiled function: table, JSON, CSV, markdown, and the picture."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import unknown
from rooflinecli.core.units import count, duration, si
from rooflinecli.render.formats import csv, markdown, terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE, bold, dim, red

HEAD = ("operation", "shape", "launches", "FLOPs", "bytes", "FLOP/B", "bound", "floor", "expected", "share")
COLUMNS = (
    "phase",
    "name",
    "group",
    "class",
    "dtype",
    "shape",
    "launches",
    "flops",
    "bytes",
    "intensity_flops_per_byte",
    "bound",
    "floor_s",
    "time_s",
    "low_s",
    "high_s",
    "share",
    "achieved_flops_per_s",
    "achieved_bytes_per_s",
)
SORTS = {"time": "time_s", "flops": "flops", "bytes": "bytes", "intensity": "intensity_flops_per_byte"}
SMALL = 0.0005  # of a phase: rows below it are summed up in the table for people


def ranked(answer: dict[str, Any], sort: str, top: int | None) -> dict[str, Any]:
    """The rows of each phase sorted and cut. Raises UsageError for an unknown order."""
    if sort not in ("order", *SORTS):
        raise unknown("order", sort, ("order", *SORTS))
    key = SORTS.get(sort, "time_s")
    for phase in answer["phases"].values():
        rows = phase["operations"]
        if sort != "order" or top is not None:
            rows = sorted(rows, key=lambda row: row[key] or 0.0, reverse=True)[:top]
        phase["operations"] = rows
    return answer


def render(answer: dict[str, Any], format: str, width: int = PIPE) -> str:
    if format == "json":
        return dumps(answer)
    if format == "csv":
        return csv.rows(
            [COLUMNS, *(_record(name, row) for name, phase in answer["phases"].items() for row in phase["operations"])]
        )
    if format == "markdown":
        return "\n\n".join(_markdown(name, phase) for name, phase in answer["phases"].items())
    return "\n\n".join(
        [
            _head(answer, width),
            *(table(name, phase, width) for name, phase in answer["phases"].items()),
            *_foot(answer, width),
        ]
    )


def cells(row: dict[str, Any]) -> list[str]:
    """One operation for people, in the order of HEAD."""
    kernel = row["launches"] is not None
    intensity = row["intensity_flops_per_byte"]
    return [
        row["name"],
        row["shape"],
        count(row["launches"]) if kernel else "",
        si(row["flops"], "") if row["flops"] else "",
        si(row["bytes"], "B") if row["bytes"] else "",
        f"{intensity:,.4g}" if intensity else "",
        row["bound"] if kernel else "",
        duration(row["floor_s"]) if row["floor_s"] else "",
        duration(row["time_s"]),
        f"{row['share']:.1%}",
    ]


def _record(phase: str, row: dict[str, Any]) -> list[Any]:
    low, high = row["interval_s"] or (None, None)
    values = {**row, "phase": phase, "low_s": low, "high_s": high}
    return ["" if values[name] is None else values[name] for name in COLUMNS]


def _head(answer: dict[str, Any], width: int) -> str:
    roofs = answer["roofs"]
    peaks = ", ".join(
        f"{si(rate, 'FLOP/s')} {dtype} (ridge {rate / roofs['bandwidth_bytes_per_s']:.0f} FLOP/B)"
        for dtype, rate in roofs["peak_flops_per_s"].items()
    )
    model, chip = answer["model"]["name"], answer["hardware"]["name"]
    said = "\n".join(
        terminal.prose(f"{model} on {chip}: {si(roofs['bandwidth_bytes_per_s'], 'B/s')}, {peaks}", width, "  ")
    )
    return said.replace(model, bold(model), 1).replace(chip, bold(chip), 1)


def _foot(answer: dict[str, Any], width: int) -> list[str]:
    about = "one device, all launches; FLOP/B is intensity; fused by an ideal engine, elementwise rows have no floor"
    return ["\n".join(map(dim, terminal.prose(about, width))), *unfit(answer, width)]


def unfit(answer: dict[str, Any], width: int) -> list[str]:
    """What does not fit, a paragraph each, in red."""
    said = (terminal.prose(f"does not fit: {v['message']}", width) for v in answer["violations"])
    return ["\n".join(map(red, lines)) for lines in said]


# columns of the table go in this order where there is no room for all
_DROP = ("launches", "bytes", "FLOPs", "shape", "FLOP/B", "floor", "bound")


def table(name: str, phase: dict[str, Any], width: int = PIPE) -> str:
    """Aligned columns; what takes next to no time is one line."""
    rows = phase["operations"]
    shown, small = [r for r in rows if r["share"] >= SMALL], [r for r in rows if r["share"] < SMALL]
    grid = [list(HEAD), *map(cells, shown)]
    lines = terminal.table(grid, width, left=("operation", "shape", "bound"), drop=_DROP, shrink={"shape": 20})
    if small:
        said = f"and {len(small)} below {SMALL:.2%} each; --format csv lists them"
        lines += map(dim, terminal.prose(said, width))
    return "\n".join([*terminal.prose(title(name, phase), width), *lines])


def title(name: str, phase: dict[str, Any]) -> str:
    """'decode: 36.5 ms expected, floor 24.3 ms'."""
    return f"{name}: {duration(phase['time_s'])} expected, floor {duration(phase['floor_s'])}"


def _markdown(name: str, phase: dict[str, Any]) -> str:
    return f"### {title(name, phase)}\n\n{markdown.table([list(HEAD), *map(cells, phase['operations'])])}"


def draw(answer: dict[str, Any], target: str) -> str | None:
    """The roofline with the operations on it; text for target `-`. Points are what an operation is expected to achieve."""
    from rooflinecli.questions.sweep.plot_points import Picture
    from rooflinecli.render.formats import plot

    roofs = answer["roofs"]
    series: dict[str, list[tuple[float, float]]] = {}
    for phase, part in answer["phases"].items():
        for row in part["operations"]:
            if row["flops"] and row["intensity_flops_per_byte"] and row["achieved_flops_per_s"]:
                label = f"{phase} {row['group']}".strip()
                series.setdefault(label, []).append((row["intensity_flops_per_byte"], row["achieved_flops_per_s"]))
    chip = answer["hardware"]["name"]
    return plot.draw(
        Picture(
            title=f"{answer['model']['name']} on {chip}",
            x="FLOP per byte",
            y="FLOP/s per device",
            log=True,
            series=series,
            roofs={dtype: (rate, roofs["bandwidth_bytes_per_s"]) for dtype, rate in roofs["peak_flops_per_s"].items()},
        ),
        target,
    )
