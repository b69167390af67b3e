"""A check report for a terminal."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.views import check as words

# columns go in this order where there is no room for all
_DROP = ("at expected", "interval", "margin")
_HEAD = ("", "quantity", "value", "required", "margin", "interval", "at expected")


def render(report: dict[str, Any], width: int = PIPE) -> str:
    lines: list[str] = []
    for check in report["checks"]:
        lines += [*_check(check, width), ""]
    changes = report.get("moved")
    if changes is not None:
        said = f"{len(changes)} moved beyond {report['tolerance']:.3g} since the baseline" + (":" if changes else "")
        lines += [
            *terminal.prose(said, width),
            *(line for c in changes for line in _under(words.moved(c), width, 2)),
            "",
        ]
    return "\n".join([*lines, *terminal.prose(words.summary(report), width)])


def _check(check: dict[str, Any], width: int) -> list[str]:
    where = f"({check['file']}:{check['line']})"
    tightest = f"  tightest: {check['binding']}" if check["binding"] and len(check["requirements"]) > 1 else ""
    title = f"{check['verdict'].upper():<7} {check['name']}  {words.subject(check)}  {where}{tightest}"
    lines = terminal.prose(title, width, " " * 8)
    lines += _under(" ".join(check["description"].split()), width, 8) if check["description"] else []
    grid = [_HEAD, *map(_cells, check["requirements"])]
    made = terminal.fit(grid, width, left=range(7), drop=_DROP, shrink={"quantity": 20}, indent="  ", headed=False)
    for row, cells in zip(check["requirements"], grid[1:], strict=True):
        lines.append(made.line(cells))
        why = [w for w in (row["reason"], row["bound"] if row["verdict"] != "pass" else "") if w]
        lines += [line for w in why for line in _under(w, width, 10)]
    way_out = words.remedy(check)
    return [*lines, *(_under(way_out, width, 2) if way_out else []), *made.note(width)]


def _cells(row: dict[str, Any]) -> list[str]:
    value = words.number(row["value"], row["unit"])
    return [
        row["verdict"],
        row["quantity"],
        value,
        row["written"],
        words.headroom_text(row),
        words.ends(row),
        words.at_expected(row),
    ]


def _under(text: str, width: int, indent: int) -> list[str]:
    """A sentence about the line above, set in."""
    return [" " * indent + line for line in terminal.prose(text, width - indent)]
