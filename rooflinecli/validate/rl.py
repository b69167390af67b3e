"""Published steps of RL post-training (published_runs/rl.yaml) and their predictions: each family of models by constants fitted
without it, other sizes after one logged step, the order of modes, and a whole run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from rooflinecli.questions.rl.answer import PUBLISHED, Composed, Constants, compose, published_for, scaled_by
from rooflinecli.questions.rl.parts import Part
from rooflinecli.questions.rl.question import Rl
from rooflinecli.specs.snapshots import excluded, published
from rooflinecli.validate.stats import Points, Row, Table, error_table, notes


def rows(kind: str) -> list[Row]:
    """Rows of a set: fit, size, modes or run."""
    return [row for row in published("rl")["rows"] if row["set"] == kind]


_COMPOSED: dict[str, Composed] = {}


def composed(row: Row) -> Composed:
    """The parts of a row, computed once."""
    if row["id"] not in _COMPOSED:
        _COMPOSED[row["id"]] = compose(Rl(**row["question"]))
    return _COMPOSED[row["id"]]


def point(row: Row, constants: Constants) -> tuple[float, ...]:
    """Measured, expected, floor, and ends of the interval of a step."""
    step = composed(row).step(constants)[1]
    return (row["step_s"], step.time_s, step.floor_s, *step.interval_s)


def constants_without(name: str) -> Constants:
    """The published constants fitted to the other families of models, or for one of verl's modes to its others (`python -m lab.left_out`)."""
    return replace(PUBLISHED, **published("left_out")["rl"][name])


def left_out() -> list[Points]:
    """A family of models each, predicted by constants that were fitted to the others."""
    families: dict[str, list[Row]] = defaultdict(list)
    for row in rows("fit"):
        families[row["group"]].append(row)
    return [
        Points.of(family, [point(row, constants_without(family)) for row in members])
        for family, members in families.items()
    ]


def after_one_step() -> list[Points]:
    """Steps of other sizes of a framework, model and chip in the same mode, by constants that the first of them fixes."""
    sizes: dict[str, list[Row]] = defaultdict(list)
    for row in rows("size"):
        sizes[row["group"]].append(row)
    for row in rows("fit"):
        asked = row["question"]
        mode = "split" if "rollout_devices" in asked else "colocated"
        sizes[f"{asked['model']} {asked['hw']} {mode} {asked['dtype']}"].append(row)
    found = []
    for group, members in sizes.items():
        first, *others = sorted(members, key=lambda row: row["question"]["n"])
        constants = calibrated(first)
        others = [row for row in others if row["question"]["n"] != first["question"]["n"]]
        if others:
            found.append(Points.of(group, [point(row, constants) for row in others]))
    return found


def calibrated(row: Row) -> Constants:
    """Constants that the step of a row fixes, as a log of its whole does."""
    return scaled_by(PUBLISHED, *composed(row).step(PUBLISHED), row["step_s"])


def modes() -> Table:
    """Modes of verl's trainer in the order measured, each by constants fitted to the others; the lengths are those that its page states."""
    lines = []
    for row in sorted(rows("modes"), key=lambda row: -row["step_s"]):
        expected, measured = mode_left_out(row).time_s, row["step_s"]
        seconds = {"expected_s": f"{expected:.0f}", "measured_s": f"{measured:.0f}"}
        lines.append({"group": row["id"], **seconds, "off": expected / measured - 1})
    return Table("rl: order of verl's modes", lines, notes("rl modes"))


def mode_left_out(row: Row) -> Part:
    """The step of one of verl's modes by constants fitted to its other modes."""
    return composed(row).step(constants_without(row["id"]))[1]


def run_minutes(row: Row) -> tuple[float, float, float]:
    """(expected, low, high) minutes of the steps of a run and of its validation, which is a further rollout."""
    parts, step = composed(row).step(published_for(composed(row).question))
    rollout = next(part for part in parts if part.name == "rollout")
    further = row["validation_samples"] / composed(row).question.sequences
    times = zip((step.time_s, *step.interval_s), (rollout.time_s, *rollout.interval_s), strict=True)
    expected, low, high = ((row["steps"] * whole + further * alone) / 60 for whole, alone in times)
    return expected, low, high


def whole_runs() -> Table:
    """MLPerf's GRPO reference: steps until its first validation."""
    lines = []
    for row in rows("run"):
        expected, low, high = run_minutes(row)
        lines.append({
            "group": row["id"],
            "expected_minutes": f"{expected:.0f} ({low:.0f} to {high:.0f})",
            "published_minutes": "{} to {}".format(*row["run_minutes"]),
        })  # fmt: skip
    return Table("rl: MLPerf's GRPO reference", lines, notes("rl run"))


def tables() -> list[Table]:
    """Left-out families, other sizes after one logged step, modes, whole runs."""
    first = error_table(
        "rl: seconds per step, each family left out of the fit", left_out(), excluded("rl") + notes("rl")
    )
    second = error_table("rl: other sizes after one logged step", after_one_step(), notes("rl size"))
    return [first, second, modes(), whole_runs()]
