"""What no measured run supports: an answer outside what rows have shown says so."""

from __future__ import annotations

from rooflinecli import num
from rooflinecli.engine.phase_answer import PhaseAnswer, TrainAnswer
from rooflinecli.engine.scene import Scene
from rooflinecli.specs.published import published


def unsupported(scene: Scene, phases: dict[str, PhaseAnswer]) -> list[str]:
    """One sentence for every answer beyond published runs."""
    train = phases.get("train")
    if train is None or scene.chip.ideal:
        return []
    return [*_new(train), *_beyond(scene, train)]


def _new(train: PhaseAnswer) -> list[str]:
    """What of a layout no published run does, as one sentence."""
    said = train.unsupported if isinstance(train, TrainAnswer) else None
    return [f"train: {'; '.join(said)}; the interval is wider for it"] if said else []


def _beyond(scene: Scene, train: PhaseAnswer) -> list[str]:
    """An MFU that no published run reached."""
    mfu = float(num.value(train.mfu))
    known = _highest(scene)
    if known is None or mfu <= known[0]:
        return []
    return [
        f"train: an MFU of {mfu:.1%} is above every published run known here ({known[0]:.1%}, {known[1]}), so no run supports "
        "its interval; take the time as a lower bound"
    ]


def _highest(scene: Scene) -> tuple[float, str] | None:
    """The highest MFU of a published run and where: on this chip in this format, on this chip, or on any of its kind."""
    spec, rows = scene.chip.spec, published("highest_mfu")["rows"]
    chip = spec.id
    same = [row for row in rows if row["chip"] == chip]
    alike = [row for row in same if row["dtype"] == scene.dtype] or same or [r for r in rows if r["kind"] == spec.kind]
    best = max(alike, key=lambda row: row["mfu"], default=None)
    return (best["mfu"], f"{best['row']}, {best['chip']} in {best['dtype']}") if best is not None else None
