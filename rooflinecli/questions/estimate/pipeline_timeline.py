"""When each stage of a pipeline runs which pass of which micro-batch: 1F1B, interleaved where a stage holds several chunks of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rooflinecli.core.errors import UsageError


class Pass(NamedTuple):
    """A forward or backward pass of a micro-batch through one chunk of a stage, in units of a forward pass of a whole stage."""

    stage: int
    chunk: int
    microbatch: int
    forward: bool
    start: float
    end: float


def order(stage: int, pp: int, microbatches: int, chunks: int) -> Iterator[tuple[int, int, bool]]:
    """Chunk, micro-batch and direction of the passes of a stage, in the order of Megatron-LM (Narayanan et al. 2021, section 2.2).

    micro-batches go in groups of pp through every chunk; interleaving takes whole groups.
    """
    total, group = microbatches * chunks, pp * chunks if chunks > 1 else 1
    warmup = min(total, pp - stage - 1 if chunks == 1 else 2 * (pp - stage - 1) + (chunks - 1) * pp)

    def at(k: int, forward: bool) -> tuple[int, int, bool]:
        chunk = k % group // pp if chunks > 1 else 0
        return (chunk if forward else chunks - 1 - chunk), (k // group * pp + k % pp if chunks > 1 else k), forward

    yield from (at(k, True) for k in range(warmup))
    for k in range(total):
        if warmup + k < total:
            yield at(warmup + k, True)
        yield at(k, False)


def timeline(pp: int, microbatches: int, chunks: int = 1, backward: float = 2.0) -> list[Pass]:
    """Every pass at the earliest instant that its stage and the pass before it allow; a backward pass takes `backward` forward passes.

    Raises UsageError where stages interleave chunks and micro-batches are no multiple of the stages.
    """
    if chunks > 1 and microbatches % pp:
        raise UsageError(
            f"--plot-kind pipeline: {microbatches} micro-batches are no multiple of {pp} interleaved stages; give another --batch"
        )
    left = [list(order(stage, pp, microbatches, chunks))[::-1] for stage in range(pp)]
    ended: dict[tuple[int, int, bool], float] = {}  # (place among all chunks, micro-batch, direction)
    free, found, last = [0.0] * pp, list[Pass](), pp * chunks - 1
    while any(left):
        for stage, waiting in enumerate(left):
            while waiting:
                chunk, microbatch, forward = waiting[-1]
                place = chunk * pp + stage
                before = (
                    (place - 1, microbatch, True)
                    if forward
                    else (place + 1, microbatch, False)
                    if place < last
                    else (place, microbatch, True)
                )
                if before not in ended and not (forward and place == 0):
                    break
                start = max(free[stage], ended.get(before, 0.0))
                free[stage] = ended[place, microbatch, forward] = start + (1.0 if forward else backward) / chunks
                found.append(Pass(*(stage, chunk, microbatch, forward), start, free[stage]))
                waiting.pop()
    return found
