"""An estimate as a table of HTML, for a notebook: times with their floors and intervals, memory, what bounds them."""

from __future__ import annotations

from html import escape

from rooflinecli.core.units import si
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

_HEAD = ("", "floor", "expected", "80% interval", "bound by", "tokens/s", "memory per device")


def page(result: EstimateAnswer) -> str:
    """Everything a person wrote (names, messages) is escaped."""
    head = "".join(f"<th scope='col'>{name}</th>" for name in _HEAD)
    rows = "".join(_row(name, phase) for name, phase in result.phases.items())
    title = f"{result.model.name} on {result.layout.devices} × {result.hardware.name}, {result.workload.dtype}"
    wrong = "".join(f"<p><strong>Does not fit:</strong> {escape(v.message)}</p>" for v in result.violations)
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{wrong}"
    )


def _row(name: str, phase: PhaseAnswer) -> str:
    low, high = phase.interval_s
    held = phase.memory
    cells = (
        si(phase.floor_s, "s"),
        si(phase.time_s, "s"),
        f"{si(low, 's')} to {si(high, 's')}",
        phase.bottleneck or "",
        si(phase.tokens_per_s, ""),
        f"{si(held.total_bytes, 'B')} of {si(held.capacity_bytes, 'B')}",
    )
    return f"<tr><th scope='row'>{escape(name)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
