"""Options that would shorten a step of RL post-training, each tried on its own."""

from __future__ import annotations

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.questions.rl.answer import DEVICES, compose
from rooflinecli.questions.rl.answer_types import Change
from rooflinecli.questions.rl.constants import Constants
from rooflinecli.questions.rl.question import Rl


def changes(question: Rl, constants: Constants, time_s: float) -> list[Change]:
    """Changes that save time and fit, the most first."""
    found = []
    for options, asked in _tried(question):
        try:
            composed = compose(asked)
        except (Infeasible, UsageError):
            continue
        step = composed.step(constants)[1]
        if composed.memory.fits and step.time_s < time_s:
            found.append(Change(options=options, time_s=step.time_s, saved_fraction=1 - step.time_s / time_s))
    return sorted(found, key=lambda change: change.time_s)


def _tried(question: Rl) -> list[tuple[str, Rl]]:
    """Modes, engine sizes, a narrower rollout and twice the devices, as options and as questions."""
    devices = int(question.n or DEVICES)
    found: list[dict[str, object]] = []
    if not question.staleness:
        if question.rollout_devices is None:
            found.append({"staleness": 1})
            found += [
                {"rollout_devices": share, "staleness": 1, "partial_rollout": True}
                for share in (devices // 2, devices * 3 // 4)
                if 0 < share < devices
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
    return [(_text(written), base.replace(**written)) for written in found]


def _text(written: dict[str, object]) -> str:
    fields = Rl.fields()
    return " ".join(word for name, value in written.items() for word in fields[name].words(value))
