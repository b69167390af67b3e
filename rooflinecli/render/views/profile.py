"""A profile: where the time goes, what fusion and overlap would gain, kernels against their floors; a trace next to an estimate."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.profile.compare_estimate import TraceComparison
from rooflinecli.questions.profile.question import Communication, ProfileAnswer
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, page, records
from rooflinecli.render.numbers import NONE, percent, ratio, text

_KINDS = (
    Column("kind", lambda named: named[0], text=True),
    Column("time", lambda named: text(named[1].time_s, "time_s")),
    Column("share", lambda named: percent(named[1].share)),
    Column("launches", lambda named: str(named[1].launches)),
)
_KERNELS = (
    Column("kernel", lambda named: named[0], text=True, least=24),
    Column("kind", lambda named: named[1].kind, text=True),
    Column("launches", lambda named: str(named[1].launches), drop=5),
    *_KINDS[1:3],
)
_FLOORS = (
    Column("floor", lambda named: text(named[1].floor_s, "floor_s"), drop=4),
    Column("expected", lambda named: text(named[1].expected_s, "time_s"), drop=3),
    Column("time/floor", lambda named: NONE if named[1].over_floor is None else ratio(named[1].over_floor), drop=6),
    Column(
        "bound",
        lambda named: (named[1].bound or NONE).upper() if named[1].impossible else named[1].bound or NONE,
        text=True,
        drop=2,
    ),
    Column("row", lambda named: named[1].row or NONE, text=True, drop=1),
)


def view(r: ProfileAnswer, top: int = 15) -> Page:
    """Sums, kinds, the `top` kernels that take longest, and what could be gained."""
    known = any(row.floor_s is not None for row in r.kernels.values())
    left = len(r.kernels) - top
    return page(
        [Headline(_headline(r))],
        [records(_KINDS, r.kinds.items())],
        [
            records(_KERNELS + _FLOORS * known, list(r.kernels.items())[:top]),
            Note(f"… {left} more kernels; --top {len(r.kernels)} shows them") if left > 0 else None,
        ],
        [Pairs(_findings(r))],
    )


def _headline(r: ProfileAnswer) -> str:
    where = f" on {r.device}" if r.device else ""
    many = f", the busiest of {r.devices} devices" if r.devices > 1 else ""
    wall = f"; {text(r.wall_s, 'wall_s')} wall, idle {text(r.idle_share, 'share')}" if r.wall_s is not None else ""
    return f"{text(r.time_s, 'time_s')} in {r.launches:,} launch{'' if r.launches == 1 else 'es'}{where}{many}{wall}"


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


_OPERATIONS = (
    Column("operations", lambda r: _names(r.operations), text=True, least=24),
    Column("launches", lambda r: f"{r.launches:g}", drop=2),
    Column("floor", "floor_s", drop=3),
    Column("expected", "expected_s"),
    Column("measured", "measured_s"),
    Column("measured/expected", lambda r: NONE if r.ratio is None else ratio(r.ratio)),
    Column("kernels", lambda r: r.kernels[0] if r.kernels else NONE, text=True, drop=1, least=16),
)
_SHOWN = 3  # names of operations in a row


def against(r: TraceComparison, top: int = 15) -> Page:
    """The `top` rows that take longest, and the sums in sentences."""
    return page([records(_OPERATIONS, r.rows[:top])], [Prose(line) for line in _sentences(r)])


def _names(operations: list[str]) -> str:
    more = f" and {len(operations) - _SHOWN} more" if len(operations) > _SHOWN else ""
    return ", ".join(operations[:_SHOWN]) + more


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
