"""A fleet: whether all traffic is served in a line, models on groups, each model, each group, and what is in the way."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.fleet.question import FleetAnswer
from rooflinecli.render.blocks import Block, Column, Command, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import NONE, money, percent, text
from rooflinecli.render.views.plan import SERVING, service_cells
from rooflinecli.render.views.search import BOUNDS

_PLACED = (
    Column("name", text=True),
    Column("model", text=True, drop=7),
    Column("group", text=True),
    Column("devices"),
    *SERVING,
)
_MODELS = (
    Column("name", text=True),
    Column("requested (req/s)"),
    Column("served (req/s)"),
    Column("devices"),
    Column("fleet fraction if alone"),
    Column("max traffic growth"),
)
_GROUPS = (
    Column("group", text=True),
    Column("chip", text=True),
    Column("devices"),
    Column("used"),
    Column("unused"),
    Column("cost"),
)


def view(answer: FleetAnswer) -> Page:
    """Blocks of a fleet."""
    placed = [
        [
            row.name, row.model, row.group, f"{row.devices:,}",
            *service_cells(row.numbers, f"{row.qps:.3g} of {row.held_requests_per_s:.3g}", row.usd_per_hour),
        ]
        for row in answer.rows
    ]  # fmt: skip
    models = [
        [
            m.name, f"{m.qps:.3g}", f"{m.carried_qps:.3g}", f"{m.devices:,}",
            NONE if m.load is None else percent(m.load), NONE if m.growth is None else f"{_factor(m.growth)}x",
        ]
        for m in answer.models
    ]  # fmt: skip
    groups = [
        [g.name, g.hardware, f"{g.devices:,}", f"{g.used:,}", f"{g.spare:,}", text(g.usd_per_hour, "usd_per_hour")]
        for g in answer.groups
    ]
    commands: list[list[Block]] = [[Prose(f"{r.name} on {r.group}:"), Command(r.command)] for r in answer.rows]
    return page(
        [Headline(_headline(answer))],
        [Table(_PLACED, placed)] if placed else [],
        [Table(_MODELS, models)],
        [Table(_GROUPS, groups)],
        *commands,
        [Prose(note, indent=2) for note in _notes(answer)],
    )


def _headline(answer: FleetAnswer) -> str:
    devices = plural(sum(g.devices for g in answer.groups), "device")
    subject = f"{plural(len(answer.models), 'model')} on {devices}"
    bound = f"at {BOUNDS[answer.hold]}"
    if answer.feasible:
        usd = "" if answer.usd_per_hour is None else f" for {money(answer.usd_per_hour)}/h"
        return (
            f"{subject}: all traffic served {bound}, on {plural(answer.devices, 'device')}{usd}, {answer.spare:,} unused; "
            f"headroom {_factor(answer.growth)}x, {answer.bottleneck} has the least"
        )
    if not answer.growth:
        return f"{subject}: {answer.bottleneck} cannot be served {bound}"
    return (
        f"{subject}: the traffic does not fit {bound}; {percent(answer.growth)} of each model's does, "
        f"and {answer.bottleneck} is the bottleneck"
    )


def _factor(factor: float) -> str:
    """A factor that may be counted on: rounded down."""
    if factor < 1:
        return f"{factor:.2g}"
    digits = max(2 - (len(str(int(factor))) - 1), 0)
    return f"{int(factor * 10**digits + 1e-9) / 10**digits:g}"


def _notes(answer: FleetAnswer) -> list[str]:
    found = [f"{m.name}: infeasible on {r.group}, {r.why}" for m in answer.models for r in m.refused]
    found += [
        f"with {g.needed - g.devices:,} more of {g.name} ({g.needed:,}) all traffic would fit"
        for g in answer.groups
        if g.needed is not None and g.needed > g.devices
    ]
    found += [
        f"{row.name} on {row.group}: {row.unused:,} of its devices stay idle, so that instances stay inside hosts"
        for row in answer.rows
        if row.unused
    ]
    if not answer.exact:
        found.append(f"device counts rounded to lots: within {percent(answer.within)} of optimal")
    if answer.unpriced:
        found.append(
            f"no price is known for {', '.join(answer.unpriced)}: the fewest devices instead of the lowest cost; add `price` to the group"
        )
    return found
