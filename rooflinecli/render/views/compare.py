"""Chips side by side as a table, Markdown, CSV or JSON."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import json as plain
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.numbers import interval as between
from rooflinecli.render.numbers import money, text
from rooflinecli.render.views import tornado
from rooflinecli.specs.quantities import unit_of

Row = dict[str, Any]


# columns of the table go in this order where there is no room for all
_DROP = ("bound", "memory headroom", "layout", "USD/h")
_TEXT = ("chip", "layout")


def render(result: Row, format: str, width: int = PIPE) -> str:
    """The comparison in one of the formats of `--format`."""
    return (
        table(result, width) if format == "table" else {"markdown": markdown, "json": json, "csv": csv}[format](result)
    )


def table(result: Row, width: int = PIPE) -> str:
    head = [name.replace(".", "\n") for name in _head(result)]
    grid = [head, *(_cells(result, row) for row in result["rows"] if row["rank"])]
    shown = [name.replace("\n", " ") for name in head]
    drop = [*_DROP, *reversed(shown[6:-2]), "relative", "interval"]
    lines = [*terminal.prose(_title(result), width), ""]
    lines += terminal.table(grid, width, left=_TEXT, drop=drop) if len(grid) > 1 else []
    notes = [line for note in _notes(result) for line in terminal.prose(note, width)]
    return "\n".join([*lines, *notes, *_first(result, width), *_moved(result, width)])


def _first(result: Row, width: int) -> list[str]:
    """The command that prints the first of the ranked; the others' are in json and csv."""
    best = next((row for row in result["rows"] if row["rank"] == 1), None)
    return ["", f"{best['name']}:", *terminal.command(best["command"], width)] if best else []


def markdown(result: Row) -> str:
    grid = [_head(result), *(_cells(result, row) for row in result["rows"] if row["rank"])]
    lines = [marked.cell(_title(result)), "", marked.table(grid, right=range(3, len(grid[0])))]
    moved = ["", "```text", *filter(None, _moved(result, PIPE)), "```"] if result.get("tornado") else []
    return "\n".join([*lines, *(f"\n{marked.cell(n)}" for n in _notes(result) if n), *moved])


def json(result: Row) -> str:
    return plain.dumps(result)


def csv(result: Row) -> str:
    """SI numbers, one line per chip, every quantity a column."""
    names = _quantities(result)
    lines: list[list[Any]] = [
        [
            "rank",
            "chip",
            "feasible",
            "devices",
            "tp",
            "pp",
            "dp",
            *names,
            "low",
            "high",
            "usd_per_hour",
            "bound",
            "why",
            "command",
        ]
    ]
    for row in result["rows"]:
        plan, interval = row["plan"] or {}, row["interval"] or ["", ""]
        lines.append(
            [
                row["rank"] or "",
                row["chip"],
                str(row["feasible"]).lower(),
                *(plan.get(k, "") for k in ("devices", "tp", "pp", "dp")),
                *(_value(result, row, q) if _value(result, row, q) is not None else "" for q in names),
                *interval,
                row["usd_per_hour"] if row["usd_per_hour"] is not None else "",
                row["bound"] or "",
                row["why"],
                row["command"] or "",
            ]
        )
    return comma.rows(lines)


def _moved(result: Row, width: int) -> list[str]:
    return tornado.lines(result["tornado"], width) if result.get("tornado") else []


def _title(result: Row) -> str:
    end = {"pessimistic": "the worse end of ", "floor": "the floor of "}.get(result.get("hold", ""), "")
    held = f"{end}{result['rank']}, {result['better']} is better"
    return f"{result['model']['name']}, {result['at'].replace('-', ' ')}: {result['basis']}; ranked by {held}"


def _quantities(result: Row) -> list[str]:
    """The quantity ranked by first, then what every chip is shown with."""
    return list(dict.fromkeys([result["rank"], *(q for row in result["rows"] for q in row["quantities"])]))


def _value(result: Row, row: Row, quantity: str) -> Any:
    return row["value"] if quantity == result["rank"] else row["quantities"].get(quantity)


def _head(result: Row) -> list[str]:
    rank, *others = _quantities(result)
    return [
        "",
        "chip",
        "layout",
        rank,
        "interval",
        "relative",
        *(q.removeprefix("cost.") for q in others),
        "USD/h",
        "bound",
    ]


def _cells(result: Row, row: Row) -> list[str]:
    rank, *others = _quantities(result)
    plan = row["plan"]
    layout = " ".join([f"n {plan['devices']}", *(f"{k} {plan[k]}" for k in ("tp", "pp", "dp") if plan[k] > 1)])
    interval = between(row["interval"][0], row["interval"][1], unit_of(rank)) if row["interval"] else "-"
    relative = (
        f"{row['relative']:.2f}x{' ~' if row['overlaps_previous'] else ''}" if row["relative"] is not None else "-"
    )
    return [
        str(row["rank"]),
        row["name"],
        layout,
        text(row["value"], rank),
        interval,
        relative,
        *(text(_value(result, row, q), q) for q in others),
        "-" if row["usd_per_hour"] is None else money(row["usd_per_hour"]),
        row["bound"],
    ]


def _notes(result: Row) -> list[str]:
    notes = [f"{row['name']}: cannot, {row['why']}" for row in result["rows"] if not row["feasible"]]
    notes += [
        f"{row['name']}: not ranked, it has no {result['rank']} here"
        for row in result["rows"]
        if row["feasible"] and not row["rank"]
    ]
    lacking = [c for c in result["unpriced"] if any(r["chip"] == c and r["feasible"] for r in result["rows"])]
    if lacking:
        asks = ",".join(f"{chip}=USD" for chip in lacking)
        notes.append(f"no price is known for {', '.join(lacking)}; --price {asks} gives one per device-hour")
    if any(row["overlaps_previous"] for row in result["rows"]):
        notes.append("~ its interval overlaps the one above: the order of the two is not certain")
    return ["", *notes] if notes else []
