"""One replica: its queue, running batch, KV pool and clock, which moves by steps or by strides of decode steps.

Nothing is stored per token. Running sequences are a sum of context lengths; their ends wait in a heap, keyed by the tick (count
of decode steps) at which each is due. Decode time grows linearly with context, so a stride of decode steps is an arithmetic series.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, exp, log, sqrt
from typing import Any

from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.request import INF, SimRequest
from rooflinecli.simulate.step_times import KNOTS, StepTimeTable
from rooflinecli.specs.registry import load
from rooflinecli.specs.scheduler import Scheduler

LONGEST = 64  # decode steps of a stride at least allowed; beyond, an eighth of the context, so that its line stays one


PER_E = 100  # bins of the histogram per factor e: each is one per cent wide
ABOVE = 100_000  # offset that makes the bin numbers positive
SAMPLES = 2048  # samples kept of the use over time


class ReplicaStats:
    """Statistics that a replica keeps while it runs: a histogram of ITL gaps, batch and KV use over time, counts. Gaps are weighted by the tokens that follow them; samples
    are thinned out as they grow."""

    def __init__(self) -> None:
        self.gaps: dict[int, int] = {}
        self.samples: list[tuple[float, int, int, float]] = []
        self.every, self.count, self.due = 1, 0, 1
        self.busy = 0.0
        self.steps = self.preemptions = 0
        self.prompt_tokens = self.output_tokens = self.hit_tokens = 0
        self.gap_sum = 0.0
        self.most_batch, self.most_used, self.most_tokens = 0, 0, 0
        self.area_batch = self.area_used = 0.0

    def reset_copy(self) -> ReplicaStats:
        """Counts start over; samples over time stay."""
        stats = ReplicaStats()
        stats.samples, stats.every, stats.count, stats.due = self.samples, self.every, self.count, self.due
        return stats

    def gap(self, seconds: float, tokens: int) -> None:
        """Count `tokens` that each came `seconds` after the one before."""
        key = int(log(seconds) * PER_E + ABOVE) if seconds > 0 else 0
        self.gaps[key] = self.gaps.get(key, 0) + tokens
        self.gap_sum += seconds * tokens

    def sample(self, now: float, batch: int, queue: int, share: float) -> None:
        """Note batch, queue and KV usage at an instant, every `every` steps or strides."""
        self.samples.append((now, batch, queue, share))
        if len(self.samples) >= 2 * SAMPLES:
            del self.samples[::2]
            self.every *= 2
        self.due = self.count + self.every


def gap_percentiles(gaps: dict[int, int], quantiles: tuple[float, ...]) -> list[float]:
    """Gaps in seconds at ascending quantiles of the tokens, to the width of a bin; 0 where there are none."""
    total, points, seen = sum(gaps.values()), [], 0
    left = list(quantiles[::-1])
    for key in sorted(gaps):
        seen += gaps[key]
        while left and seen >= left[-1] * total:
            points.append(exp((key - ABOVE + 0.5) / PER_E))
            left.pop()
    return points or [0.0] * len(quantiles)


@dataclass(frozen=True)
class ReplicaLimits:
    """KV pool in tokens, sequences; KV bytes per token and bytes per second to the host, for swapping."""

    pool: int
    sequences: int
    bytes_per_token: float = 0.0
    swap_rate: float = 0.0
    stride: bool = True


class Replica:
    """What a cluster steps and submits requests to. `hand_over`: requests leave after their first token, for a decode worker."""

    def __init__(
        self,
        prices: StepTimeTable,
        limits: ReplicaLimits,
        scheduler: Scheduler,
        store: PrefixCache | None = None,
        hand_over: bool = False,
    ):
        self.prices, self.limits, self.scheduler, self.store = prices, limits, scheduler, store
        self.hand_over = hand_over
        self.policy: Any = load("simulate/policies", scheduler.policy)
        self.pad, self.pool = scheduler.block - 1, limits.pool
        self.poll, self.ahead = scheduler.poll_steps, bool(scheduler.look_ahead)
        moe = scheduler.prompt_factor_moe
        self.factor = scheduler.prompt_factor if moe is None or not prices.ctx.ledger.moe_layers else moe
        self.now = self.decided = self.stall = self.front = 0.0
        self.debt = 0.0  # seconds still due for moving cache to and from the host
        self.future: deque[SimRequest] = deque()
        self.waiting: deque[SimRequest] = deque()
        self.partial: list[SimRequest] = []
        self.ends: list[tuple[int, int, int, SimRequest]] = []
        self.unsent: list[tuple[int, int, int, SimRequest]] = []  # first tokens that wait for a full stream interval
        self.joined: list[tuple[SimRequest, int]] = []
        self.fresh: list[
            SimRequest
        ] = []  # joined since the last decode step: each has its own gap before its next token
        self.finished: list[SimRequest] = []
        self.batch = self.context = self.tick = self.filling = self.saved = self.steps = self.held = 0
        self.owed = 0  # tokens that the running batch has still to write
        self.pause = INF  # decode steps until the policy is asked again
        self.under_way = 0
        self.warm = INF  # end of the warm-up, at which statistics start over; INF: there is none, or it is over
        self.tally = ReplicaStats()

    # --- what the cluster calls ----------------------------------------------------------------------------------------------

    def enqueue(self, job: SimRequest) -> None:
        """Take a request: the scheduler sees it after the frontend latency, and after its KV blocks came back from the tiers."""
        s = self.scheduler
        self.under_way += 1
        if not job.swapped:
            job.ready = job.arrival + s.front + s.per_token * job.prompt + s.per_stream * self.under_way
        if job.ready < self.front:
            job.ready = self.front
        self.front = job.ready
        if self.store is None or not self.store.tiers or job.swapped:
            self.future.append(job)
            return
        job.ready = self.store.fetch(job, job.ready, self.pool - self.used)
        place = len(self.future)
        while place and self.future[place - 1].ready > job.ready:  # requests behind it that miss nothing overtake it
            place -= 1
        self.future.insert(place, job)

    def step(self, until: float, waits: bool = False) -> bool:
        """Run one step, or a stride of them, that starts before `until`; whether there was anything to do.

        `waits`: a stride that only an arrival at `until` would cut is left until that arrival is known; nothing ends before it.
        """
        if self.now >= self.warm:
            self.end_warmup()
        if self.now >= until:
            return False
        if not (self.batch or self.partial or self.waiting):
            if not self._skip_to_next_arrival(until):
                return False
        elif self.steps % self.poll == 0 or not self.batch:
            self._admit(self.decided if self.ahead else self.now)
        while self.batch and self.used + self.batch > self.pool:
            self._preempt()
        if self.waiting or self.partial:
            self.pause = INF
            chunks, ride = self.policy(self)
            if chunks:
                self._mixed(chunks, ride)
                return True
        else:
            self.pause = INF
        return self._stride(until, waits) if self.batch else self._skip_to_next_arrival(until)

    def on_failure(self) -> tuple[Replica, list[SimRequest]]:
        """The empty replica that replaces this one, statistics kept; and its requests, as they were on arrival."""
        running = [job for _, _, epoch, job in self.ends if epoch == job.epoch]
        jobs = [*running, *self.partial, *self.waiting, *self.future]
        for job in jobs:
            job.reset()
        store = self.store.reset_copy() if self.store is not None else None
        fresh = Replica(self.prices, self.limits, self.scheduler, store, self.hand_over)
        fresh.tally, fresh.warm = self.tally, self.warm
        return fresh, jobs

    def end_warmup(self) -> None:
        """Start the statistics over, once."""
        if self.warm < INF:
            self.tally, self.warm = self.tally.reset_copy(), INF

    # --- what policies and routers see -----------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """KV tokens taken, each sequence's last block counted as if it had one token only, so never too few."""
        return self.context + self.filling + self.pad * (self.batch + len(self.partial)) - self.saved

    def room(self, job: SimRequest) -> bool:
        """Whether a waiting request may start now, with one more token for every running sequence."""
        if self.batch + len(self.partial) >= self.limits.sequences:
            return False
        share = self.scheduler.reserve_share
        ahead = share * (self.owed + sum(j.remaining for j in self.partial) + job.remaining) if share else 0.0
        known = self.store.pinned_tokens(job) if self.store is not None else 0
        need = self.used + self.batch + job.need + 1 + job.swapped + self.pad - known + ahead
        return need <= self.limits.pool

    def fill(self, left: int, whole: bool = False) -> list[tuple[SimRequest, int]]:
        """Prefill chunks for a step of at most `left` tokens: prompts already started first, then the queue in its order."""
        chunks = []
        for job in self.partial:
            take = min(job.need - job.done, left)
            if take <= 0:
                break
            chunks.append((job, take))
            left -= take
        while left > 0 and self.waiting:
            job = self.waiting[0]
            if (whole and job.need > left and chunks) or not self.room(job):
                break
            self._start(self.waiting.popleft())
            if job.swapped:
                if job.preempted and self.limits.swap_rate:  # fetching the cache is paid by the next step
                    self.debt += job.need * self.limits.bytes_per_token / self.limits.swap_rate
                job.swapped = False
                self._join(job)
                left -= 1
                continue
            take = job.need - job.done if whole else min(job.need - job.done, left)
            chunks.append((job, take))
            left -= take
        return chunks

    # --- requests that start, join the running batch and leave -------------------------------------------------------------

    def _skip_to_next_arrival(self, until: float) -> bool:
        """Nothing can run: move the clock to the next arrival before `until`; whether there is one."""
        if not self.future or self.future[0].ready >= until:
            return False
        self.now = self.decided = max(self.now, self.future[0].ready)
        self._admit(self.now)
        return True

    def _admit(self, instant: float) -> None:
        while self.future and self.future[0].ready <= instant:
            self.waiting.append(self.future.popleft())

    def _start(self, job: SimRequest) -> None:
        """Move a request from the queue to prefill; the prefix cache holds a part of its prompt already."""
        if job.queued < 0:
            job.queued = self.now
        self.filling += job.need + 1
        self.partial.append(job)
        if self.store is None or job.swapped:
            return
        known = self.store.enter(job)
        job.done = job.hit = min(known, job.need - 1)
        self.tally.hit_tokens += job.hit
        self.saved = self.store.saved
        self.store.shrink(self.limits.pool - self.used)

    def _join(self, job: SimRequest) -> None:
        """Move a request from prefill to decode."""
        self.partial.remove(job)
        self.filling -= job.need + 1
        self.batch += 1
        self.context += job.need + 1
        job.entered, job.due = job.need + 1 - self.tick, self.tick + job.remaining
        self.owed += job.remaining
        heappush(self.ends, (job.due, job.index, job.epoch, job))
        if job.first == INF:
            sent = min(self.scheduler.stream_steps, job.output) - job.made
            heappush(self.unsent, (self.tick + sent, job.index, job.epoch, job))
        self.joined.append((job, job.epoch))
        self.fresh.append(job)

    def _prompt_done(self, job: SimRequest, instant: float) -> None:
        """The last chunk was computed: the first token is written, or after a recomputation the next one."""
        if job.made:
            self.tally.gap(instant - job.last, 1)  # the gap before this token includes the recomputation
        job.made += 1
        job.last = instant if self.hand_over else self.now
        if job.first == INF and (self.hand_over or job.made >= min(self.scheduler.stream_steps, job.output)):
            job.first = instant
        self.tally.output_tokens += 1
        if job.remaining and not self.hand_over:
            self._join(job)
            return
        self.partial.remove(job)
        self.filling -= job.need + 1
        self._leave(job, instant)

    def _leave(self, job: SimRequest, instant: float) -> None:
        self.under_way -= 1
        self._release_prefix(job)
        job.finish = instant
        self.finished.append(job)

    def _release_prefix(self, job: SimRequest) -> None:
        if self.store is not None and job.shared:
            self.store.leave(job)
            self.saved = self.store.saved

    def _stop(self, job: SimRequest) -> None:
        """Take a sequence out of the running batch."""
        self.batch -= 1
        self.context -= job.entered + self.tick

    def _preempt(self) -> None:
        """Evict the sequence that joined last; it goes to the head of the queue."""
        while True:
            job, epoch = self.joined.pop()
            if job.epoch == epoch:
                break
        if job in self.fresh:
            self.fresh.remove(job)
        else:
            job.last = self.now - self.stall
        job.epoch += 1
        job.preempted += 1
        self.tally.preemptions += 1
        self.owed -= job.due - self.tick
        job.made = job.output - (job.due - self.tick)
        self._stop(job)
        self._release_prefix(job)
        job.done, job.need = 0, job.prompt + job.made
        if self.scheduler.preemption == "swap" and self.limits.swap_rate:
            job.swapped, job.need = True, job.prompt + job.made - 1
            self.debt += job.need * self.limits.bytes_per_token / self.limits.swap_rate
        self.waiting.appendleft(job)

    # --- steps and their time ----------------------------------------------------------------------------------------------

    def _mixed(self, chunks: list[tuple[SimRequest, int]], ride: bool) -> None:
        """Run a step with prefill chunks; decodes ride along where the policy lets them, else they stall."""
        tokens, attention = 0, 0.0
        for job, take in chunks:
            padded = self.prices.padded(take)
            tokens += padded
            attention += self.prices.attention(job.done, job.done + padded)
        batch = self.batch if ride else 0
        context = self.context / batch if batch else 0.0
        s = self.scheduler
        # a lone prompt takes its own time
        mixing = (self.factor, s.graph_tokens, s.launch, s.one_pass) if self.batch else (1.0,)
        seconds, fill = self.prices.mixed(tokens, attention, batch, context, *mixing)
        if self.debt:
            seconds, self.debt = seconds + self.debt, 0.0
        if self.batch and not batch:
            self.stall += seconds
        self.tally.prompt_tokens += sum(take for _, take in chunks)
        self._advance(seconds, 1, seconds, batch, tokens + batch)
        for job, take in chunks:
            job.done += take
            if job.done >= job.need:
                self._prompt_done(job, self.now + fill)

    def _stride(self, until: float, waits: bool) -> bool:
        """Run as many decode steps as nothing interrupts; none, where `waits` and only an arrival at `until` would."""
        prices, batch = self.prices, self.batch
        if batch >= len(prices.level):
            prices.grow_decodes(batch)
        context = self.context / batch
        i = int(context).bit_length()
        if i > KNOTS:
            i = KNOTS
        slope = prices.slope[batch][i]
        first = last = prices.level[batch][i] + slope * context
        n = self._longest_stride()
        if n > 1:
            future = self.future
            known = bool(future) and future[0].ready < until
            event = future[0].ready if known else until
            last = prices.decode(batch, context + n - 1) if context + n > 1 << i else first + slope * (n - 1)
            if self.now + n * (first + last) / 2 > event:
                if waits and not known:
                    return False
                n = self._steps_before(event, first, slope, n)
                last = first + slope * (n - 1)
                if context + n > 1 << i:
                    last = prices.decode(batch, context + n - 1)
        seconds = n * (first + last) / 2
        if self.debt:
            seconds, self.debt = seconds + self.debt, 0.0
        self.held = self.held + n if self.waiting else 0  # nothing was held back before a prompt came
        self._advance(seconds, n, last, batch, batch)
        return True

    def _longest_stride(self) -> int:
        """Decode steps until a sequence ends, the pool is full, a first token is sent or the policy is asked."""
        if not self.limits.stride:
            return 1
        ends, batch = self.ends, self.batch
        while ends[0][2] != ends[0][3].epoch:
            heappop(ends)
        most = ends[0][0] - self.tick
        if most > LONGEST and most > self.context // batch // 8:
            most = max(LONGEST, self.context // batch // 8)
        free = self.pool - self.context - self.filling - self.pad * (batch + len(self.partial)) + self.saved
        most = min(most, free // batch)
        if self.unsent:
            most = min(most, self.unsent[0][0] - self.tick)
        return max(int(min(most, self.pause)), 1)

    def _steps_before(self, event: float, first: float, slope: float, most: int) -> int:
        """Steps that start before an event, and those until the queue is next polled."""
        left = event - self.now
        if left <= 0:
            n = 1
        elif slope > 0:
            half = slope / 2
            n = ceil((-(first - half) + sqrt((first - half) ** 2 + 4 * half * left)) / (2 * half) - 1e-9)
        else:
            n = ceil(left / first - 1e-9)
        n = max(n, 1)
        n += -(self.steps + n) % self.poll
        return min(n, most)

    def _advance(self, seconds: float, n: int, last: float, batch: int, tokens: int) -> None:
        """Move the clock past `n` steps of `tokens` tokens each, the last of `last` seconds, in which `batch` sequences decode."""
        tally = self.tally
        self.now = now = self.now + seconds
        self.decided = now - last
        self.steps += n
        self.tick += n if batch else 0
        written = batch * n
        self.context += written
        count = self.batch + len(self.partial)
        used = self.context + self.filling + self.pad * count - self.saved
        tally.busy += seconds
        tally.steps += n
        tally.count += 1
        tally.area_batch += seconds * count
        tally.area_used += seconds * (used - written / 2)
        if used > tally.most_used:
            tally.most_used = used
        if batch > tally.most_batch:
            tally.most_batch = batch
        if tokens > tally.most_tokens:
            tally.most_tokens = tokens
        if tally.count >= tally.due:
            tally.sample(now, count, len(self.waiting), used / self.pool)
        if not batch:
            return
        self.owed -= written
        tally.output_tokens += written
        if self.fresh or self.stall:
            self._first_gaps(now - seconds + seconds / n, seconds / n, batch)
            written -= batch
        if written:
            tally.gap(seconds / n, written)
        while self.unsent and self.unsent[0][0] <= self.tick:
            _, _, epoch, job = heappop(self.unsent)
            if epoch == job.epoch:
                job.first = now
        ends = self.ends
        while ends and (ends[0][0] <= self.tick or ends[0][2] != ends[0][3].epoch):
            due, _, epoch, job = heappop(ends)
            if epoch == job.epoch and due <= self.tick:
                job.made = job.output
                job.epoch += 1
                self._stop(job)
                self._leave(job, now)

    def _first_gaps(self, instant: float, step: float, batch: int) -> None:
        """Count the gaps before the tokens of one step that ends at `instant`.

        Sequences that joined since the last step waited since their newest token, wherever that was written; the others stalled
        together, through prefills that let no decodes ride.
        """
        for job in self.fresh:
            self.tally.gap(instant - job.last, 1)
        others = batch - len(self.fresh)
        if others:
            self.tally.gap(step + self.stall, others)
        self.fresh.clear()
        self.stall = 0.0
