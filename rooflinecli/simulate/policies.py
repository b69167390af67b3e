"""Scheduler policies: each public function gives the prefill chunks of a step, and whether decodes ride along."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

UNBOUNDED = 1 << 40  # tokens: a static batch is one prefill pass
Chunks = list[tuple[SimRequest, int]]


def sglang(replica: Replica) -> tuple[Chunks, bool]:
    """SGLang: prompts first, up to chunked_prefill_size tokens, while decodes stall; with mixed chunks they ride along.

    Prefill chunks alone, or with decodes where `mixed` is set.

    Source: sglang/srt/managers/scheduler.py (`get_next_batch_to_run`), schedule_policy.py (`PrefillAdder`).
    """
    scheduler = replica.scheduler
    left = scheduler.token_budget - (replica.batch if scheduler.mixed else 0)
    return replica.fill(left), scheduler.mixed


def static(replica: Replica) -> tuple[Chunks, bool]:
    """Static batching: a batch is formed once and runs until its last request ends.

    Form a new batch where none runs.
    """
    if replica.batch:
        return [], True
    return replica.fill(UNBOUNDED), False


def trtllm(replica: Replica) -> tuple[Chunks, bool]:
    """TensorRT-LLM: in-flight batching of whole prompts with decodes, up to max_num_tokens; prompts may wait until they fill a step (batch wait).

    Whole prompts, unless too few wait and the batch wait is not over.

    Source: tensorrt_llm/_torch/pyexecutor/py_executor.py (`_balance_adp_requests`, batch_wait_timeout_iters, batch_wait_max_tokens_ratio);
    capacity scheduler GUARANTEED_NO_EVICT: a sequence starts only if the cache of its whole output fits.
    """
    scheduler = replica.scheduler
    if replica.held < scheduler.hold_steps and replica.batch and replica.waiting and _too_few(replica):
        replica.pause = scheduler.hold_steps - replica.held
        return [], True
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


def vllm(replica: Replica) -> tuple[Chunks, bool]:
    """vLLM V1: running sequences first, then chunks of prompts while the token budget lasts, all in one step.

    Decodes always ride along.

    Source: vllm/v1/core/sched/scheduler.py (`schedule`), max_num_batched_tokens; a full KV cache preempts the request that joined last, which is recomputed.
    """
    return replica.fill(replica.scheduler.token_budget - replica.batch), True
