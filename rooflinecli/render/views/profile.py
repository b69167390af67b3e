"""A profile: where the time goes, what fusion and overlap would gain, kernels against their floors."""

from __future__ import annotations

from rooflinecli.questions.profile.question import Communication, KernelSum, ProfileAnswer
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Table, page
from rooflinecli.render.numbers import NONE, percent, ratio, text

_KINDS = (Column("kind", text=True), Column("time"), Column("share"), Column("launches"))
_KERNELS = (Column("kernel", text=True, least=24), Column("kind", text=True), Column("launches", drop=5), Column("time"), Column("share"))  # fmt: skip
_FLOORS = (Column("floor", drop=4), Column("expected", drop=3), Column("time/floor", drop=6), Column("bound", text=True, drop=2), Column("row", text=True, drop=1))  # fmt: skip


def view(r: ProfileAnswer, top: int = 15) -> Page:
    """Sums, kinds, the `top` kernels that take longest, and what could be gained."""
    known = any(row.floor_s is not None for row in r.kernels.values())
    kinds = [(k, text(s.time_s, "time_s"), percent(s.share), str(s.launches)) for k, s in r.kinds.items()]
    kernels = [_kernel(name, row, known) for name, row in list(r.kernels.items())[:top]]
    left = len(r.kernels) - top
    return page(
        [Headline(_headline(r))],
        [Table(_KINDS, kinds)],
        [
            Table(_KERNELS + _FLOORS * known, kernels),
            Note(f"… {left} more kernels; --top {len(r.kernels)} shows them") if left > 0 else None,
        ],
        [Pairs(_findings(r))],
    )


def _headline(r: ProfileAnswer) -> str:
    where = f" on {r.device}" if r.device else ""
    many = f", the busiest of {r.devices} devices" if r.devices > 1 else ""
    wall = f"; {text(r.wall_s, 'wall_s')} wall, idle {text(r.idle_share, 'share')}" if r.wall_s is not None else ""
    return f"{text(r.time_s, 'time_s')} in {r.launches:,} launch{'' if r.launches == 1 else 'es'}{where}{many}{wall}"


def _kernel(name: str, row: KernelSum, known: bool) -> tuple[str, ...]:
    first = (name, row.kind, str(row.launches), text(row.time_s, "time_s"), percent(row.share))
    if not known:
        return first
    over = NONE if row.over_floor is None else ratio(row.over_floor)
    bound = (row.bound or NONE).upper() if row.impossible else row.bound or NONE
    return *first, text(row.floor_s, "floor_s"), text(row.expected_s, "time_s"), over, bound, row.row or NONE


def _findings(r: ProfileAnswer) -> list[tuple[str, str]]:
    bound, fusion = r.memory_bound, r.fusion
    gain = "everything is fusable"
    if fusion.speedup_bound is not None:
        gain = f"{ratio(fusion.speedup_bound, 3)} if all of it went (Amdahl)"
    found = [
        ("memory-bound", f"{text(bound.time_s, 'time_s')}, {percent(bound.share)} of the time"),
        (
            "fusion",
            f"{text(fusion.removable_s, 'time_s')} removable: {gain}; {fusion.chains} chains of neighbors "
            f"save {text(fusion.chains_saved_s, 'time_s')}, {ratio(fusion.chains_speedup, 3)}",
        ),
    ]
    if r.communication is not None:
        found.append(("communication", _communication(r.communication)))
    if r.impossible:
        names = ", ".join(r.impossible)
        remedy = "check the shape, the sharding or the unit of the time"
        found.append(("impossible", f"faster than the roofline allows: {names}; {remedy}"))
    return found


def _communication(r: Communication) -> str:
    if r.hideable_share is not None:
        share = percent(r.hideable_share)
        return (
            f"{text(r.time_s, 'time_s')}, of which {share} could hide behind computation (the trace has no time line)"
        )
    hidden = percent(r.hidden_share or 0.0)
    return f"{text(r.time_s, 'time_s')}, hidden {hidden}, exposed {text(r.exposed_s, 'time_s')}"
