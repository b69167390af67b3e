"""Variants of a step of RL post-training: its layouts, ranked by the pessimistic bound of the step, and options that would shorten it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.questions.rl.answer import DEVICES, Constants, compose, too_large
from rooflinecli.questions.rl.answer_types import LayoutCandidate, TriedOptions
from rooflinecli.questions.rl.question import Rl

TRAINER_TP, TRAINER_PP = (1, 2, 4, 8), (1, 2, 4, 8)  # tried where the fastest trainer does not fit next to the rollout


def search(
    question: Rl, constants: Constants, done: Callable[[int, int], None]
) -> tuple[Rl, list[LayoutCandidate], str]:
    """The question of the best layout, every layout that fits, best first, and what an interruption left out. What the question gives is kept.

    Sides share all devices, or are split by eighths; a rollout engine is of each power of two that holds the model. The trainer's sizes
    are the fastest of an estimate, and where those do not fit with the rollout, the fastest that do. Raises Infeasible where nothing fits.
    """
    devices = int(question.n or DEVICES)
    found: dict[tuple[object, ...], tuple[Rl, LayoutCandidate]] = {}
    reason, stopped, every = "no layout fits", "", _layouts(question, devices)
    too_large(question.replace(search=None), devices)
    for i, asked in enumerate(every):
        done(min(i, 1), len(every))
        try:
            asked, candidate = _fitting(asked, constants, devices)
        except (Infeasible, UsageError) as error:
            reason = str(error)
            continue
        except KeyboardInterrupt:
            if not found:
                raise
            stopped = f"interrupted: {i} of {len(every)} layouts were tried"
            break
        if candidate is not None:
            key = (candidate.rollout_devices, candidate.rollout_tp, candidate.staleness)
            found.setdefault(key, (asked, candidate))
    if not found:
        raise Infeasible(reason)
    ranked = sorted(found.values(), key=lambda pair: (pair[1].interval_s[1], pair[1].time_s))
    best = ranked[0][1]
    for _, candidate in ranked[1:]:
        candidate.tie = candidate.interval_s[0] <= best.time_s and candidate.time_s <= best.time_s * 1.05
    return ranked[0][0], [candidate for _, candidate in ranked], stopped


def _layouts(question: Rl, devices: int) -> list[Rl]:
    """The question with every split, engine size and staleness that it leaves open."""
    splits: list[int | None] = [question.rollout_devices] if question.rollout_devices else [None]
    if not question.rollout_devices and devices > 1:
        splits += sorted({max(devices * eighths // 8, 1) for eighths in range(1, 8)})
    sizes = (
        [question.rollout_tp]
        if question.rollout_tp
        else [1 << i for i in range(devices.bit_length()) if 1 << i <= min(devices, 64)]
    )
    own, base = question.is_given(Rl.staleness), question.replace(n=devices, search=None)
    pairs = [(split, size) for split in splits for size in sizes if size <= (split or devices)]
    late = {split: question.staleness if own or split is None else 1 for split in splits}
    return [base.replace(rollout_devices=split, rollout_tp=size, staleness=late[split]) for split, size in pairs]


def _fitting(question: Rl, constants: Constants, devices: int) -> tuple[Rl, LayoutCandidate | None]:
    """The question with a trainer's layout that fits next to its rollout, and the step; (question, None) without any."""
    given = question.is_given(Rl.tp) or question.is_given(Rl.pp)
    others = () if given else (question.replace(tp=tp, pp=pp) for tp, pp in product(TRAINER_TP, TRAINER_PP))
    fitting, reason = list[tuple[Rl, LayoutCandidate]](), None
    for asked in (question, *others):
        try:
            found = _candidate(asked, constants, devices)
        except (Infeasible, UsageError) as error:
            if asked is question and isinstance(error, UsageError):
                raise
            reason = error if asked is question else reason
            continue
        if found is not None and asked is question:
            return question, found
        if found is not None:
            fitting.append((asked, found))
    if not fitting and reason is not None:
        raise reason
    return min(fitting, key=lambda pair: pair[1].interval_s[1], default=(question, None))


def _candidate(question: Rl, constants: Constants, devices: int) -> LayoutCandidate | None:
    """The layout of a question with its step; None where the roles do not fit."""
    composed = compose(question)
    if not composed.memory.fits:
        return None
    _, step = composed.step(constants)
    layout, engine = composed.update.answer.layout_of_phase, composed.rollout.engine
    price = engine.ctx.price
    return LayoutCandidate.like(
        layout, rollout_devices=question.rollout_devices, trainer_devices=layout.devices, rollout_tp=int(engine.layout.tp),
        staleness=question.staleness, time_s=step.time_s, interval_s=step.interval_s,
        usd=None if price is None else step.time_s / 3600 * devices * float(price),
    )  # fmt: skip


def changes(question: Rl, constants: Constants, time_s: float, done: Callable[[int, int], None]) -> list[TriedOptions]:
    """Changes that save time and fit, the most first; `done` hears of each."""
    found, every = [], _tried(question)
    floored = constants.of(compose(question).rollout.part) < 1  # a floor counts where a part may be shorter
    for i, (options, asked) in enumerate(every):
        done(min(i, 1), len(every))
        try:
            composed = compose(asked, floored)
        except (Infeasible, UsageError):
            continue
        step = composed.step(constants)[1]
        if composed.memory.fits and step.time_s < time_s:
            saved = 1 - step.time_s / time_s
            found.append(TriedOptions(options=options, time_s=step.time_s, saved_fraction=saved))
    return sorted(found, key=lambda change: change.time_s)


def _tried(question: Rl) -> list[tuple[str, Rl]]:
    """Modes, engine sizes, a narrower rollout and twice the devices, as options and as questions."""
    devices = int(question.n or DEVICES)
    found: list[dict[str, object]] = []
    if not question.staleness:
        if question.rollout_devices is None:
            found.append({"staleness": 1})
            shares = [share for share in (devices // 2, devices * 3 // 4) if 0 < share < devices]
            found += [
                {"rollout_devices": share, "staleness": 1, **cut}
                for share in shares
                for cut in ({}, {"partial_rollout": True})
            ]
        else:
            found += [{"staleness": 1}, {"staleness": 1, "partial_rollout": True}]
    engine = compose(question).rollout.engine
    size = int(engine.layout.tp)
    found += [{"rollout_tp": other} for other in (size // 2, size * 2) if other >= 1]
    if (
        float(engine.ctx.chip.peak("fp8") if "fp8" in engine.ctx.request.hardware.peak else 0.0)
        and engine.ctx.dtype != "fp8"
    ):
        found.append({"rollout_dtype": "fp8"})
    doubled: dict[str, object] = {"n": 2 * devices}
    if question.rollout_devices:
        doubled["rollout_devices"] = 2 * question.rollout_devices
    found.append(doubled)
    base = question.replace(n=devices, changes=None, log=None)
    fields = Rl.fields()
    return [
        (
            " ".join(word for name, value in written.items() for word in fields[name].words(value)),
            base.replace(**written),
        )
        for written in found
    ]
