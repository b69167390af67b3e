"""A trace next to the estimate: a row per operation, expected against measured, and what no operation explains."""

from __future__ import annotations

from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, pairs, table, tag

SHOWN = 20  # rows of the table, the longest first
SUMS = {
    "steps": "steps in the trace",
    "kernels_s": "kernels of a step",
    "expected_s": "expected",
    "floor_s": "floor",
    "wall_s": "wall clock of a step",
    "gaps_s": "nothing running",
    "exposed_communication_s": "communication alone",
}


def section(figures: EmbeddedFigures) -> EscapedHtml:
    """Sums of a step, then its operations."""
    found = figures.data["profile"]
    entries = [
        (label, figures(f"profile.{name}", _count(name, found))) for name, label in SUMS.items() if name in found
    ]
    left = found["unexplained"]
    share = figures("profile.unexplained.share", f"{left['share']:.0%}")
    entries.append(("explained by no operation", join(figures("profile.unexplained.time_s"), " (", share, ")")))
    body = [_row(figures, i) for i in range(min(len(found["rows"]), SHOWN))]
    head = ["operation", "expected", "measured", "measured / expected", "floor", "longest kernel"]
    unknown = tag("p", "Not explained: ", ", ".join(left["kernels"]), ".") if left["kernels"] else None
    return join(pairs(entries), table("Operations against the trace", head, body), unknown)


def _count(name: str, found: dict[str, float]) -> str | None:
    return f"{found[name]:g}" if name == "steps" else None


def _row(figures: EmbeddedFigures, i: int) -> list[EscapedHtml | str]:
    row, path = figures.data["profile"]["rows"][i], f"profile.rows.{i}"
    ratio = figures(f"{path}.ratio", f"{row['ratio']:.2f}x") if row["ratio"] is not None else "-"
    times = [figures(f"{path}.{name}_s") for name in ("expected", "measured")]
    kernel = row["kernels"][0] if row["kernels"] else "-"
    return [", ".join(row["operations"]), *times, ratio, figures(f"{path}.floor_s"), kernel]
