"""A closed loop of few clients, or an open one of short answers, counted step by step by the rules that a simulated scheduler follows
(simulate/replica, simulate/policies), with a few prices in place of tables."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from functools import lru_cache
from heapq import heappop, heappush
from math import ceil, log
from typing import NamedTuple

DECODES = (1.0, 4.0, 12.0, 32.0)  # sequences of the decode steps that are priced,
PASSES = (1.0, 4.0, 32.0)  # prompts of the passes,
SHARED = (8.0, 32.0, 128.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0)  # and tokens of prompts and decodes in one pass
RAMP = 2  # requests of each client that are left out of the means
COUNTED = 1000, 24  # requests that are counted, in all and of each client: bunches come and go over hundreds
ROUNDED = 1e-6  # what prices of seven digits are off by at the most, so that two clients make no fewer tokens than one
OPEN = 2000  # requests of an open loop, of which a tenth are left out
ORDER = 1162  # of 4,000 of its arrivals the one in which waits in an M/D/1 queue of up to 88% are nearest to those of Pollaczek and Khinchine
SIZES = (2, 3, 4, 8, 16, 32, 64)  # clients between which the seconds of a request are a line, within a few per cent,
SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)  # and between which first tokens and steps are


class LoopPrices(NamedTuple):
    """Seconds and tokens of a replica, and rules of its scheduler: whether an arrival waits for the step after the next (`look_ahead`), a
    step reads `whole` prompts, and sequences that decode have a part in it (`rides`); one pass has `room` for a number of tokens of both and then
    `adds` a start, `starts` are what launches replace, `attention` is that of a prompt, `slots` are the sequences that run at once. `lone` is the first token of a client alone, `each` the requests that a client
    sends, `rate` those of an open loop per second. Prices lie on lines over a `power` of the size."""

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
    look_ahead: float
    whole: float
    rides: float
    room: float
    adds: float
    attention: float
    starts: float
    launches: float
    power: float
    lone: float
    each: float
    rate: float
    slots: float
    decodes: tuple[float, ...]
    passes: tuple[float, ...]
    shared: tuple[float, ...]

    def mixed(self, tokens: float, riding: int, busy: bool) -> tuple[float, float]:
        """Seconds of a pass of prompts, where others decode or none, and the least that its launches take."""
        prompts = tokens / self.prompt
        if riding and tokens + riding <= self.room:
            together = line(SHARED, self.shared, tokens + riding, self.power)
            alone = line(SHARED, self.shared, riding, self.power)
            return (together - alone + self.adds + prompts * self.attention) * self.factor, 0.0
        if prompts > 1:
            added = line(PASSES, self.passes, prompts, 1.0)
        else:
            further = (self.passes[1] - self.passes[0]) / (PASSES[1] - 1)
            added = self.passes[0] * prompts + (self.passes[0] - further) * (1 / self.pieces - prompts)
        if busy and self.launches:
            return max(added - self.starts, 0.0) * self.factor, self.launches
        return added * (self.factor if busy else 1.0), 0.0


def line(sizes: tuple[float, ...], prices: tuple[float, ...], size: float, power: float) -> float:
    """The price of any size from those of some, on straight lines over a power of the size."""
    i = 1
    while i < len(sizes) - 1 and size > sizes[i]:
        i += 1
    start = sizes[i - 1] ** power
    share: float = (size**power - start) / (sizes[i] ** power - start)
    return prices[i - 1] + (prices[i] - prices[i - 1]) * share


def loop_means(p: LoopPrices, clients: float) -> tuple[float, float, float, float]:
    """Means of the first token, of a step for each further one, and of the sequences in it. More clients make no fewer tokens: the seconds of a
    request lie on lines over the clients, and are split as those of loops of about as many are, which take the last number times as long. Where some wait
    for a slot, the first token is that of a request from there, as many as are counted being in flight."""
    steps = p.steps - 1
    if clients > p.slots:
        counted = max(min(round(clients), SIZES[-1]), int(p.slots) + 1)
        first, step, decoding = count(p, counted, *COUNTED)
        return max((first + steps * step) * p.slots / counted - steps * step, 0.0), step, decoding, 1.0
    if p.rate:  # the front end's work on a request grows with those in flight, which is rate times the time of each
        first, step, decoding = count(p, 0, OPEN, 0)
        others = p.rate * (first + steps * step) / max(1 - p.rate * p.per_stream, 1e-3)
        return first + p.per_stream * others, step, decoding, 1.0
    # seconds of each prompt among many, but for the last digits
    least = (p.passes[-1] - p.passes[-2]) / (PASSES[-1] - PASSES[-2]) / p.stages * (1 + 1e-6)
    if clients > SIZES[-1]:  # beyond the most that are counted all grow as before it, at most in proportion
        low, high = (loop_means(p, size) for size in SIZES[-2:])
        span, beyond = SIZES[-1] - SIZES[-2], clients - SIZES[-1]
        first, step, decoding = (
            after + beyond * min(max((after - before) / span, 0.0), after / SIZES[-1])
            for before, after in zip(low[:3], high[:3], strict=True)
        )
        return max(first, least * clients - steps * step), step, decoding, high[3]
    fewer, shorter, more, longer = 0.0, 0.0, 1.0, (p.lone + steps * p.decodes[0]) * (1 - ROUNDED)
    for size in SIZES:
        if clients <= more:
            break
        first, step, _ = count(p, size, *COUNTED)
        request = max(min(first + steps * step, longer * size / more), least * size)
        fewer, shorter, more, longer = more, longer, float(size), request
    request = longer + (longer - shorter) / (more - fewer) * (clients - more)
    place = bisect_left(SPLITS, clients)
    first, step, decoding = count(p, SPLITS[place], *COUNTED)
    if (beyond := SPLITS[place] - clients) > 0:
        share, fewer_means = beyond / (SPLITS[place] - SPLITS[place - 1]), count(p, SPLITS[place - 1], *COUNTED)
        first, step, decoding = (
            more + share * (less - more) for less, more in zip(fewer_means, (first, step, decoding), strict=True)
        )
    scale = request / (first + steps * step)
    return scale * first, scale * step, decoding, 1 / scale


@lru_cache
def shares(count: int, order: int) -> list[float]:
    """Numbers between 0 and 1, as evenly as they come, in a random order: what they are drawn for has its mean, and only the order is chance."""
    from random import Random

    found = [(i + 0.5) / count for i in range(count)]
    Random(order).shuffle(found)
    return found


@lru_cache(maxsize=4096)
def count(p: LoopPrices, clients: int, some: int, each: int) -> tuple[float, float, float]:
    """Mean first token; of a further one its step, and sequences that it writes for."""
    if clients == 1:
        return p.lone, p.decodes[0], 1.0
    gaps, prompts, answers = (shares(some, order) for order in (ORDER, clients + 1, clients + 2))
    decodes = [0.0]
    shortest, longer = p.prompt * (1 - p.spread), p.prompt * 2 * p.spread
    fewest, more = p.steps * (1 - p.spread) + 0.5, p.steps * 2 * p.spread
    future: deque[tuple[float, float, int, float]] = deque()  # (seen by the scheduler at, prompt, steps, sent at)
    waiting: deque[tuple[float, float, int, float]] = deque()
    ends: list[tuple[int, int, float]] = []  # (at which count of decode steps a sequence ends, its steps, first token)
    due = [0.0] * clients  # instants at which clients send their next requests
    now = decided = ready = sent = burst = later = further = 0.0
    tick = seen = written = squares = ended = asked = 0
    ramp, most = RAMP * clients or some // 10, max(some, each * clients)
    while seen < most:
        batch = len(ends)
        while due or (p.rate and ready <= now):
            if p.rate:
                sent -= log(1 - gaps[asked % some]) / p.rate
                due.append(sent)
            place = max(clients - len(due), 0)
            for instant in due:
                place += 1
                prompt = shortest + longer * prompts[asked % some]
                ready = max(instant + p.front + p.per_token * prompt + p.per_stream * place, ready)
                future.append((ready, prompt, int(fewest + more * answers[asked % some]) or 1, instant))
                asked += 1
            due.clear()
        while len(decodes) <= batch:
            decodes.append(line(DECODES, p.decodes, len(decodes), p.power))
        if not batch and not waiting:
            now = decided = max(now, future[0][0])
        limit = decided if p.look_ahead else now
        while future and future[0][0] <= limit:
            waiting.append(future.popleft())
        if waiting and batch < p.slots and (left := p.budget - (batch if p.rides else 0)) > 0:
            read: list[tuple[int, float]] = []
            riding, tokens, decided = batch if p.rides else 0, 0.0, now
            while waiting and left > 0 and batch + len(read) < p.slots:
                if p.whole and tokens and waiting[0][1] > left:
                    break
                at, need, steps, instant = waiting.popleft()
                take = need if p.whole or need < left else left
                tokens, left = tokens + take, left - take
                if take < need:
                    waiting.appendleft((at, need - take, steps, instant))
                else:
                    read.append((steps, instant))
            added, least = p.mixed(tokens, riding, batch > 0)
            now += max(decodes[riding] + added / p.stages, least / p.stages)
            # a pipeline takes the next prompts while its last stages finish these
            first = now + added * (1 - 1 / p.stages)
            for steps, instant in read:
                seen += 1
                if seen <= clients:
                    burst += first - instant
                elif seen > ramp:
                    later += first - instant
                if steps > 1:
                    heappush(ends, (tick + (riding > 0) + steps - 1, steps, first))
                elif clients:
                    due.append(first)
            steps = int(riding > 0)
        else:
            riding, steps = batch, ends[0][0] - tick
            if future and batch < p.slots:
                until = max(ceil((future[0][0] - now) / decodes[batch] - 1e-9), 0) + int(p.look_ahead)
                steps = min(steps, until) or 1
            decided, now = now + decodes[batch] * (steps - 1), now + decodes[batch] * steps
        tick += steps
        written += steps * riding
        squares += steps * riding * riding
        while ends and ends[0][0] <= tick:
            _, steps, first = heappop(ends)
            if clients:
                due.append(now)
            if seen > ramp:
                ended += 1
                further += (now - first) / (steps - 1)
    first = later / (seen - ramp)
    if clients and clients <= p.slots:
        first = burst / clients / p.each + (1 - 1 / p.each) * first
    return first, further / (ended or 1), max(squares / (written or 1), 1.0)
