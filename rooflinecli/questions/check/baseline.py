"""What changed since the last accepted plan: a saved report against a new one, beyond a tolerance."""

from __future__ import annotations

import json
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.questions.check.question import INCONCLUSIVE, CaseAnswer, Change, CheckAnswer, Sizes, Value
from rooflinecli.specs.name_lookup import display_path

SCHEMAS = ("roofline/check/2", "roofline/check/1")


@dataclass(frozen=True)
class SavedCase:
    """What a saved report says of a case: its verdict, its layouts and the expected value of every requirement."""

    verdict: str
    layout: dict[str, Sizes]
    expected: dict[str, Value]


def load(path: Path) -> dict[str, SavedCase]:
    """The cases of a report saved by --write-baseline or --format json, by file and name. Raises DataError for anything else."""
    at = f"{display_path(path)}:1"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["schema"] in SCHEMAS:
            return {
                f"{case['file']}: {case['name']}": SavedCase(
                    INCONCLUSIVE if case["verdict"] == "unsure" else case["verdict"],
                    case["layout"],
                    {row["quantity"]: row["expected"] for row in case["requirements"]},
                )
                for case in report["checks"]
            }
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such baseline; create it with `roofline check … --write-baseline {path}`"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable baseline") from None
    except RecursionError:
        raise DataError(f"{at}: not a valid report (nesting too deep); recreate it with --write-baseline") from None
    except (KeyError, TypeError, AttributeError):
        pass
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{display_path(path)}:{line}: not valid JSON; recreate it with --write-baseline") from None
    raise DataError(f"{at}: not a report of `roofline check` ({SCHEMAS[0]}); recreate it with --write-baseline")


def changes(before: dict[str, SavedCase], answer: CheckAnswer, tolerance: float) -> list[Change]:
    """Verdicts, layouts and quantities that changed, and checks that were added or removed, in the order of the answer."""
    found: list[Change] = []
    now = {f"{case.file}: {case.name}": case for case in answer.checks}
    for name, case in now.items():
        old = before.get(name)
        if old is None:
            found.append(Change(check=name, what="check", before=None, now=case.verdict))
            continue
        if old.verdict != case.verdict:
            found.append(Change(check=name, what="verdict", before=old.verdict, now=case.verdict))
        if old.layout != case.layout:
            found.append(Change(check=name, what="layout", before=old.layout, now=case.layout))
        found += _quantities(name, old, case, tolerance)
    removed = (name for name in before if name not in now)
    return found + [Change(check=name, what="check", before=before[name].verdict, now=None) for name in removed]


def _quantities(name: str, old: SavedCase, case: CaseAnswer, tolerance: float) -> list[Change]:
    found = []
    for row in case.requirements:
        before = old.expected.get(row.quantity, row.expected)
        if before == row.expected:
            continue
        change = relative(before, row.expected)
        if change is None or abs(change) > tolerance:
            found.append(
                Change(check=name, what=row.quantity, before=before, now=row.expected, unit=row.unit, change=change)
            )
    return found


def relative(old: Value, new: Value) -> float | None:
    """The change as a fraction of the old value; None when there is none."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old and not isinstance(old, bool):
        return float((new - old) / abs(old))
    return None
