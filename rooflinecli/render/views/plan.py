"""A plan of devices, days and dollars as table, Markdown, CSV or JSON."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import count, duration
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.csv import rows as csv_rows
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.numbers import layout

Row = dict[str, Any]
# columns of the table go in this order where there is no room for all
_DROP = (
    "layout",
    "MFU",
    "energy",
    "batch in all",
    "requests/s",
    "device-hours",
    "bill interval",
    "time interval",
    "$/M out",
    "inter-token",
    "first token",
)
_FLAT = ("rank", "chip", "feasible", "devices")


def render(result: Row, format: str, width: int = PIPE) -> str:
    """The plan in one of the formats of `--format`."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        return csv_rows(flat(result["rows"], _FLAT))
    grid = _serving(result) if result["phase"] == "serve" else _training(result)
    if format == "markdown":
        body = [marked.table(grid)] if len(grid) > 1 else []
        said = [f"- {marked.cell(line)}" for line in [*_commands(result), *_notes(result)]]
        return "\n\n".join([marked.cell(_title(result)), *body, "\n".join(said)]).rstrip()
    lines = terminal.prose(_title(result), width)
    lines += ["", *terminal.table(grid, width, left=("", "chip", "layout"), drop=_DROP)] if len(grid) > 1 else []
    for row in result["rows"]:
        if row["feasible"]:
            lines += ["", f"{row['rank']}:", *terminal.command(row["command"], width)]
    notes = [line for note in _notes(result) for line in terminal.prose(note, width, "  ")]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _title(result: Row) -> str:
    held = f"held at the {result['hold']} end" if result["hold"] != "floor" else "held at the floor"
    if result["phase"] == "serve":
        limits = "".join(f", {name} at most {duration(s)}" for name, s in result["limits_s"].items())
        return f"{result['model']}, {result['qps']:g} requests/s{limits}: {result['way']}, {held}"
    by = f" within {duration(result['deadline_s'])}" if result["deadline_s"] else ""
    budget = f" for at most {count(result['budget_usd'])} USD" if result["budget_usd"] else ""
    return f"{result['model']}, {count(result['tokens'])} tokens{by}{budget}: {result['way']}, {held}"


def _training(result: Row) -> list[list[str]]:
    grid = [
        [
            "",
            "chip",
            "devices",
            "time",
            "time interval",
            "bill",
            "bill interval",
            "device-hours",
            "MFU",
            "energy",
            "layout",
        ]
    ]
    for row in (r for r in result["rows"] if r["feasible"]):
        grid.append(
            [
                str(row["rank"]),
                row["hardware"],
                f"{row['devices']:,}",
                duration(row["run_s"]),
                _between([duration(s) for s in row["run_interval_s"]]),
                usd(row["training_usd"]),
                _between([usd(v) for v in row["training_usd_interval"]]) if row["training_usd"] is not None else "-",
                count(row["device_hours"]),
                f"{row['mfu']:.1%}".replace("%", " %"),
                _energy(row["energy_j"]),
                layout(row["layout"]),
            ]
        )
    return grid


def _serving(result: Row) -> list[list[str]]:
    grid = [
        [
            "",
            "chip",
            "devices",
            "instances",
            "first token",
            "inter-token",
            "requests/s",
            "batch in all",
            "$/h",
            "$/M out",
            "layout",
        ]
    ]
    for row in (r for r in result["rows"] if r["feasible"]):
        per_million = row["usd_per_million_output_tokens"]
        grid.append(
            [
                str(row["rank"]),
                row["hardware"],
                f"{row['devices']:,}",
                f"{row['instances']} x {row['layout']['batch']:g}",
                f"{duration(row['ttft_s'])} (to {duration(row['interval_ttft_s'][1])})",
                f"{duration(row['itl_s'])} (to {duration(row['interval_itl_s'][1])})",
                f"{row['requests_per_s']:.3g}",
                f"{row['batch_in_all']:g}",
                usd(row["usd_per_hour"]),
                f"{per_million:.3g}" if per_million is not None else "-",
                layout(row["layout"]),
            ]
        )
    return grid


def _between(ends: list[str]) -> str:
    """Two ends whose unit is written once where it is the same."""
    low, high = ends
    number, _, unit = low.partition(" ")
    return f"{number} .. {high}" if unit and high.endswith(f" {unit}") else f"{low} .. {high}"


def usd(value: float | None) -> str:
    """Dollars; a dash where no price is known."""
    return "-" if value is None else f"${count(value)}" if value >= 10_000 else f"${value:,.2f}"


def _energy(joules: float | None) -> str:
    return "-" if joules is None else f"{joules / 3.6e9:,.3g} MWh" if joules < 3.6e12 else f"{joules / 3.6e12:,.3g} GWh"


def _commands(result: Row) -> list[str]:
    return [f"{row['rank']}: `{row['command']}`" for row in result["rows"] if row["feasible"]]


def _notes(result: Row) -> list[str]:
    found = [f"{row['hardware']}: no, {row['why']}" for row in result["rows"] if not row["feasible"]]
    if result["unpriced"]:
        names = ", ".join(result["unpriced"])
        asks = ",".join(f"{name}=USD" for name in result["unpriced"])
        found.append(
            f"no price is known for {names}: ranked by time after the others; --price {asks} gives one per device-hour"
        )
    if result["phase"] == "serve" and result.get("period_s"):
        bills = ", ".join(
            f"{row['hardware']} {usd(row['bill_usd'])}"
            for row in result["rows"]
            if row["feasible"] and row["bill_usd"] is not None
        )
        found += [f"paid for {duration(result['period_s'])}: {bills}"] if bills else []
    return found


def flat(found: list[Row], first: tuple[str, ...]) -> list[list[Any]]:
    """SI numbers, one line per row, `first` the first columns; a list of two is two columns."""
    lines = []
    for row in found:
        line: Row = {}
        for key, value in row.items():
            if isinstance(value, list) and len(value) == 2 and key != "tried":
                line |= {f"{key}_low": value[0], f"{key}_high": value[1]}
            elif isinstance(value, dict):
                line |= {name: v for name, v in value.items() if name not in line}
            elif not isinstance(value, list):
                line[key] = value
        lines.append(line)
    names = list(dict.fromkeys([*first, *(k for line in lines for k in line)]))
    return [names, *([line.get(k) for k in names] for line in lines)]
