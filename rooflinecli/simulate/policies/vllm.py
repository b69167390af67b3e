"""vLLM V1: running sequences first, then chunks of prompts while the token budget lasts, all in one step.

Source: vllm/v1/core/sched/scheduler.py (`schedule`), max_num_batched_tokens; a full KV cache preempts the request that joined last, which is recomputed.
"""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """Decodes always ride along."""
    return replica.fill(replica.scheduler.token_budget - replica.batch), True
