"""A step of RL post-training: its parts, its sides, the memory of its roles, and the layouts of a search."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.rl.answer_types import RlAnswer, RoleMemory
from rooflinecli.questions.rl.question import SMALLER
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, Table, page, records
from rooflinecli.render.numbers import NONE, amount, around, devices, error, money, percent, rate, text

_FIRST, _SHOWN = 3, 12  # layouts of a search on the first screen, and with the details


def view(r: RlAnswer) -> Page:
    """The step in a sentence, its parts, both sides, memory, layouts tried."""
    load, step, run = r.load, r.step, r.run
    sums = [
        ("tokens", f"{text(step.tokens, 'count')} per step, {rate(step.tokens_per_s)}, {rate(step.tokens_per_s_per_device)} per device"),
        ("MFU", f"{percent(step.mfu)} of the whole step, {percent(r.trainer.mfu)} of the update alone"),
        ("rollout", f"{plural(r.rollout.engines, 'engine')} of {r.rollout.engine} (tp{r.rollout.tp}{f' ep{r.rollout.ep}' if r.rollout.ep > 1 else ''} {r.rollout.dtype}) on {plural(r.rollout.devices, 'device')}, {rate(r.rollout.tokens_per_s)}, idle {percent(step.rollout_idle_fraction)} of the step"),
        ("trainer", f"{devices(r.trainer.layout)}, {plural(r.trainer.optimizer_steps, 'optimizer step')}, idle {percent(step.trainer_idle_fraction)} of the step"),
        ("cost", NONE if step.usd is None else f"{money(step.usd)} per step" + (f", {amount(step.joules, 'J')}" if step.joules else "")),
    ]  # fmt: skip
    longest = max((part for part in r.parts if not part.hidden), key=lambda part: part.time_s)
    largest = max(r.memory.roles, key=lambda role: max(role.rollout_bytes, role.update_bytes))
    held, capacity = max(largest.rollout_bytes, largest.update_bytes), text(r.memory.capacity_bytes, "bytes")
    full = f"memory {percent(r.memory.most_bytes / r.memory.capacity_bytes)} of {capacity} per device"
    slow = f"{longest.part}, {percent(longest.time_s / step.time_s)} of the step; {full}"
    sums.append(
        ("limits", slow if r.memory.fits else f"{largest.role}: {text(held, 'bytes')} of {capacity} per device")
    )
    if r.changes is None:
        smaller = f"--search: layouts that fit these devices; else {SMALLER}"
        sums.append(("try", "--changes: what shortens the step" if r.memory.fits else smaller))
    if run is not None:
        said = f"{plural(run.steps, 'step')}: {around(run.time_s, run.interval_s, 'time_s')}"
        sums.append(("run", said + (f", {money(run.usd)}" if run.usd else "")))
    measured = None
    if step.measured_s is not None:
        measured = Prose(
            f"measured {text(step.measured_s, 'time_s')}, expected {error(step.time_s / step.measured_s - 1, signed=True)}; the log names "
            f"{percent(step.named_fraction or 0.0)} of the step"
        )
    best = f"best of {plural(len(r.candidates or ()), 'layout')} by the pessimistic bound"
    return page(
        [
            Headline(
                f"{r.model}, {r.algorithm}, {plural(load['prompts'], 'prompt')} x {plural(load['samples'], 'sample')} on {r.hardware}, {r.mode}: "
                f"{'' if r.memory.fits else 'does not fit; it would take '}"
                f"{around(step.time_s, step.interval_s, 'time_s')} per step, floor {text(step.floor_s, 'floor_s')}"
            ),
            measured,
        ],
        [_parts(r) if r.memory.fits else _memory(r)],
        [Pairs(sums if r.memory.fits else sums[-2:])],
        [records(_CANDIDATES, r.candidates[:_FIRST], title=best)] if r.candidates else [],
        [records(_CHANGES, r.changes)] if r.changes else [],
        [Note(note) for note in r.notes],
        details=[
            *([[_memory(r)]] if r.memory.fits else [[_parts(r)], [Pairs(sums[:-2])]]),
            [records(_CANDIDATES, r.candidates[:_SHOWN])] if r.candidates else [],
        ],
        about=(
            "memory per device of each role" if r.memory.fits else "the parts of a step, tokens, MFU, both sides, cost"
        )
        + (", more layouts" if r.candidates else ""),
    )


def _parts(r: RlAnswer) -> Table:
    columns = [
        Column("part", "part", text=True),
        Column("side", "side", text=True, drop=1),
        Column("floor", lambda p: text(p.floor_s, "floor_s") if p.floor_s else NONE, drop=2),
        Column("expected", "time_s"),
        Column("80% interval", "interval_s", drop=3),
        Column("of the step", lambda p: "hidden" if p.hidden else percent(p.time_s / r.step.time_s), drop=4),
    ]
    if any(part.measured_s is not None for part in r.parts):
        columns += [
            Column("measured", lambda p: text(p.measured_s, "time_s")),
            Column("expected/measured", lambda p: f"{p.time_s / p.measured_s:.2f}x" if p.measured_s else NONE),
        ]
    return records(columns, r.parts)


def _memory(r: RlAnswer) -> Table:
    sides = ("rollout_bytes", "update_bytes")
    total = RoleMemory(
        role=f"of {text(r.memory.capacity_bytes, 'bytes')}", **{side: r.memory.total(side) for side in sides}
    )
    return records(_MEMORY, [*r.memory.roles, total])


_MEMORY = (
    Column("memory per device", "role", text=True),
    Column("during rollout", "rollout_bytes"),
    Column("during update", "update_bytes"),
)


_CANDIDATES = (
    Column("rollout", lambda c: "shared" if c.rollout_devices is None else str(c.rollout_devices)),
    Column("trainer", lambda c: str(c.trainer_devices)),
    Column("rollout tp", "rollout_tp", drop=3),
    *(Column(axis, axis, drop=drop) for axis, drop in (("tp", 0), ("pp", 0), ("cp", 1), ("ep", 2), ("staleness", 4))),
    Column("step", "time_s"),
    Column("80% interval", "interval_s", drop=5),
    Column("cost", lambda c: NONE if c.usd is None else money(c.usd), drop=6),
    Column("", lambda c: "within model uncertainty of the best" if c.tie else "", text=True),
)  # fmt: skip
_CHANGES = (
    Column("change", "options", text=True),
    Column("step", "time_s"),
    Column("saves", lambda c: percent(c.saved_fraction)),
)
