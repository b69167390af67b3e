"""A trace compared with an estimate: a row per operation, and the remainder."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.profile.compare_estimate import TraceComparison, TraceRow
from rooflinecli.render.blocks import Column, Page, Prose, Table, page
from rooflinecli.render.numbers import NONE, percent, ratio, text

_COLUMNS = (Column("operations", text=True, least=24), Column("launches", drop=2), Column("floor", drop=3), Column("expected"), Column("measured"), Column("measured/expected"), Column("kernels", text=True, drop=1, least=16))  # fmt: skip
_SHOWN = 3  # names of operations in a row


def view(r: TraceComparison, top: int = 15) -> Page:
    """The `top` rows that take longest, and the sums in sentences."""
    return page([Table(_COLUMNS, [_cells(row) for row in r.rows[:top]])], [Prose(line) for line in _sentences(r)])


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
