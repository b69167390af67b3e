"""What every format of a check says in the same words: numbers, one sentence per requirement, per check and per report."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import units

Row = dict[str, Any]


def number(value: Any, unit: str) -> str:
    """A value for people, in the unit its quantity is in."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if unit == "USD" or unit == "USD/h":
        return (
            f"{units.count(value)} {unit}"
            if abs(value) >= 1e6
            else f"{value:,.2f} {unit}"
            if abs(value) >= 0.01
            else f"{value:.3g} {unit}"
        )
    if unit == "fraction":
        return f"{100 * value:.1f} %"
    return units.count(value) if unit in ("count", "") else units.si(value, unit)


def headroom_text(row: Row) -> str:
    """The margin in words: what is left, or by how much the limit is missed."""
    margin, limit = row["margin"], row["limit"]
    if margin is None:
        return ""
    size = (
        f"{100 * abs(margin * limit):.1f} points"
        if row["unit"] == "fraction"
        else f"{abs(margin):.1%}"
        if abs(margin) < 10
        else f"{abs(margin):,.0f}x"
    )
    return f"{size} to spare" if margin >= 0 else f"misses by {size}"


def ends(row: Row) -> str:
    """The interval and the expected value, for a quantity that has them."""
    if row["interval"] is None:
        return ""
    low, high = (number(v, row["unit"]) for v in row["interval"])
    return f"{low} .. {high}, expected {number(row['expected'], row['unit'])}"


def at_expected(row: Row) -> str:
    """How the verdict would change were the expected value held; empty when it would not."""
    changes = row["held"] != "expected" and row["verdict_at_expected"] != row["verdict"]
    return f"{row['verdict_at_expected']} at expected" if changes else ""


def sentence(check: Row, row: Row) -> str:
    """One requirement in full, for an annotation: verdict, value, limit, margin, why, and the way out."""
    if row["implied"]:
        head = f"{check['name']}: the plan does not fit"
    else:
        end = f" at the {row['held']} end" if row["interval"] is not None else ""
        head = (
            f"{check['name']}: {row['quantity']} is {number(row['value'], row['unit'])}{end}, required {row['written']}"
        )
    details = [d for d in (headroom_text(row), ends(row), at_expected(row)) if d]
    parts = [head + (f" ({'; '.join(details)})" if details else ""), row["reason"]]
    if row["verdict"] != "pass":
        parts += [row["bound"], remedy(check)]
    return ". ".join(p for p in parts if p)


def remedy(check: Row) -> str:
    """The nearest changes that pass, in one line; empty for a check that passes."""
    found = check["remedies"]
    if check["verdict"] == "pass":
        return ""
    if found is None:
        return "no change was sought; a larger --fix-budget does"
    if not found:
        return "no change found that passes (layout, formats, batch, up to 16x the devices, and pairs of them)"
    return "passes with " + "; or ".join(_remedy(r) for r in found)


def _remedy(found: Row) -> str:
    values = ", ".join(f"{v['quantity']} {number(v['value'], v['unit'])}" for v in found["values"])
    return f"{found['text']} ({values})" if values else str(found["text"])


def subject(check: Row) -> str:
    """Model, hardware and layout in a few words."""
    if check["model"] is None:
        return str(check["problem"])
    layouts = list(check["layout"].values())
    plan = layouts[0] if all(p == layouts[0] for p in layouts) else None
    sizes = (
        ""
        if plan is None
        else ", " + ", ".join(f"{k} {plan[k]}" for k in ("tp", "pp", "dp", "cp", "ep") if plan[k] > 1 or k == "tp")
    )
    count = f"{plan['devices']} x " if plan else ""
    return f"{check['model']} on {count}{check['hardware']}{sizes}"


def findings(report: Row) -> list[tuple[Row, Row]]:
    """(check, requirement) of everything that did not pass; a check without an estimate stands for itself."""
    found = []
    for check in report["checks"]:
        found += [(check, row) for row in check["requirements"] if row["verdict"] != "pass"]
        if not check["requirements"]:
            found.append((check, no_fix_text(check)))
    return found


def no_fix_text(check: Row) -> Row:
    """The one finding of a check that no device count holds."""
    return {
        "quantity": "feasible",
        "file": check["file"],
        "line": check["line"],
        "written": "true",
        "limit": True,
        "unit": "",
        "value": False,
        "held": "expected",
        "expected": False,
        "interval": None,
        "verdict": "fail",
        "verdict_at_expected": "fail",
        "margin": None,
        "bound": "",
        "reason": check["problem"],
        "implied": True,
    }


def summary(report: Row) -> str:
    counts = report["summary"]
    said = ", ".join(f"{counts[v]} {v}" for v in ("pass", "fail", "unsure") if counts[v] or v == "pass")
    outcome = "the plan holds" if report["holds"] else "the plan does not hold"
    ends = " and ".join(dict.fromkeys(check["hold"] for check in report["checks"]))
    return f"{counts['checks']} check{'s' if counts['checks'] != 1 else ''}: {said}; {outcome}, held at the {ends} end"


def moved(change: Row) -> str:
    """One line on what moved since the baseline."""
    if change["what"] == "check":
        return f"{change['check']}: {'new' if change['before'] is None else 'gone'}"
    if change["what"] == "layout":
        return f"{change['check']}: layout {_layout(change['before'])} -> {_layout(change['now'])}"
    share = f" ({change['change']:+.1%})" if change["change"] is not None else ""
    return f"{change['check']}: {change['what']} {number(change['before'], change['unit'])} -> {number(change['now'], change['unit'])}{share}"


def _layout(layout: Row) -> str:
    return (
        ", ".join(f"{phase} n {p['devices']} tp {p['tp']} pp {p['pp']} dp {p['dp']}" for phase, p in layout.items())
        or "none"
    )


def level(report: Row, verdict: str) -> str:
    """error or warning, for formats that know the two."""
    return "warning" if verdict == "unsure" and report["unsure"] == "warn" else "error"
