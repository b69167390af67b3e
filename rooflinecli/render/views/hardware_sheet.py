"""One chip's page: every figure with its basis, source and file:line, the efficiency constants, the citations."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.core import units
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.views.hardware import LEGEND
from rooflinecli.specs.efficiency import CONSTANTS


def rows(chip: dict[str, Any]) -> list[list[Any]]:
    """Figures as a table of plain values in SI."""
    head = ["quantity", "value", "unit", "written", "basis", "verified", "citation", "at", "note"]
    return [head, *([str(f[key]).lower() if key == "verified" else f[key] for key in head] for f in chip["figures"])]


def page(chip: dict[str, Any], width: int, *, markdown: bool = False) -> str:
    return _markdown(chip) if markdown else "\n".join(_text(chip, width))


def _title(chip: dict[str, Any]) -> list[str]:
    also = f" (also {', '.join(chip['aliases'])})" if chip["aliases"] else ""
    about = [f"{chip['vendor']} {chip['kind']}", chip["year"], chip["file"]]
    return [f"{chip['title']}: {chip['name']}{also}", ", ".join(str(part) for part in about if part)]


def _value(chip: dict[str, Any], figure: dict[str, Any]) -> str:
    return f"{figure['written']}{'' if figure['verified'] else '?'}"


def _extra(chip: dict[str, Any], figure: dict[str, Any]) -> str:
    """What stands beside a figure: basis, note, and for a peak its ridge point; for the price who and when."""
    parts = [figure["basis"]]
    if figure["quantity"].startswith("peak."):
        ridge = chip["ridge_flop_per_byte"][figure["quantity"].removeprefix("peak.")]
        parts.append(f"ridge {ridge:.0f} FLOP/B" if ridge >= 10 else f"ridge {ridge:.2g} FLOP/B")
    if figure["quantity"] == "price":
        parts.append(", ".join(p for p in (chip["price"]["provider"], chip["price"]["date"]) if p))
    return "; ".join(p for p in [*parts, figure["note"]] if p)


def _text(chip: dict[str, Any], width: int) -> list[str]:
    figures = chip["figures"]
    head = ("figure", "value", "source", "line")
    cells = [(_label(f["quantity"]), _value(chip, f), f["source"], _place(f["at"])) for f in figures]
    made = terminal.fit(
        [head, *cells], width, left=(0, 2, 3), drop=("line", "source"), shrink={"source": 8, "figure": 12}
    )
    lines = [
        *(line for text in _title(chip) for line in _fill(text, width, "")),
        "",
        *made.head(head),
        "-" * max(map(len, map(made.line, [head, *cells]))),
    ]
    for figure, cell in zip(figures, cells, strict=True):
        lines.append(made.line(cell))
        extra = _extra(chip, figure)
        lines += _fill(extra, width, "    ") if extra else []
    lines += ["", *_fill("efficiency constants (what is not here comes from hardware/defaults)", width, "")]
    for item in chip["efficiency"]:
        lines += _fill(f"{item['class']}: {_constants(item)}  [{item['source']}, {_place(item['at'])}]", width, "  ")
    lines += ["", "sources"]
    for key, text in chip["sources"].items():
        lines += _fill(f"{key}: {text}", width, "  ")
    lines += ["", "notes"] if chip["notes"] else []
    for note in chip["notes"]:
        lines += _fill(f"- {note}", width, "  ")
    return [*lines, "", *_fill(LEGEND, width, ""), *made.note(width)]


def _label(quantity: str) -> str:
    """'NVLink 4.bandwidth' for 'network.NVLink 4.bandwidth': short, and still unique on the page."""
    for prefix in ("network.", "on_chip.", "units."):
        quantity = quantity.removeprefix(prefix)
    return quantity


def _place(at: str) -> str:
    """'h100-sxm.yaml:14': the folder stands at the top of the page."""
    return at.rpartition("/")[2]


def _constants(item: dict[str, Any]) -> str:
    shown = [f"{name} {_constant(name, value)}" for name, value in item["constants"].items()]
    note = f" ({item['note']})" if item["note"] else ""
    return f"{', '.join(shown)}; ±{100 * item['error']:.0f} %{note}"


def _constant(name: str, value: float) -> str:
    if name in CONSTANTS and CONSTANTS[name].unit == "s":
        return units.duration(value)
    return "max" if math.isinf(value) else f"{value:g}"


def _fill(text: str, width: int, indent: str) -> list[str]:
    return [indent + line for line in terminal.wrap(text, width - len(indent), "  ")]


def _markdown(chip: dict[str, Any]) -> str:
    head = ["figure", "value", "basis", "source", "line"]
    body = [[f["quantity"], _value(chip, f), _extra(chip, f), f["citation"], f["at"]] for f in chip["figures"]]
    constants = [[i["class"], _constants(i), i["citation"], i["at"]] for i in chip["efficiency"]]
    lines = [f"# {marked.cell(_title(chip)[0])}", "", marked.cell(_title(chip)[1])]
    lines += ["", marked.table([head, *body], right=[1])]
    lines += ["", marked.table([["efficiency", "constants", "source", "line"], *constants])]
    return "\n".join([*lines, "", *(f"- {marked.cell(note)}" for note in chip["notes"]), "", LEGEND])
