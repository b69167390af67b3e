"""SGLang: prompts first, up to chunked_prefill_size tokens, while decodes stall; with mixed chunks they ride along.

Source: sglang/srt/managers/scheduler.py (`get_next_batch_to_run`), schedule_policy.py (`PrefillAdder`).
"""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """Prefill chunks alone, or with decodes where `mixed` is set."""
    scheduler = replica.scheduler
    left = scheduler.token_budget - (replica.batch if scheduler.mixed else 0)
    return replica.fill(left), scheduler.mixed
