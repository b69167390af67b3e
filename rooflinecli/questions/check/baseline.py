"""What moved since the last accepted plan: a saved report against a new one, beyond a tolerance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.specs.name_lookup import display_path

SCHEMA = "roofline/check/1"


def load(path: Path) -> dict[str, Any]:
    """A report saved by --write-baseline or --format json. Raises DataError when it is none."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such baseline; `roofline check … --write-baseline {path}` makes it") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable baseline") from None
    except RecursionError:
        raise DataError(
            f"{display_path(path)}:1: nested too deeply to be a report; write it anew with --write-baseline"
        ) from None
    except ValueError as error:
        raise DataError(
            f"{display_path(path)}:{getattr(error, 'lineno', 1)}: not valid JSON; write it anew with --write-baseline"
        ) from None
    try:
        _index(report)
    except (KeyError, TypeError, AttributeError):
        raise DataError(
            f"{display_path(path)}:1: not a report of `roofline check` ({SCHEMA}); write it anew with --write-baseline"
        ) from None
    return dict(report)


def moved(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    """Verdicts, plans and quantities that changed, and checks that came or went, in the order of the new report."""
    before, now = _index(old), _index(new)
    found = []
    for name, check in now.items():
        if name not in before:
            found.append(_change(name, "check", None, check["verdict"]))
            continue
        found += [_change(name, what, was, is_) for what, was, is_ in _words(before[name], check) if was != is_]
        found += _numbers(name, before[name], check, tolerance)
    return found + [_change(name, "check", check["verdict"], None) for name, check in before.items() if name not in now]


def _index(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if report["schema"] != SCHEMA:
        raise KeyError(report["schema"])
    for check in report["checks"]:
        check["verdict"], check["layout"], [(r["quantity"], r["expected"]) for r in check["requirements"]]
    return {f"{check['file']}: {check['name']}": check for check in report["checks"]}


def _words(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [("verdict", old["verdict"], new["verdict"]), ("layout", old["layout"], new["layout"])]


def _numbers(name: str, old: dict[str, Any], new: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    before = {r["quantity"]: r for r in old["requirements"]}
    found = []
    for row in new["requirements"]:
        was = before.get(row["quantity"])
        if was is None or was["expected"] == row["expected"]:
            continue
        change = relative(was["expected"], row["expected"])
        if change is None or abs(change) > tolerance:
            found.append(_change(name, row["quantity"], was["expected"], row["expected"], row["unit"], change))
    return found


def relative(old: Any, new: Any) -> float | None:
    """The change as a share of the old value; None when there is no such share."""
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (old, new))
    return float((new - old) / abs(old)) if numbers and old else None


def _change(name: str, what: str, old: Any, new: Any, unit: str = "", change: float | None = None) -> dict[str, Any]:
    return {"check": name, "what": what, "before": old, "now": new, "unit": unit, "change": change}
