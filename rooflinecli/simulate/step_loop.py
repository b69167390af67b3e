"""What a step takes: a mixed one, or decodes in one stride between two events.

The times of decodes that follow one another form an arithmetic series, since a decode step grows linearly with the context.
"""

from __future__ import annotations

from heapq import heappop
from math import ceil, log, sqrt

from rooflinecli.simulate.request import SimRequest
from rooflinecli.simulate.scheduler import SchedulerState
from rooflinecli.simulate.stats import ABOVE, PER_E
from rooflinecli.simulate.step_times import KNOTS

LONGEST = 64  # decode steps of a stride at least allowed; beyond, an eighth of the context, so that its line stays one


class StepLoop(SchedulerState):
    """Residents and the time that their steps take."""

    def _mixed(self, chunks: list[tuple[SimRequest, int]], ride: bool) -> None:
        """A step with prompts, decodes riding along where the policy lets them; otherwise they stand still."""
        tokens, attention = 0, 0.0
        for job, take in chunks:
            tokens += take
            attention += self.prices.attention(job.done, job.done + take)
        batch = self.batch if ride else 0
        context = self.context / batch if batch else 0.0
        s = self.scheduler
        beside = (self.factor, s.graph_tokens, s.launch) if self.batch else (1.0,)  # alone, a prompt takes its price
        seconds, fill = self.prices.mixed(tokens, attention, batch, context, *beside)
        if self.debt:
            seconds += self._pay()
        if self.batch and not batch:
            self.stall += seconds
        self.tally.prompt_tokens += tokens
        self._move(seconds, 1, seconds, batch, tokens + batch)
        for job, take in chunks:
            job.done += take
            if job.done >= job.need:
                self._prompt_done(job, self.now + fill)

    def _stride(self, until: float, waits: bool) -> bool:
        """As many decode steps as nothing interrupts; none, where `waits` and only what comes at `until` would."""
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
            known = bool(future) and future[0].ready < until
            event = future[0].ready if known else until
            last = prices.decode(batch, context + n - 1) if context + n > 1 << i else first + slope * (n - 1)
            if self.now + n * (first + last) / 2 > event:
                if waits and not known:
                    return False
                n = self._before(event, first, slope, n)
                last = first + slope * (n - 1)
                if context + n > 1 << i:
                    last = prices.decode(batch, context + n - 1)
        seconds = n * (first + last) / 2
        if self.debt:
            seconds += self._pay()
        self.held += n
        self._move(seconds, n, last, batch, batch)
        return True

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
        free = self.pool - self.context - self.filling - self.pad * (batch + len(self.partial)) + self.saved
        if most * batch > free:
            most = free // batch
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
        n += -(self.steps + n) % self.poll
        return min(n, most)

    def _pay(self) -> float:
        """What moving cache to and from the host has left to pay."""
        owed, self.debt = self.debt, 0.0
        return owed

    def _move(self, seconds: float, n: int, last: float, batch: int, tokens: int) -> None:
        """The clock, past `n` steps of `tokens` tokens each, the last of which takes `last` seconds, in which `batch` sequences write on."""
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
            gap = seconds / n
            tally.gap_sum += gap * written
            key = int(log(gap) * PER_E + ABOVE)
            gaps = tally.gaps
            if key in gaps:
                gaps[key] += written
            else:
                gaps[key] = written
        if self.unsent:
            self._send_due()
        if self.ends[0][0] <= self.tick:
            self._end_due()

    def _first_gaps(self, instant: float, step: float, batch: int) -> None:
        """The gaps before the tokens of one step that ends at `instant`: what a sequence stood still before counts to its own.

        Those that joined since the last step waited since their newest token, wherever that was written; the others stood
        still together, through prompts that let no decodes ride.
        """
        for job in self.fresh:
            self.tally.gap(instant - job.last, 1)
        others = batch - len(self.fresh)
        if others:
            self.tally.gap(step + self.stall, others)
        self.fresh.clear()
        self.stall = 0.0
