"""One replica: a queue, a running batch, a pool of cache, and a clock that moves from step to step.

Decodes between two events (an arrival, an end, a full pool) are taken in one stride: their times form an arithmetic
series, since a decode step grows linearly with the context.
"""

from __future__ import annotations

from heapq import heappop
from math import ceil, sqrt

from rooflinecli.simulate.job import INF, Job
from rooflinecli.simulate.prefix import Store
from rooflinecli.simulate.prices import KNOTS
from rooflinecli.simulate.residents import Residents

LONGEST = 64  # decode steps of a stride at least allowed; beyond, an eighth of the context, so that its line stays one


class Replica(Residents):
    """Residents with a clock: they are brought on step by step, or stride by stride."""

    # --- the load ----------------------------------------------------------------------------------------------------------

    def enqueue(self, job: Job) -> None:
        """Take a job: the scheduler sees it once the front end is through with it."""
        s = self.scheduler
        self.under_way += 1
        if not job.swapped:
            job.ready = job.arrival + s.front + s.per_stream * self.under_way
        if job.ready < self.front:
            job.ready = self.front
        self.front = job.ready
        if self.store is not None and self.store.tiers and not job.swapped:
            self._fetch(self.store, job)
        else:
            self.future.append(job)

    def _fetch(self, store: Store, job: Job) -> None:
        """What of the prompt waits in tiers comes back first; those behind it that miss nothing go before it."""
        job.ready = store.fetch(job, job.ready, self.limits.pool - self.used)
        place = len(self.future)
        while place and self.future[place - 1].ready > job.ready:
            place -= 1
        self.future.insert(place, job)

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

    # --- steps -----------------------------------------------------------------------------------------------------------------

    def _mixed(self, chunks: list[tuple[Job, int]], ride: bool) -> None:
        """A step with prompts, decodes riding along where the policy lets them; otherwise they stand still."""
        tokens, attention = 0, 0.0
        for job, take in chunks:
            tokens += take
            attention += self.prices.attention(job.done, job.done + take)
        batch = self.batch if ride else 0
        context = self.context / batch if batch else 0.0
        factor = self.factor if self.batch else 1.0
        seconds, fill = self.prices.mixed(tokens, attention, batch, context, factor, self.scheduler.graph_tokens)
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
