"""Models on a fleet as table, Markdown, CSV or JSON."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.text import plural
from rooflinecli.core.units import duration
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.csv import rows as csv_rows
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.numbers import layout
from rooflinecli.render.views.plan import flat, usd

Row = dict[str, Any]
# columns of the table go in this order where there is no room for all
_DROP = ("layout", "$/M out", "$/h", "inter-token", "first token", "model")


def render(result: Row, format: str, width: int = PIPE) -> str:
    """The fleet in one of the formats of `--format`."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        return csv_rows(flat(result["rows"], ("name", "model", "group", "devices")))
    grids = [grid for grid in (_placed(result), _models(result), _groups(result)) if len(grid) > 1]
    notes, commands = _notes(result), [f"{row['name']} on {row['group']}" for row in result["rows"]]
    if format == "markdown":
        said = [f"- {what}: `{row['command']}`" for what, row in zip(commands, result["rows"], strict=True)]
        said += [f"- {marked.cell(note)}" for note in notes]
        return "\n\n".join([marked.cell(_title(result)), *map(marked.table, grids), "\n".join(said)]).rstrip()
    lines = terminal.prose(_title(result), width)
    for grid in grids:
        lines += ["", *terminal.table(grid, width, left=("name", "model", "group", "chip", "layout"), drop=_DROP)]
    for what, row in zip(commands, result["rows"], strict=True):
        lines += ["", f"{what}:", *terminal.command(row["command"], width)]
    said = [line for note in notes for line in terminal.prose(note, width, "  ")]
    return "\n".join([*lines, *([""] if said else []), *said])


def _title(result: Row) -> str:
    held = f"held at the {result['hold']} end" if result["hold"] != "floor" else "held at the floor"
    devices = plural(sum(g["devices"] for g in result["groups"]), "device")
    many = f"{plural(len(result['models']), 'model')} on {devices}, {held}"
    bill = f" for {usd(result['usd_per_hour'])} an hour" if result["usd_per_hour"] is not None else ""
    if result["feasible"]:
        return (
            f"{many}: all traffic fits, on {plural(result['devices'], 'device')}{bill}, {result['spare']:,} left over; "
            f"all of it may grow {_times(result['growth'])} times, {result['bottleneck']} by itself least"
        )
    if not result["growth"]:
        return f"{many}: {result['bottleneck']} cannot be served on it"
    return f"{many}: the traffic does not fit; {100 * result['growth']:.3g} % of every model's does, and {result['bottleneck']} takes most"


def _placed(result: Row) -> list[list[str]]:
    head = [
        "name",
        "model",
        "group",
        "devices",
        "instances",
        "requests/s",
        "first token",
        "inter-token",
        "$/h",
        "$/M out",
        "layout",
    ]
    found = [head]
    for row in result["rows"]:
        tokens = row["usd_per_million_output_tokens"]
        found.append(
            [
                row["name"],
                row["model"],
                row["group"],
                f"{row['devices']:,}",
                f"{row['instances']} x {row['layout']['batch']:g}",
                f"{row['qps']:.3g} of {row['held_requests_per_s']:.3g}",
                f"{duration(row['ttft_s'])} (to {duration(row['interval_ttft_s'][1])})",
                f"{duration(row['itl_s'])} (to {duration(row['interval_itl_s'][1])})",
                usd(row["usd_per_hour"]),
                "-" if tokens is None else f"{tokens:.3g}",
                layout(row["layout"]),
            ]
        )
    return found


def _models(result: Row) -> list[list[str]]:
    found = [["name", "asks", "carried", "devices", "alone it takes", "may grow"]]
    for row in result["models"]:
        found.append(
            [
                row["name"],
                f"{row['qps']:.3g}/s",
                f"{row['carried_qps']:.3g}/s",
                f"{row['devices']:,}",
                "-" if row["load"] is None else f"{row['load']:.1%}".replace("%", " %"),
                "-" if row["growth"] is None else f"{_times(row['growth'])} x",
            ]
        )
    return found


def _groups(result: Row) -> list[list[str]]:
    found = [["group", "chip", "devices", "used", "left", "$/h"]]
    for row in result["groups"]:
        cells = [row["name"], row["hardware"], *(f"{row[k]:,}" for k in ("devices", "used", "spare"))]
        found.append([*cells, usd(row["usd_per_hour"])])
    return found


def _times(factor: float) -> str:
    """A factor that may be counted on: rounded down."""
    whole = f"{factor:.12g}"
    digits = max(2 - (len(str(int(factor))) - 1), 0)
    return f"{int(factor * 10**digits + 1e-9) / 10**digits:g}" if factor >= 1 else f"{float(whole):.2g}"


def _notes(result: Row) -> list[str]:
    found = [f"{m['name']}: nothing on {r['group']}, {r['why']}" for m in result["models"] for r in m["refused"]]
    lacking = [g for g in result["groups"] if g["needed"] is not None and g["needed"] > g["devices"]]
    found += [
        f"with {g['needed'] - g['devices']:,} more of {g['name']} ({g['needed']:,}) all of it would fit"
        for g in lacking
    ]
    idle = [row for row in result["rows"] if row["unused"]]
    found += [
        f"{row['name']} on {row['group']}: {row['unused']:,} of its devices stay idle, so that instances stay inside hosts"
        for row in idle
    ]
    if not result["exact"]:
        found.append(f"counted in lots: no assignment is more than {result['within']:.2%} better than this one")
    if result["unpriced"]:
        found.append(
            f"no price is known for {', '.join(result['unpriced'])}: the fewest devices instead of the lowest bill; add `price` to the group"
        )
    return found
