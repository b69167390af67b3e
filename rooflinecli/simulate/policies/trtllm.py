"""TensorRT-LLM: in-flight batching of whole prompts with decodes, up to max_num_tokens; prompts may be held to fill a step.

Source: tensorrt_llm/_torch/pyexecutor/py_executor.py (`_balance_adp_requests`, batch_wait_timeout_iters, batch_wait_max_tokens_ratio);
capacity scheduler GUARANTEED_NO_EVICT: a sequence enters only if the cache of its whole answer has room.
"""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """Whole prompts, unless the few that wait are still held back."""
    scheduler = replica.scheduler
    if scheduler.hold_steps and replica.batch and replica.waiting and _short(replica):
        if replica.held < scheduler.hold_steps:
            replica.pause = scheduler.hold_steps - replica.held
            return [], True
    elif not replica.waiting:
        replica.held = 0
    chunks = replica.fill(scheduler.token_budget - replica.batch, whole=True)
    if chunks:
        replica.held = 0
    return chunks, True


def _short(replica: Replica) -> bool:
    """Whether what waits and runs fills less of the budget than ends a wait."""
    enough = replica.scheduler.hold_share * replica.scheduler.token_budget
    tokens = replica.batch
    for job in replica.waiting:
        tokens += job.need
        if tokens >= enough:
            return False
    return True
