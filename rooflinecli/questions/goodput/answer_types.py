"""The answer of `roofline goodput`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record


class GoodputAnswer(Record):
    """Failures, checkpoints and the fraction of time that makes progress."""

    schema: str = "roofline/goodput/1"
    devices: Number
    mtbf_s: Number
    checkpoint_s: Number
    restart_s: Number
    young_interval_s: Number
    daly_interval_s: Number
    interval_s: Number
    slowdown: Number
    goodput: Number
    checkpoint_overhead: Number
    checkpoint_bytes: Number = field(default=None, metadata=OPTIONAL)
    run_s: Number = field(default=None, metadata=OPTIONAL)
    failures: Number = field(default=None, metadata=OPTIONAL)
