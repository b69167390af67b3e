"""TensorRT-LLM: in-flight batching of whole prompts with decodes, up to max_num_tokens; prompts may wait until they fill a step (batch wait).

Source: tensorrt_llm/_torch/pyexecutor/py_executor.py (`_balance_adp_requests`, batch_wait_timeout_iters, batch_wait_max_tokens_ratio);
capacity scheduler GUARANTEED_NO_EVICT: a sequence starts only if the cache of its whole output fits.
"""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """Whole prompts, unless too few wait and the batch wait is not over."""
    scheduler = replica.scheduler
    if scheduler.hold_steps and replica.batch and replica.waiting and _too_few(replica):
        if replica.held < scheduler.hold_steps:
            replica.pause = scheduler.hold_steps - replica.held
            return [], True
    elif not replica.waiting:
        replica.held = 0
    chunks = replica.fill(scheduler.token_budget - replica.batch, whole=True)
    if chunks:
        replica.held = 0
    return chunks, True


def _too_few(replica: Replica) -> bool:
    """Whether queue and batch have fewer tokens than end a batch wait."""
    left = replica.scheduler.hold_share * replica.scheduler.token_budget - replica.batch
    for job in replica.waiting:
        left -= job.need
        if left <= 0:
            return False
    return True
