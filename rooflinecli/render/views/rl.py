"""A step of RL post-training: its parts, its sides, the memory of its roles, and the layouts of a search."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.rl.answer_types import Candidate, RlAnswer
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, Table, page
from rooflinecli.render.numbers import NONE, amount, devices, error, interval, money, percent, rate, text

_SHOWN = 12  # layouts of a search


def view(r: RlAnswer) -> Page:
    """The step in a sentence, its parts, both sides, memory, layouts tried."""
    load, step = r.load, r.step
    run = r.run
    sums = [
        ("tokens", f"{text(step.tokens, 'count')} per step, {rate(step.tokens_per_s)}, {rate(step.tokens_per_s_per_device)} per device"),
        ("MFU", f"{percent(step.mfu)} of the whole step, {percent(r.trainer.mfu)} of the update alone"),
        ("rollout", f"{plural(r.rollout.engines, 'engine')} of {r.rollout.engine} (tp{r.rollout.tp}{f' ep{r.rollout.ep}' if r.rollout.ep > 1 else ''} {r.rollout.dtype}) on {plural(r.rollout.devices, 'device')}, {rate(r.rollout.tokens_per_s)}, idle {percent(step.rollout_idle_fraction)} of the step"),
        ("trainer", f"{devices(r.trainer.layout)}, {plural(r.trainer.optimizer_steps, 'optimizer step')}, idle {percent(step.trainer_idle_fraction)} of the step"),
        ("cost", NONE if step.usd is None else f"{money(step.usd)} per step" + (f", {amount(step.joules, 'J')}" if step.joules else "")),
    ]  # fmt: skip
    if run is not None:
        low, high = run.interval_s
        sums.append(
            (
                "run",
                f"{plural(run.steps, 'step')}: {text(run.time_s, 'time_s')} ({interval(low, high, 's')})"
                + (f", {money(run.usd)}" if run.usd else ""),
            )
        )
    measured = None
    if step.measured_s is not None:
        measured = Prose(
            f"measured {text(step.measured_s, 'time_s')}, expected {error(step.time_s / step.measured_s - 1, signed=True)}; the log names "
            f"{percent(step.named_fraction or 0.0)} of the step"
        )
    return page(
        [
            Headline(
                f"{r.model}, {r.algorithm}, {plural(load.prompts, 'prompt')} x {plural(load.samples, 'sample')} on {r.hardware}: {r.mode}",
                (r.model, r.hardware),
            ),
            Prose(
                f"expected {text(step.time_s, 'time_s')} per step, 80% interval {interval(*step.interval_s, 's')}; floor {text(step.floor_s, 'floor_s')}"
            ),
            measured,
        ],
        [_parts(r)],
        [Pairs(sums)],
        [_memory(r)],
        [_candidates(r.candidates)] if r.candidates else [],
        [
            Table(
                (Column("change", text=True), Column("step"), Column("saves")),
                [(c.options, text(c.time_s, "time_s"), percent(c.saved_fraction)) for c in r.changes],
            )
        ]
        if r.changes
        else [],
        [Note(note) for note in r.notes],
    )


def _parts(r: RlAnswer) -> Table:
    logged = any(part.measured_s is not None for part in r.parts)
    columns = [Column("part", text=True), Column("side", text=True, drop=1), Column("floor", drop=2), Column("expected"), Column("80% interval", drop=3), Column("of the step", drop=4)]  # fmt: skip
    if logged:
        columns += [Column("measured"), Column("expected/measured")]
    rows = []
    for part in r.parts:
        share = "hidden" if part.hidden else percent(part.time_s / r.step.time_s)
        row = [
            part.part,
            part.side,
            text(part.floor_s, "floor_s"),
            text(part.time_s, "time_s"),
            interval(*part.interval_s, "s"),
            share,
        ]
        if logged:
            seconds = part.measured_s
            row += [text(seconds, "time_s"), f"{part.time_s / seconds:.2f}x" if seconds else NONE]
        rows.append(tuple(row))
    return Table(columns, rows)


def _memory(r: RlAnswer) -> Table:
    rows = [(m.role, text(m.rollout_bytes, "bytes"), text(m.update_bytes, "bytes")) for m in r.memory.roles]
    total = [text(sum(getattr(m, key) for m in r.memory.roles), "bytes") for key in ("rollout_bytes", "update_bytes")]
    columns = (Column("memory per device", text=True), Column("during rollout"), Column("during update"))
    return Table(columns, [*rows, (f"of {text(r.memory.capacity_bytes, 'bytes')}", *total)])


def _candidates(found: list[Candidate]) -> Table:
    columns = (
        Column("rollout"), Column("trainer"), Column("rollout tp", drop=3), Column("tp"), Column("pp"), Column("cp", drop=1), Column("ep", drop=2), Column("staleness", drop=4),
        Column("step"), Column("80% interval", drop=5), Column("cost", drop=6), Column("", text=True),
    )  # fmt: skip
    rows = [
        (
            "shared" if c.rollout_devices is None else str(c.rollout_devices), str(c.trainer_devices), str(c.rollout_tp), str(c.tp), str(c.pp), str(c.cp), str(c.ep), str(c.staleness),
            text(c.time_s, "time_s"), interval(*c.interval_s, "s"), NONE if c.usd is None else money(c.usd), "within model uncertainty of the best" if c.tie else "",
        )
        for c in found[:_SHOWN]
    ]  # fmt: skip
    return Table(columns, rows, title=f"best of {plural(len(found), 'layout')} by the pessimistic bound")
