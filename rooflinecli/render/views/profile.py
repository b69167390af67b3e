"""A profile: where the time goes, what fusion and overlap would gain, kernels against their floors; a trace next to an estimate."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.profile.compare_estimate import TraceComparison, TraceRow
from rooflinecli.questions.profile.question import Communication, KernelSum, ProfileAnswer
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, Table, page
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


_OPERATIONS = (Column("operations", text=True, least=24), Column("launches", drop=2), Column("floor", drop=3), Column("expected"), Column("measured"), Column("measured/expected"), Column("kernels", text=True, drop=1, least=16))  # fmt: skip
_SHOWN = 3  # names of operations in a row


def against(r: TraceComparison, top: int = 15) -> Page:
    """The `top` rows that take longest, and the sums in sentences."""
    return page([Table(_OPERATIONS, [_cells(row) for row in r.rows[:top]])], [Prose(line) for line in _sentences(r)])


def _cells(row: TraceRow) -> tuple[str, ...]:
    names = ", ".join(row.operations[:_SHOWN])
    names += f" and {len(row.operations) - _SHOWN} more" if len(row.operations) > _SHOWN else ""
    times = (text(seconds, "time_s") for seconds in (row.floor_s, row.expected_s, row.measured_s))
    over = NONE if row.ratio is None else ratio(row.ratio)
    return names, f"{row.launches:g}", *times, over, row.kernels[0] if row.kernels else NONE


def _sentences(r: TraceComparison) -> list[str]:
    left, copies = r.unexplained, sum(row.copies_s for row in r.rows)
    found = [
        f"{r.phase}: {plural(r.steps, 'step')} in the trace, {text(r.kernels_s, 'time_s')} of kernels each; "
        f"expected {text(r.expected_s, 'time_s')}, floor {text(r.floor_s, 'time_s')}",
        f"no operation explains {text(left.time_s, 'time_s')} ({percent(left.share)} of the time)"
        + (f": {', '.join(left.kernels)}" if left.kernels else ""),
    ]
    if copies:
        found.append(f"copies that lay operands out take {text(copies, 'time_s')} of what the operations measured")
    if r.wall_s is not None:
        found.append(
            f"wall {text(r.wall_s, 'time_s')} a step; nothing runs for {text(r.gaps_s, 'time_s')}, "
            f"communication alone for {text(r.exposed_communication_s, 'time_s')}"
        )
    return found
