"""Worth of `roofline calibrate` on published families: fitted to a few rows of one, scored on the rest, against the constants it began with.

Those constants were refitted without the family (lab.leave_one_family_out), so that every family is one that they never saw.
`python -m lab.calibration_study` (minutes).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lab.calibration_families import Family, families
from lab.fit import Array
from lab.show import show
from rooflinecli.calibrate.phase_fit import fit, local, relative_gap, solve_all, with_share
from rooflinecli.calibrate.posterior import BLOCKS, SETTINGS, Posterior, PriorSettings
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.stats import Table

SEEDS, LEFT = 20, 2  # draws, and rows left to score at least
LIMIT = 0.10  # error before that divides families
SIX, WRONG = 6, 4.0  # rows of which one is corrupted, and what it is multiplied by
KS = {"train": (2, 3, 4, 6, 8), "decode": (2, 4, 8), "ttft": (2, 4, 8), "prefill": (2, 4)}
KINDS = {"train": "training", "decode": "decode", "ttft": "first token under load", "prefill": "prompt alone"}
BEYOND = {"train": ("devices", "seq", "parameters"), "decode": ("devices", "batch", "prompt")}


@dataclass(frozen=True)
class Draw:
    """Rows taken to fit and rows left to score (indices); `wrong`: the first of those taken is off by WRONG."""

    what: str
    taken: Array
    left: Array
    wrong: bool = False


@dataclass(frozen=True)
class Score:
    """Median errors on the rows left: before, calibrated, with one shrunk factor for all, with a bare one; and the interval's account."""

    before: float
    after: float
    factor: float
    bare: float
    covered: float
    width: float
    moved: bool


def draws(phase: str, rows: int, seeds: int = SEEDS) -> list[Draw]:
    """Random rows of each number, and six of which one is wrong."""
    found = []
    for k in dict.fromkeys((*KS[phase], *([SIX] if phase in BEYOND else ()))):
        for seed in range(seeds if rows >= k + LEFT else 0):
            order = np.random.default_rng([seed, k]).permutation(rows)
            found.append(Draw(f"{k}", order[:k], order[k:]))
            if k == SIX:
                found.append(Draw("corrupted", order[:k], order[k:], wrong=True))
    return found


def beyond(phase: str, family: Family) -> list[Draw]:
    """Fits to the smaller half of a family by one size, scored on the rows that are larger."""
    found = []
    for name in BEYOND.get(phase, ()):
        size = family.sizes[name]
        small = size <= np.median(size) if (size > np.median(size)).any() else size < size.max()
        if min(small.sum(), (~small).sum()) >= LEFT:
            found.append(Draw(name, np.flatnonzero(small), np.flatnonzero(~small)))
    return found


def scores(family: Family, asked: Sequence[Draw], setting: PriorSettings) -> list[Score]:
    """Calibrate on each draw and score it; all draws are priced in the same calls."""
    masks = np.zeros((len(asked), len(family.rows)), dtype=bool)
    logs = np.repeat(family.measured[None], len(asked), axis=0)
    for i, draw in enumerate(asked):
        masks[i, draw.taken] = True
        logs[i, draw.taken[0]] += np.log(WRONG) * draw.wrong
    fits = [
        with_share(found, family.places[mask])
        for mask, found in zip(masks, solve_all(family.predictor, logs, setting, masks), strict=True)
    ]
    x = np.stack([found.taken for found in fits], axis=1)
    near = [
        local(family.places[mask], found, range(int(mask.sum()))).shift(family.places)
        for mask, found in zip(masks, fits, strict=True)
    ]
    residuals = family.measured[:, None] - family.predictor.log_seconds(x, np.stack(near, axis=1))
    return [_score(family, draw, residuals[draw.left, i], fits[i]) for i, draw in enumerate(asked)]


def _score(family: Family, draw: Draw, after: Any, found: Posterior) -> Score:
    """The account of one draw on the rows left; one factor is a mean shrunk toward none, a bare one is not shrunk."""
    left, own, prior = family.shipped[draw.left], 0.15**-2, 0.2**-2
    ratio = found.before.mean()
    shrunk = ratio * len(draw.taken) * own / (len(draw.taken) * own + prior)
    inside = float((abs(after) <= np.log1p(found.error)).mean())
    return Score(
        relative_gap(left),
        relative_gap(after),
        relative_gap(left - shrunk),
        relative_gap(left - ratio),
        inside,
        found.error,
        bool(found.taken.any()),
    )


@lru_cache(maxsize=8)
def account(phase: str, seeds: int = SEEDS) -> tuple[tuple[Family, dict[str, list[Score]]], ...]:
    """Every family of a phase with the scores of its draws, by what was drawn."""
    found = []
    for family in families(phase):
        asked, kept = [*draws(phase, len(family.rows), seeds), *beyond(phase, family)], dict[str, list[Score]]()
        for draw, score in zip(asked, scores(family, asked, SETTINGS[phase]) if asked else (), strict=True):
            kept.setdefault(draw.what, []).append(score)
        found.append((family, kept))
    return tuple(found)


def mean(members: Iterable[Sequence[Score]], name: str) -> float:
    """Mean over families of the mean over draws."""
    return float(np.mean([np.mean([getattr(s, name) for s in each]) for each in members]))


def line(group: str, what: str, members: Sequence[Sequence[Score]]) -> dict[str, Any]:
    """One row of a table, families alike."""
    every = [s for each in members for s in each]
    before, after = mean(members, "before"), mean(members, "after")
    return {
        "group": group,
        "rows": what,
        "families": len(members),
        "before": before,
        "calibrated": after,
        "change": after / before - 1,
        "one_factor": mean(members, "factor"),
        "worse": float(np.mean([s.after > s.before + 0.01 for s in every])),
        "kept": float(np.mean([not s.moved for s in every])),
        "coverage": mean(members, "covered"),
        "half_width": mean(members, "width"),
    }


def tables(seeds: int = SEEDS) -> list[Table]:
    """What calibrating buys, by phase and number of rows; families above and below an error of 10 % apart; beyond the rows; and its cost."""
    return [*(_bought(phase, seeds) for phase in KS), _beyond(seeds), _robust(seeds), _speed()]


def _bought(phase: str, seeds: int) -> Table:
    rows = []
    for k in KS[phase]:
        for group, wanted in (("above 10 %", _above), ("at or below 10 %", _below), ("all", lambda family: True)):
            members = [kept[f"{k}"] for family, kept in account(phase, seeds) if f"{k}" in kept and wanted(family)]
            if members:
                rows.append(line(group, f"{k}", members))
    return Table(f"calibrate: {KINDS[phase]}", rows, _notes(phase, seeds))


def _above(family: Family) -> bool:
    return relative_gap(family.shipped) > LIMIT


def _below(family: Family) -> bool:
    return not _above(family)


def _notes(phase: str, seeds: int) -> list[str]:
    return [
        f"Mean over families of median errors on the rows left after a fit to `rows` random ones, {seeds} draws; a family is one group on one chip "
        "with one software. before: with constants refitted without the family (serving: without its model, its queues as shipped). one_factor: all "
        "times by one shrunk factor; worse: draws worse than before by more than a point; kept: draws in which the evidence did not favor moving; "
        "half_width: of the new 80% interval.",
        *(
            []
            if aiconfigurator_tables.installed() or phase == "train"
            else [f"Collected serving runs need the wheel: {aiconfigurator_tables.PIP}."]
        ),
    ]


def _beyond(seeds: int) -> Table:
    """Fitted to the smaller half, scored on the larger."""
    rows = []
    for phase, names in BEYOND.items():
        for name in names:
            members = [kept[name] for _, kept in account(phase, seeds) if name in kept]
            if members:
                found = {n: mean(members, key) for n, key in (("before", "before"), ("calibrated", "after"))}
                shares = {"bare_factor": mean(members, "bare"), "coverage": mean(members, "covered")}
                rows.append({"group": KINDS[phase], "by": name, "families": len(members), **found, **shares})
    notes = [
        "Fitted to the half of a family that is smaller by one size, scored on the larger rows; bare_factor: all times by the mean ratio of the fitted rows; "
        "coverage: of the interval inside the rows' range, which an estimate beyond it widens to the shipped one where that is wider, with a warning."
    ]
    return Table("calibrate: beyond the rows", rows, notes)


def _robust(seeds: int) -> Table:
    """One of six rows wrong by WRONG: what it costs."""
    rows = []
    for phase in BEYOND:
        members = [kept for _, kept in account(phase, seeds) if "corrupted" in kept]
        if members:
            clean, bad = (mean([kept[what] for kept in members], "after") for what in (f"{SIX}", "corrupted"))
            about = {"group": KINDS[phase], "families": len(members)}
            rows.append({**about, "clean": clean, "corrupted": bad, "cost": bad - clean})
    return Table("calibrate: one of six rows wrong by four", rows, [])


def _speed(clock: Callable[[], float] = time.process_time) -> Table:
    """Seconds of one core that a fit of 500 rows takes."""
    rows = []
    for phase in ("train", "decode"):
        pool = [q for family in families(phase) for q in family.rows]
        many = [pool[i % len(pool)] for i in range(500)]
        start = clock()
        fit(many)
        rows.append(
            {"group": KINDS[phase], "rows": len(many), "blocks": len(BLOCKS[phase]), "seconds": clock() - start}
        )
    return Table("calibrate: speed", rows, [])


if __name__ == "__main__":
    show(tables())
