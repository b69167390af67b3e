"""One replica: a queue, a running batch, a pool of cache, and a clock that moves from step to step.

Decodes between two events (an arrival, an end, a full pool) are taken in one stride: their times form an arithmetic
series, since a decode step grows linearly with the context. Nothing here is per token or per running sequence: ends wait
in a heap by the tick (count of decode steps) at which they are due, and contexts are kept as a sum.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, sqrt
from typing import Any

from rooflinecli.simulate.job import INF, Job
from rooflinecli.simulate.prefix import Store
from rooflinecli.simulate.prices import KNOTS, Prices
from rooflinecli.simulate.tally import Tally
from rooflinecli.specs.registry import load
from rooflinecli.specs.scheduler import Scheduler

LONGEST = 64  # decode steps of a stride at least allowed; beyond, an eighth of the context, so that its line stays one


@dataclass(frozen=True)
class Limits:
    """What a replica may hold: tokens of cache, sequences; bytes of cache per token and bytes per second to the host, for swapping."""

    pool: int
    sequences: int
    bytes_per_token: float = 0.0
    swap_rate: float = 0.0
    stride: bool = True


class Replica:
    """A replica under a scheduler. `hand_over`: prompts leave after their first token, for a pool of decoders to go on with."""

    def __init__(
        self, prices: Prices, limits: Limits, scheduler: Scheduler, store: Store | None = None, hand_over: bool = False
    ):
        self.prices, self.limits, self.scheduler, self.store, self.hand_over = (
            prices,
            limits,
            scheduler,
            store,
            hand_over,
        )
        self.policy: Any = load("simulate/policies", scheduler.policy)
        self.pad = scheduler.block - 1
        self.now = self.decided = self.stall = self.debt = 0.0
        self.future: deque[Job] = deque()
        self.waiting: deque[Job] = deque()
        self.partial: list[Job] = []
        self.ends: list[tuple[int, int, int, Job]] = []
        self.unsent: list[tuple[int, int, int, Job]] = []  # first tokens that wait for more of them
        self.joined: list[tuple[Job, int]] = []
        self.finished: list[Job] = []
        self.batch = self.context = self.tick = self.filling = self.saved = self.steps = self.held = 0
        self.owed = 0  # tokens that the running batch has still to write
        self.pause = INF  # decode steps until the policy wants to be asked again
        self.under_way = 0
        self.tally = Tally()

    # --- what policies and routers see -----------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """Tokens of cache taken, blocks counted as if each sequence's last held one token only, so never too few."""
        return self.context + self.filling + self.pad * (self.batch + len(self.partial)) - self.saved

    def room(self, job: Job) -> bool:
        """Whether a waiting job may enter now, beside a further token of every running sequence."""
        if self.batch + len(self.partial) >= self.limits.sequences:
            return False
        share = self.scheduler.reserve_share
        ahead = share * (self.owed + sum(j.remaining for j in self.partial) + job.remaining) if share else 0.0
        known = self.store.pinned_part(job) if self.store is not None else 0
        need = self.used + self.batch + job.need + 1 + job.swapped + self.pad - known + ahead
        return need <= self.limits.pool

    def fill(self, left: int, whole: bool = False) -> list[tuple[Job, int]]:
        """Chunks of prompts for a step of at most `left` tokens: those begun first, then the queue in its order."""
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
            self._enter(self.waiting.popleft())
            if job.swapped:
                self._resume(job)
                left -= 1
                continue
            take = job.need - job.done if whole else min(job.need - job.done, left)
            chunks.append((job, take))
            left -= take
        return chunks

    # --- the load ----------------------------------------------------------------------------------------------------------

    def enqueue(self, job: Job) -> None:
        """Take a job: the scheduler sees it once the front end is through with it."""
        s = self.scheduler
        self.under_way += 1
        if not job.swapped:
            job.ready = job.arrival + s.front + s.per_stream * self.under_way
        if self.future and job.ready < self.future[-1].ready:
            job.ready = self.future[-1].ready
        self.future.append(job)

    def step(self, until: float) -> bool:
        """One step, or a stride of them, starting before `until`; whether there was anything to do."""
        if not (self.batch or self.partial or self.waiting):
            if not self.future or self.future[0].ready >= until:
                return False
            self.now = self.decided = max(self.now, self.future[0].ready)
            self._see(self.now)
        elif self.now >= until:
            return False
        elif self.steps % self.scheduler.poll_steps == 0 or not self.batch:
            self._see(self.decided if self.scheduler.look_ahead else self.now)
        while self.batch and self.used + self.batch > self.limits.pool:
            self._preempt()
        if self.waiting or self.partial:
            self.pause = INF
            chunks, ride = self.policy.compose(self)
            if chunks:
                self._mixed(chunks, ride)
                return True
        else:
            self.held, self.pause = 0, INF
        if not self.batch:
            return self._wait(until)
        self._stride(until)
        return True

    def _wait(self, until: float) -> bool:
        """Nothing runs and nothing may start: the next arrival changes that."""
        if not self.future or self.future[0].ready >= until:
            return False
        self.now = self.decided = max(self.now, self.future[0].ready)
        self._see(self.now)
        return True

    def _see(self, instant: float) -> None:
        while self.future and self.future[0].ready <= instant:
            self.waiting.append(self.future.popleft())

    # --- entering and leaving ------------------------------------------------------------------------------------------------

    def _enter(self, job: Job) -> None:
        """A job leaves the queue for the batch; what its prompt shares with one computed before is there already."""
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

    def _resume(self, job: Job) -> None:
        """A sequence whose cache exists elsewhere goes on; fetching it is owed by the next step."""
        if job.preempted and self.limits.swap_rate:
            self.debt += job.need * self.limits.bytes_per_token / self.limits.swap_rate
        job.swapped = False
        self._join(job)

    def _join(self, job: Job) -> None:
        """From prompt to decode."""
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

    def _prompt_done(self, job: Job, instant: float) -> None:
        """The last chunk was computed: the first token is there, or after a recomputation the next one."""
        job.made += 1
        if job.first == INF and (self.scheduler.stream_steps == 1 or job.output == 1 or self.hand_over):
            job.first = instant
        self.tally.output_tokens += 1
        if job.remaining and not self.hand_over:
            self._join(job)
            return
        self.partial.remove(job)
        self.filling -= job.need + 1
        self._leave(job, instant)

    def _leave(self, job: Job, instant: float) -> None:
        self.under_way -= 1
        if self.store is not None and job.shared:
            self.store.leave(job)
            self.saved = self.store.saved
        job.finish = instant
        self.finished.append(job)

    def _out(self, job: Job) -> None:
        """A running sequence stops running."""
        self.batch -= 1
        self.context -= job.entered + self.tick

    def _send_due(self) -> None:
        """First tokens that waited for as many as are sent at once."""
        while self.unsent and self.unsent[0][0] <= self.tick:
            _, _, epoch, job = heappop(self.unsent)
            if epoch == job.epoch:
                job.first = self.now

    def _end_due(self) -> None:
        """Sequences that have written their last token by now."""
        ends = self.ends
        while ends and (ends[0][0] <= self.tick or ends[0][2] != ends[0][3].epoch):
            due, _, epoch, job = heappop(ends)
            if epoch == job.epoch and due <= self.tick:
                job.made = job.output
                job.epoch += 1
                self._out(job)
                self._leave(job, self.now)

    def _preempt(self) -> None:
        """The sequence that joined last gives its cache up and goes to the head of the queue."""
        while True:
            job, epoch = self.joined.pop()
            if job.epoch == epoch:
                break
        job.epoch += 1
        job.preempted += 1
        self.tally.preemptions += 1
        self.owed -= job.due - self.tick
        job.made = job.output - (job.due - self.tick)
        self._out(job)
        if self.store is not None and job.shared:
            self.store.leave(job)
            self.saved = self.store.saved
        job.done, job.need = 0, job.prompt + job.made
        if self.scheduler.preemption == "swap" and self.limits.swap_rate:
            job.swapped, job.need = True, job.prompt + job.made - 1
            self.debt += job.need * self.limits.bytes_per_token / self.limits.swap_rate
        self.waiting.appendleft(job)

    # --- steps -----------------------------------------------------------------------------------------------------------------

    def _mixed(self, chunks: list[tuple[Job, int]], ride: bool) -> None:
        """A step with prompts, decodes riding along where the policy lets them; otherwise they stand still."""
        tokens, attention = 0, 0.0
        for job, take in chunks:
            tokens += take
            attention += self.prices.attention(job.done, job.done + take)
        batch = self.batch if ride else 0
        seconds, fill = self.prices.mixed(tokens, attention, batch, self.context / batch if batch else 0.0)
        if self.batch and not batch:
            self.stall += seconds
        if self.debt:
            seconds += self._pay()
        self.tally.prompt_tokens += tokens
        self._move(seconds, 1, seconds, batch, tokens + batch)
        for job, take in chunks:
            job.done += take
            if job.done >= job.need:
                self._prompt_done(job, self.now + fill)

    def _stride(self, until: float) -> None:
        """As many decode steps as nothing interrupts."""
        prices, batch = self.prices, self.batch
        if batch >= len(prices.level):
            prices.grow_decodes(batch)
        context = self.context / batch
        i = int(context).bit_length()
        if i > KNOTS:
            i = KNOTS
        slope = prices.slope[batch][i]
        first = last = prices.level[batch][i] + slope * context
        n = self._most()
        if n > 1:
            future = self.future
            event = future[0].ready if future and future[0].ready < until else until
            last = prices.decode(batch, context + n - 1)
            if self.now + n * (first + last) / 2 > event:
                n = self._before(event, first, slope, n)
                last = first if n == 1 else prices.decode(batch, context + n - 1)
        seconds = n * (first + last) / 2
        if self.debt:
            seconds += self._pay()
        self.held += n
        self._move(seconds, n, last, batch, batch)

    def _most(self) -> int:
        """Decode steps until something must be looked at."""
        if not self.limits.stride:
            return 1
        ends, batch = self.ends, self.batch
        while ends[0][2] != ends[0][3].epoch:
            heappop(ends)
        most = ends[0][0] - self.tick
        if most > LONGEST and most > self.context // batch // 8:
            most = max(LONGEST, self.context // batch // 8)
        if self.used + most * batch > self.limits.pool:
            most = (self.limits.pool - self.used) // batch
        if self.unsent and self.unsent[0][0] - self.tick < most:
            most = self.unsent[0][0] - self.tick
        if self.pause < most:
            most = int(self.pause)
        return most if most > 1 else 1

    def _before(self, event: float, first: float, slope: float, most: int) -> int:
        """Steps that start before an event, and those until the queue is next looked at."""
        left = event - self.now
        if left <= 0:
            n = 1
        elif slope > 0:
            half = slope / 2
            n = ceil((-(first - half) + sqrt((first - half) ** 2 + 4 * half * left)) / (2 * half) - 1e-9)
        else:
            n = ceil(left / first - 1e-9)
        n = max(n, 1)
        n += -(self.steps + n) % self.scheduler.poll_steps
        return min(n, most)

    def _pay(self) -> float:
        """What moving cache to and from the host has left to pay."""
        owed, self.debt = self.debt, 0.0
        return owed

    def _move(self, seconds: float, n: int, last: float, batch: int, tokens: int) -> None:
        """The clock, past `n` steps of `tokens` tokens each, the last of which takes `last` seconds, in which `batch` sequences write on.

        What stood still before them counts to the gap before their first token.
        """
        tally = self.tally
        self.now = now = self.now + seconds
        self.decided = now - last
        self.steps += n
        self.tick += n if batch else 0
        written = batch * n
        self.context += written
        count = self.batch + len(self.partial)
        used = self.context + self.filling + self.pad * count - self.saved
        tally.note(seconds, n, count, used, written / 2)
        if used > tally.most_used:
            tally.most_used = used
        if batch > tally.most_batch:
            tally.most_batch = batch
        if tokens > tally.most_tokens:
            tally.most_tokens = tokens
        if tally.count >= tally.due:
            tally.sample(now, count, len(self.waiting), used / self.limits.pool)
        if not batch:
            return
        self.owed -= written
        tally.output_tokens += written
        if self.stall:
            tally.gap(seconds / n + self.stall, batch)
            self.stall, written = 0.0, written - batch
        if written:
            tally.gap(seconds / n, written)
        if self.unsent:
            self._send_due()
        if self.ends[0][0] <= self.tick:
            self._end_due()
