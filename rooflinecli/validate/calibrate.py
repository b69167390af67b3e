"""What `roofline calibrate` buys on published families: fitted to a few random rows of one, scored on the rest, shipped beside calibrated."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from rooflinecli.calibrate.blocks import BLOCKS
from rooflinecli.calibrate.fit import SETTINGS, Posterior, Setting, fit
from rooflinecli.calibrate.question import Pricer, Question
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import RooflineError
from rooflinecli.specs import ask
from rooflinecli.validate import inference, wheel
from rooflinecli.validate import published as steps
from rooflinecli.validate.stats import Table

SEEDS, LEFT, MOST = 20, 2, 24  # draws, rows left to score at least, rows of a collected family at most
LIMIT = 0.10  # shipped error that divides families
WRONG = 4.0  # what a corrupted row is multiplied by
KS = {"train": (2, 3, 4, 6), "decode": (2, 4, 8), "ttft": (2, 4, 8), "prefill": (2, 4)}
KINDS = {"train": "training", "decode": "decode", "ttft": "first token under load", "prefill": "prompt alone"}


@dataclass
class Unit:
    """Rows of one family, chip and software; `seen`: they are of the first round, which most shipped constants were fitted to."""

    name: str
    questions: list[Question]
    seen: bool = True
    logs: Any = field(default=None)

    def shipped(self) -> Any:
        """ln(measured / shipped), a row each."""
        if self.logs is None:
            pricer = Pricer(self.questions)
            self.logs = measured(self.questions) - pricer.log_seconds(np.zeros((len(pricer.blocks), 1)))[:, 0]
        return self.logs


def measured(questions: Sequence[Question]) -> Any:
    return np.log([q.measured for q in questions])


@lru_cache(maxsize=4)
def units(phase: str) -> tuple[Unit, ...]:
    """Families of a phase that leave rows to score beside the fewest to fit."""
    found: dict[Any, Unit] = {}
    for name, question, seen in _training() if phase == "train" else _serving(phase):
        found.setdefault(name, Unit(name, [], seen)).questions.append(question)
    for unit in found.values():
        unit.questions = unit.questions[:: -(-len(unit.questions) // MOST)]
    return tuple(u for u in found.values() if len(u.questions) >= min(KS[phase]) + LEFT)


def _training() -> Iterable[tuple[str, Question, bool]]:
    for row in steps.timed():
        name = " ".join((steps.family(row), row["hardware"], row["plan"].get("software", "any")))
        yield name, Question(steps.scene(row), steps.plan(row), "train", row["step_s"]), steps.round_of(row) == 1


def _serving(phase: str) -> Iterable[tuple[str, Question, bool]]:
    runs = inference.published_runs() + (inference.collected_runs()[0] if wheel.installed() else [])
    for run in runs:
        name = " ".join((run.group, str(run.options["hw"]), run.engine))
        scene = Scene(ask.request(run.options))
        loaded = scene.request.concurrency is not None or scene.request.qps is not None
        for quantity, value in run.measured.items():
            what = _quantity(quantity, run.static, loaded)
            seconds = 1.0 / value if quantity == "throughput" else value
            question = Question(scene, run.plan, what, seconds)
            if question.phase == phase and _possible(question):
                yield f"{name} {what}" if what in ("static", "throughput") else name, question, True


def _quantity(quantity: str, static: bool, loaded: bool) -> str:
    if quantity == "throughput":
        return "static" if static else "throughput"
    return quantity if quantity == "itl" or loaded else "prefill"


def _possible(question: Question) -> bool:
    """Whether the row's load can be followed at all."""
    try:
        return bool(question.on(question.scene.chip) > 0)
    except RooflineError:
        return False


@dataclass
class Draw:
    """Median errors of one draw of rows on the rows left: shipped, calibrated, one factor for all; and the interval's account."""

    before: float
    after: float
    factor: float
    covered: float
    width: float
    moved: bool


def draws(unit: Unit, k: int, setting: Setting, seeds: int = SEEDS, corrupt: bool = False) -> list[Draw]:
    """Calibrate on k random rows of a family and score the others, once for each seed; all seeds are priced in one call."""
    orders = [np.random.default_rng([seed, k]).permutation(len(unit.questions)) for seed in range(seeds)]
    fits = []
    for order in orders:
        rows = [unit.questions[i] for i in order[:k]]
        fits.append(fit([wrong(rows[0]), *rows[1:]] if corrupt else rows, setting))
    x = np.stack([found.x if found.supported else 0 * found.x for found in fits], axis=1)
    residuals = measured(unit.questions)[:, None] - Pricer(unit.questions).log_seconds(x)
    return [_draw(unit, order[:k], order[k:], residuals[order[k:], s], fits[s]) for s, order in enumerate(orders)]


def _draw(unit: Unit, taken: Any, left: Any, residuals: Any, found: Posterior) -> Draw:
    """The account of one draw on the rows left; one factor is a mean shrunk towards none."""
    shipped, k, own, prior = unit.shipped(), len(taken), 0.15**-2, 0.2**-2
    factor = shipped[taken].sum() * own / (k * own + prior)
    inside = float((abs(residuals) <= np.log1p(found.error)).mean())
    return Draw(off(shipped[left]), off(residuals), off(shipped[left] - factor), inside, found.error, found.supported)


def wrong(q: Question) -> Question:
    """A row whose number is off."""
    return Question(q.scene, q.plan, q.quantity, q.measured * WRONG)


def off(residuals: Any) -> float:
    """Median |predicted / measured - 1| of logarithms of measured over predicted."""
    return float(np.median(np.abs(np.expm1(-residuals))))


def line(group: str, members: Sequence[Unit], k: int, setting: Setting, seeds: int = SEEDS) -> dict[str, Any]:
    """One row of a table: the mean over families of the mean over draws."""
    found = [draws(unit, k, setting, seeds) for unit in members]

    def mean(name: str) -> float:
        return float(np.mean([np.mean([getattr(d, name) for d in unit]) for unit in found]))

    every = [d for unit in found for d in unit]
    before, after = mean("before"), mean("after")
    return {
        "group": group,
        "rows": k,
        "families": len(members),
        "shipped": before,
        "calibrated": after,
        "change": after / before - 1,
        "one_factor": mean("factor"),
        "worse": float(np.mean([d.after > d.before + 0.01 for d in every])),
        "kept": float(np.mean([not d.moved for d in every])),
        "coverage": mean("covered"),
        "half_width": mean("width"),
    }


def tables(seeds: int = SEEDS) -> list[Table]:
    """What calibrating buys, by phase and number of rows; families above and below a shipped error of 10 % apart."""
    found = []
    for phase, ks in KS.items():
        rows = []
        for k in ks:
            enough = [u for u in units(phase) if len(u.questions) >= k + LEFT]
            for group, members in _divided(enough):
                if members:
                    rows.append(line(group, members, k, SETTINGS[phase], seeds))
        found.append(Table(f"calibrate: {KINDS[phase]}", rows, _notes(phase)))
    return [*found, _robust(seeds), _speed()]


def _divided(members: Sequence[Unit]) -> list[tuple[str, list[Unit]]]:
    unseen = [u for u in members if not u.seen]
    found = [
        ("above 10 %", [u for u in members if off(u.shipped()) > LIMIT]),
        ("at or below 10 %", [u for u in members if off(u.shipped()) <= LIMIT]),
    ]
    if unseen and len(unseen) < len(members):
        found += [
            ("above 10 %, later rounds", [u for u in unseen if off(u.shipped()) > LIMIT]),
            ("at or below 10 %, later rounds", [u for u in unseen if off(u.shipped()) <= LIMIT]),
        ]
    return found


def _notes(phase: str) -> list[str]:
    return [
        f"Mean over families of median errors on the rows left after a fit to `rows` random ones, {SEEDS} draws; a family is one group on one chip "
        "with one software. one_factor: all times by one shrunk factor; worse: draws worse than shipped by more than a point; kept: draws in which "
        "the evidence did not favour moving; half_width: of the 80 % interval, constant within the rows' range.",
        *([] if wheel.installed() or phase == "train" else [f"Collected serving runs need the wheel: {wheel.PIP}."]),
    ]


def _robust(seeds: int) -> Table:
    """One of six rows wrong by WRONG: what it costs."""
    rows = []
    for phase in ("train", "decode"):
        members = [u for u in units(phase) if len(u.questions) >= 6 + LEFT]
        clean, bad = (
            float(np.mean([np.mean([d.after for d in draws(u, 6, SETTINGS[phase], seeds, c)]) for u in members]))
            for c in (False, True)
        )
        rows.append(
            {"group": KINDS[phase], "families": len(members), "clean": clean, "corrupted": bad, "cost": bad - clean}
        )
    return Table("calibrate: one of six rows wrong by four", rows, [])


def _speed() -> Table:
    """Seconds that a fit of 500 rows takes."""
    rows = []
    for phase in ("train", "decode"):
        pool = [q for u in units(phase) for q in u.questions]
        many = [pool[i % len(pool)] for i in range(500)]
        start = time.perf_counter()
        fit(many)
        rows.append(
            {
                "group": KINDS[phase],
                "rows": len(many),
                "blocks": len(BLOCKS[phase]),
                "seconds": time.perf_counter() - start,
            }
        )
    return Table("calibrate: speed", rows, [])
