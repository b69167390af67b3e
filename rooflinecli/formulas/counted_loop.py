"""A closed loop of few clients, counted step by step by the rules that a simulated scheduler follows (simulate/replica, simulate/policies),
with a few prices in place of tables."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

PRICED = (1.0, 4.0, 32.0)  # sequences of a decode step, and prompts of a pass
REQUESTS, EACH = 48, 12  # counted in all, and of each client, at least
GOLDEN, SILVER = 0.6180339887498949, 0.41421356237309515  # multiples modulo 1 are spread evenly: lengths without a seed


class LoopPrices(NamedTuple):
    """Seconds and tokens of a replica, and rules of its scheduler: whether an arrival waits for the step after the next (`look_ahead`), a
    step reads `whole` prompts, and sequences that decode have a part in it (`rides`). Of a prompt in a graph with `room` for that many tokens
    (`replayed`), what launches replace (`starts`) and the least they take; steps of as many sequences or prompts as PRICED says."""

    front: float
    per_token: float
    per_stream: float
    prompt: float
    steps: float
    spread: float
    budget: float
    pieces: float
    stages: float
    factor: float
    look_ahead: bool
    whole: bool
    rides: bool
    room: float
    replayed: float
    starts: float
    launches: float
    decode_1: float
    decode_4: float
    decode_32: float
    pass_1: float
    pass_4: float
    pass_32: float

    def mixed(self, tokens: float, riding: int, busy: bool) -> tuple[float, float]:
        """Seconds of a pass of prompts, where others decode or none, and the least that its launches take."""
        prompts, further = tokens / self.prompt, (self.pass_4 - self.pass_1) / (PRICED[1] - 1)
        if busy and tokens + riding <= self.room:
            return self.replayed * prompts * self.factor, 0.0
        if prompts > 1:
            added = between(self.pass_1, self.pass_4, self.pass_32, prompts, 1.0)
        else:
            added = self.pass_1 * prompts + (self.pass_1 - further) * (1 / self.pieces - prompts)
        if busy and self.launches:
            return max(added - self.starts, 0.0) * self.factor, self.launches
        return added * (self.factor if busy else 1.0), 0.0


def between(one: float, few: float, many: float, size: float, power: float) -> float:
    """A price of any size from those of PRICED, on straight lines over a power of the size."""
    (low, high), (before, after) = (PRICED[:2], (one, few)) if size <= PRICED[1] else (PRICED[1:], (few, many))
    start = pow(low, power)
    return before + (after - before) * float((pow(size, power) - start) / (pow(high, power) - start))


@lru_cache(maxsize=4096)
def count(p: LoopPrices, clients: int) -> tuple[float, ...]:
    """Mean first tokens of the burst and of requests that follow another; of a token its decode step, what prompts add to it, and sequences
    in that step."""
    prices = p.decode_1, p.decode_4, p.decode_32
    # over a root: of experts neither the number nor its logarithm is a line
    decodes = [0.0, *(between(*prices, size, 0.5) for size in range(1, clients + 1))]
    shortest, longer = p.prompt * (1 - p.spread), p.prompt * 2 * p.spread
    fewest, more = p.steps * (1 - p.spread) + 0.5, p.steps * 2 * p.spread
    future: deque[tuple[float, float, int, float]] = deque()  # (seen by the scheduler at, prompt, steps, sent at)
    waiting: deque[tuple[float, float, int, float]] = deque()
    ends: list[int] = []  # counts of decode steps at which sequences end
    due = [0.0] * clients  # instants at which clients send their next requests
    now = decided = ready = burst = later = stalled = decoded = 0.0
    tick = sent = seen = written = squares = 0
    while seen < max(REQUESTS, EACH * clients):
        for place, instant in enumerate(due, clients + 1 - len(due)):
            sent += 1
            prompt = shortest + longer * (sent * GOLDEN % 1.0)
            ready = max(instant + p.front + p.per_token * prompt + p.per_stream * place, ready)
            future.append((ready, prompt, int(fewest + more * (sent * SILVER % 1.0)) or 1, instant))
        due.clear()
        batch = len(ends)
        if not batch and not waiting:
            now = decided = max(now, future[0][0])
        while future and future[0][0] <= (decided if p.look_ahead else now):
            waiting.append(future.popleft())
        if waiting and (left := p.budget - (batch if p.rides else 0)) > 0:
            riding, tokens, read, decided = batch if p.rides else 0, 0.0, [], now
            while waiting and left > 0 and not (p.whole and tokens and waiting[0][1] > left):
                at, need, steps, instant = waiting.popleft()
                take = need if p.whole or need < left else left
                tokens, left = tokens + take, left - take
                if take < need:
                    waiting.appendleft((at, need - take, steps, instant))
                else:
                    read.append((steps, instant))
            added, least = p.mixed(tokens, riding, batch > 0)
            seconds = max(decodes[riding] + added / p.stages, least / p.stages)
            now, stalled = now + seconds, stalled + (seconds - decodes[riding]) * batch
            # a pipeline takes the next prompts while its last stages finish these
            first = now + added * (1 - 1 / p.stages)
            for steps, instant in read:
                seen += 1
                burst, later = (burst + first - instant, later) if seen <= clients else (burst, later + first - instant)
                if steps > 1:
                    heappush(ends, tick + (riding > 0) + steps - 1)
                else:
                    due.append(first)
            steps = int(riding > 0)
        else:
            riding, steps = batch, ends[0] - tick
            if future:
                until = max(ceil((future[0][0] - now) / decodes[batch] - 1e-9), 0) + int(p.look_ahead)
                steps = min(steps, until) or 1
            decided, now = now + decodes[batch] * (steps - 1), now + decodes[batch] * steps
        tick += steps
        written += steps * riding
        squares += steps * riding * riding
        decoded += steps * riding * decodes[riding]
        while ends and ends[0] <= tick:
            heappop(ends)
            due.append(now)
    written = written or 1
    return burst / clients, later / (seen - clients), decoded / written, stalled / written, max(squares / written, 1.0)
