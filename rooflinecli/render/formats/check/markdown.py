"""A check report as Markdown, for a job summary or a pull request."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats.markdown import cell
from rooflinecli.render.views import check as words

_MARK = {"pass": "✅ pass", "fail": "❌ fail", "unsure": "⚠️ unsure"}


def render(report: dict[str, Any]) -> str:
    lines = [
        f"### roofline check: {words.summary(report)}",
        "",
        "| verdict | check | quantity | value | required | margin | interval | at expected | where |",
        "|---|---|---|---:|---:|---|---|---|---|",
    ]
    for check in report["checks"]:
        lines += [_row(check, row) for row in check["requirements"] or [words.no_fix_text(check)]]
    missed = [c for c in report["checks"] if c["verdict"] != "pass"]
    if missed:
        lines += ["", "**What would pass**", "", *(f"- {cell(c['name'])}: {cell(_way_out(c))}" for c in missed)]
    changes = report.get("moved")
    if changes is not None:
        lines += [
            "",
            f"**Moved since the baseline** (beyond {report['tolerance']:.1%})",
            "",
            *([f"- {cell(words.moved(c))}" for c in changes] or ["- nothing"]),
        ]
    return "\n".join(lines)


def _row(check: dict[str, Any], row: dict[str, Any]) -> str:
    cells = [
        _MARK[row["verdict"]],
        check["name"],
        f"`{row['quantity']}`",
        words.number(row["value"], row["unit"]),
        row["written"],
        words.headroom_text(row) or row["reason"],
        words.ends(row),
        row["verdict_at_expected"],
        f"{row['file']}:{row['line']}",
    ]
    return f"| {' | '.join(cell(c) for c in cells)} |"


def _way_out(check: dict[str, Any]) -> str:
    return words.remedy(check) or check["problem"]
