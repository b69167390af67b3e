"""Chips as text: the list, several side by side, one with its sources. `?` marks what nothing confirms."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rooflinecli.core import units
from rooflinecli.render.formats import csv, json, terminal
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.specs.hardware import DTYPES

Row = list[str]
LEGEND = "? unconfirmed   - none, or not known   FLOP/B: ridge point, peak over bandwidth"
_HALF = ("bf16", "fp16")


def listing(chips: list[dict[str, Any]], fmt: str, dtype: str | None = None, width: int = PIPE) -> str:
    if fmt == "json":
        return json.dumps(chips)
    if fmt == "csv":
        return csv.rows(_flat(chips))
    if not chips:
        return "no chip passes these filters; `roofline hardware` lists all of them"
    second = dtype if dtype and dtype not in _HALF else "fp8"
    head = ["chip", "memory", "bandwidth", "16-bit", second, "FLOP/B", "link", "$/h"]
    rows = [head, *(_line(chip, second) for chip in chips)]
    if fmt == "markdown":
        return f"{_markdown(rows)}\n\n{LEGEND}"
    made = terminal.fit(rows, width, drop=("link", "FLOP/B", second, "$/h"))
    lines = list(map(made.line, rows[1:]))
    body: list[str] = []
    for group, pairs in groupby(
        zip(chips, lines, strict=True), key=lambda pair: f"{pair[0]['vendor']} {pair[0]['kind']}"
    ):
        body += ["", group, *(line for _, line in pairs)]
    about = f"{len(chips)} chips. 16-bit, {second}: dense FLOP/s. link: innermost, one way, per second."
    said = [line for text in (about, LEGEND) for line in terminal.prose(text, width)]
    top = "\n".join(made.head(head))
    return "\n".join([top, "-" * max(map(len, [top, *lines])), *body[1:], "", *said, *made.note(width)])


def _line(chip: dict[str, Any], dtype: str) -> Row:
    half = next((d for d in _HALF if d in chip["peak_flops_per_s"]), None)
    link = _link(chip, 0) if chip["network"] else "-"
    return [
        chip["name"],
        _memory(chip),
        _bandwidth(chip).replace("/s", ""),
        _peak(chip, half),
        _peak(chip, dtype),
        _ridge(chip, half),
        link,
        _price(chip),
    ]


def compare(chips: list[dict[str, Any]], fmt: str, width: int = PIPE) -> str:
    if fmt == "json":
        return json.dumps(chips)
    if fmt == "csv":
        return csv.rows(_flat(chips))
    rows = _comparison(chips)
    if fmt == "markdown":
        return f"{_markdown(rows)}\n\n{LEGEND}"
    parts = []
    for block in _blocks(rows, width):
        cells = [[row[0], *(row[i] for i in block)] for row in rows]
        top, *lines = terminal.table([row for row in cells if set(row[1:]) != {"-"}], width)
        parts.append("\n".join([top, "-" * max(map(len, [top, *lines])), *lines]))
    return "\n\n".join([*parts, "\n".join(terminal.prose(LEGEND, width))])


def _blocks(rows: list[Row], width: int) -> list[list[int]]:
    """The chips' columns in groups that fit beside the labels."""
    blocks: list[list[int]] = []
    label = max(len(row[0]) for row in rows)
    used = width
    for i in range(1, len(rows[0])):
        column = 2 + max(len(row[i]) for row in rows)
        if used + column > width:
            blocks.append([])
            used = label
        blocks[-1].append(i)
        used += column
    return blocks


def _comparison(chips: list[dict[str, Any]]) -> list[Row]:
    """Quantities down, chips across."""

    def across(label: str, cell: Any) -> Row:
        return [label, *(cell(chip) or "-" for chip in chips)]

    dtypes = [d for d in DTYPES if any(d in chip["peak_flops_per_s"] for chip in chips)]
    rows = [
        across("", lambda c: c["name"]),
        across("vendor", lambda c: c["vendor"]),
        across("year", lambda c: str(c["year"] or "")),
        across("memory", _memory),
        across("bandwidth", _bandwidth),
    ]
    rows += [across(f"{d} FLOP/s", lambda c, d=d: _peak(c, d)) for d in dtypes]
    rows += [across(f"{d} FLOP/B", lambda c, d=d: _ridge(c, d)) for d in dtypes]
    for depth in range(max(len(c["network"]) for c in chips)):
        rows += [
            across(f"network {depth + 1}", lambda c, n=depth: _level(c, n)[0]),
            across("  kind, size", lambda c, n=depth: _level(c, n)[1]),
            across("  one way, /s", lambda c, n=depth: _level(c, n)[2]),
        ]
    return [
        *rows,
        across("host link, /s", lambda c: _si(c, "host_link_bytes_per_s", "B", "host_link")),
        across("power", lambda c: _si(c, "power_w", "W", "power")),
        across("USD/h", _price),
        *(across(f"  {key}", lambda c, key=key: (c["price"] or {}).get(key)) for key in ("provider", "date")),
    ]


def _level(chip: dict[str, Any], depth: int) -> Row:
    """Name, kind with size, and bandwidth of one network level; dashes where the chip has none."""
    if depth >= len(chip["network"]):
        return ["-", "-", "-"]
    level = chip["network"][depth]
    return [level["name"], f"{level['kind']} {level['size'] or 'any'}", _link(chip, depth)]


def _mark(chip: dict[str, Any], quantity: str) -> str:
    return "?" if quantity in chip["unverified"] else ""


def _si(chip: dict[str, Any], key: str, unit: str, quantity: str) -> str:
    return units.si(chip[key], unit) + _mark(chip, quantity) if chip[key] is not None else "-"


def _memory(chip: dict[str, Any]) -> str:
    return f"{chip['memory']['capacity_bytes'] / 2**30:.4g} GiB{_mark(chip, 'memory.capacity')}"


def _bandwidth(chip: dict[str, Any]) -> str:
    return units.si(chip["memory"]["bandwidth_bytes_per_s"], "B") + "/s" + _mark(chip, "memory.bandwidth")


def _peak(chip: dict[str, Any], dtype: str | None) -> str:
    value = chip["peak_flops_per_s"].get(dtype)
    return "-" if value is None else units.si(value, "") + _mark(chip, f"peak.{dtype}")


def _ridge(chip: dict[str, Any], dtype: str | None) -> str:
    value = chip["ridge_flop_per_byte"].get(dtype)
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _price(chip: dict[str, Any]) -> str:
    return f"{chip['price']['usd_per_hour']:.2f}{_mark(chip, 'price')}" if chip["price"] else "-"


def _link(chip: dict[str, Any], depth: int) -> str:
    """One way; a torus as links x bandwidth of one."""
    level = chip["network"][depth]
    links = f"{2 * level['axes']}x" if level["per"] == "link" else ""
    mark = _mark(chip, f"network.{level['name']}.bandwidth")
    return f"{links}{units.si(level['bandwidth_bytes_per_s'], 'B')}{mark}"


def sheet(chip: dict[str, Any], fmt: str, width: int = PIPE) -> str:
    from rooflinecli.render.views.hardware_sheet import page, rows

    if fmt == "json":
        return json.dumps(chip)
    if fmt == "csv":
        return csv.rows(rows(chip))
    return page(chip, min(width, PIPE), markdown=fmt == "markdown")


def _flat(chips: list[dict[str, Any]]) -> list[list[Any]]:
    """One line per chip, SI, the unit in the heading."""
    dtypes = list(dict.fromkeys(d for chip in chips for d in chip["peak_flops_per_s"]))
    head = [
        "name",
        "vendor",
        "kind",
        "year",
        "capacity_bytes",
        "bandwidth_bytes_per_s",
        *(f"peak_{d}_flops_per_s" for d in dtypes),
        *(f"ridge_{d}_flop_per_byte" for d in dtypes),
        "link_bytes_per_s",
        "link_per",
        "power_w",
        "usd_per_hour",
        "provider",
        "date",
        "unverified",
    ]
    rows: list[list[Any]] = [head]
    for c in chips:
        peak, ridge = c["peak_flops_per_s"], c["ridge_flop_per_byte"]
        level, price, memory = (c["network"] or [{}])[0], c["price"] or {}, c["memory"]
        rows.append(
            [
                *(c[key] for key in head[:4]),
                memory["capacity_bytes"],
                memory["bandwidth_bytes_per_s"],
                *(peak.get(d) for d in dtypes),
                *(ridge.get(d) for d in dtypes),
                level.get("bandwidth_bytes_per_s"),
                level.get("per"),
                c["power_w"],
                *(price.get(key) for key in ("usd_per_hour", "provider", "date")),
                " ".join(c["unverified"]),
            ]
        )
    return rows


def _markdown(rows: list[Row]) -> str:
    return marked.table(rows, right=range(1, len(rows[0])))
