"""A study of simulations: a row for each."""

from __future__ import annotations

from rooflinecli.questions.simulate.question import StudyAnswer
from rooflinecli.render.blocks import Column, Page, Table, page
from rooflinecli.render.numbers import text
from rooflinecli.specs.quantities import QUANTITIES

_SHOWN = (
    "replicas", "devices", "ttft_p50_s", "ttft_p99_s", "itl_p99_s", "e2e_p99_s", "output_tokens_per_s", "slo_attainment",
    "usd_per_million_tokens", "violation",
)  # fmt: skip
_HEADS = {
    "output_tokens_per_s": "throughput",
    "usd_per_million_tokens": "cost/M tokens",
    "violation": "infeasible because",
}


def view(answer: StudyAnswer) -> Page:
    """The axes, then the quantities that some row has."""
    names = [
        name
        for name in _SHOWN
        if name not in answer.axes and any(row.get(name) not in (None, "") for row in answer.rows)
    ]
    columns = [Column(axis, text=True) for axis in answer.axes] + [
        Column(
            _HEADS.get(name) or (QUANTITIES[name].label if name in QUANTITIES else name),
            text=name == "violation",
            least=30 if name == "violation" else 0,
        )
        for name in names
    ]
    rows = [
        [
            *(row[axis] for axis in answer.axes),
            *("" if row.get(name) is None else text(row[name], name) for name in names),
        ]
        for row in answer.rows
    ]
    return page([Table(columns, rows)])
