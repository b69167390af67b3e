"""Answers of `roofline speculate`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record


class DraftGain(Record):
    """What one draft length gains."""

    draft_length: Number
    tokens_per_step: Number
    step_cost: Number
    speedup: Number
    tokens_per_step_simplified: Number
    speedup_simplified: Number
    operations: Number


class SpeculateAnswer(Record):
    """Tokens per step and speedup at a draft length, and at the best."""

    schema: str = "roofline/speculate/1"
    acceptance: Number
    draft_cost: Number
    draft_length: Number
    tokens_per_step: Number
    speedup: Number
    best_draft_length: Number
    itl_s: Number = field(default=None, metadata=OPTIONAL)
    lengths: dict[str, DraftGain]
    notes: list[str]


class BreakEvenAcceptance(Record):
    """The acceptance rate that a speedup takes."""

    schema: str = "roofline/speculate/1"
    draft_length: Number
    draft_cost: Number
    speedup: Number
    break_even_acceptance: Number
    break_even_simplified_acceptance: Number
    notes: list[str]
