"""The passes of a training step over the stages of a pipeline: who computes which micro-batch when, by each schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rooflinecli.core.errors import UsageError

KINDS = {"F": "forward", "B": "backward", "I": "input gradients", "W": "weight gradients"}  # B is I and W in one
Step = tuple[str, int, int]  # kind, chunk, micro-batch


class Pass(NamedTuple):
    """A pass of a micro-batch through one chunk of a stage; the weight gradients of a whole stage take 1."""

    stage: int
    chunk: int
    microbatch: int
    kind: str
    start: float
    end: float


def _passes(schedule: str, stage: int, pp: int, microbatches: int, chunks: int) -> list[tuple[int, str]]:
    """How often a stage repeats which kinds of passes, with the chunk where they say it; W is of those that wait longest, and two joined
    by + run as one block."""
    left, total = pp - stage - 1, microbatches * chunks
    # ScheduleZBVZeroBubble of PyTorch (Qi et al. 2023, section 6): chunk 0 goes down the stages, chunk 1 up
    if schedule == "zb-v":
        return [
            (2 * left + 1, "F0"), (stage, "F1 F0"), (left + 1, "F1 I1 W"), (microbatches - 2 * pp + stage + 1, "F0 I0 W F1 I1 W"),
            (left, "I0 W F1 I1 W"), (stage, "I0 I1"), (left + 1, "I0 W"), (2 * stage, "W"),
        ]  # fmt: skip
    # the eight steps of deepseek-ai/DualPipe: chunk 0 enters at the first stage, chunk 1 at the last
    if schedule == "dualpipe":
        near = min(stage, left)
        far, some = pp // 2 - near - 1, (near + 1) // 2
        return [
            (2 * far, "F0"), (near + 1, "F0 F1"), (far, "I1 W F1"), (far == 0, "F0 B1 F1+B0"),
            (microbatches // 2 - pp + near + 1 - (far == 0), "F0+B1 F1+B0"), (far, "B1 F1+B0"),
            (some, "B1 B0"), ((near + 1) % 2, "B1 I0"), (some, "I1 I0"), (far, "W I0"), (near + 1, "W"),
        ]  # fmt: skip
    warmup = left if chunks == 1 else 2 * left + (chunks - 1) * pp  # Narayanan et al. 2021, section 2.2
    warmup = total if schedule == "gpipe" else min(total, warmup)
    if "zero-bubble" not in schedule:
        return [(warmup, "F"), (total - warmup, "F B"), (warmup, "B")]
    # ZB-H1: weight gradients wait for as many passes as stages are before this one
    return [(warmup, "F"), (stage, "F I"), (total - warmup - stage, "F I W"), (warmup, "I W"), (stage, "W")]


def order(schedule: str, stage: int, pp: int, microbatches: int, chunks: int) -> Iterator[list[Step]]:
    """The blocks of a stage in the order of a schedule. Raises UsageError where it takes more micro-batches."""
    done, waiting, both_ends = Counter[str](), list[Step](), schedule == "dualpipe"
    for times, words in _passes(schedule, stage, pp, microbatches, chunks):
        if times < 0:
            raise UsageError(
                f"--plot-kind pipeline: {schedule} takes more micro-batches than {microbatches}; raise --batch"
            )
        for word in words.split() * times:
            block = list[Step]()
            for kind, end in ((each[0], each[1:]) for each in word.split("+")):
                if kind == "W":
                    block.append((kind, *waiting.pop(0)[1:]))
                    continue
                k = done[name := ("F" if kind == "F" else "B") + end]
                done[name] += 1
                if end:
                    chunk = int(end) ^ (both_ends and 2 * stage >= pp)
                    step = (kind, chunk, k + both_ends * chunk * microbatches // 2)
                else:  # groups of pp micro-batches go through every chunk, backward from the last
                    chunk = k % (pp * chunks) // pp
                    step = (kind, chunk if kind == "F" else chunks - 1 - chunk, k // (pp * chunks) * pp + k % pp)
                block.append(step)
                waiting += [step] * (kind == "I")
            yield block


def timeline(schedule: str, pp: int, microbatches: int, chunks: int = 1, backward: float = 2.0) -> list[Pass]:
    """Every pass at the earliest instant that its stage and the pass before it allow. Weight gradients of a stage take 1, as its forward
    pass does, a whole backward pass `backward`; DualPipe's formula has forward passes as long as input gradients.

    Raises UsageError where stages interleave chunks and micro-batches are no multiple of the stages.
    """
    if chunks > 1 and microbatches % pp:
        raise UsageError(
            f"--plot-kind pipeline: {microbatches} micro-batches are no multiple of {pp} interleaved stages; give another --batch"
        )
    forward, there_and_back = backward / 2 if schedule == "dualpipe" else 1.0, schedule in ("zb-v", "dualpipe")
    takes = {"F": forward, "B": backward + 1 - forward, "I": backward - forward, "W": 1.0}
    parts = 2 if schedule == "zb-v" else chunks
    left = [list(order(schedule, stage, pp, microbatches, chunks))[::-1] for stage in range(pp)]
    ended: dict[tuple[int, int, bool], float] = {}  # (place among all chunks, micro-batch, whether forward)
    free, found, last = [0.0] * pp, list[Pass](), pp * parts - 1
    while any(left):
        for stage, waiting in enumerate(left):
            while waiting:
                block = [
                    (step, last - stage if there_and_back and step[1] else step[1] * pp + stage) for step in waiting[-1]
                ]
                before = {
                    (place - 1, microbatch, True) if kind == "F" else (min(place + 1, last), microbatch, place == last)
                    for (kind, _, microbatch), place in block
                    if kind != "W" and (kind != "F" or place > 0)
                }  # fmt: skip
                if not before <= ended.keys():
                    break
                at = max([free[stage], *(ended[each] for each in before)])
                for (kind, chunk, microbatch), _ in block:
                    found.append(Pass(stage, chunk, microbatch, KINDS[kind], at, at := at + takes[kind] / parts))
                free[stage] = at
                ended |= {(place, step[2], step[0] == "F"): at for step, place in block if step[0] != "W"}
                waiting.pop()
    return found
