"""One replica: a load that comes in, and a clock that moves from step to step, or stride by stride between two events."""

from __future__ import annotations

from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.request import INF, SimRequest
from rooflinecli.simulate.step_loop import StepLoop


class Replica(StepLoop):
    """A queue, a running batch, a pool of cache and a clock: what the fleet steps and gives requests to."""

    def enqueue(self, job: SimRequest) -> None:
        """Take a job: the scheduler sees it once the front end is through with it."""
        s = self.scheduler
        self.under_way += 1
        if not job.swapped:
            job.ready = job.arrival + s.front + s.per_token * job.prompt + s.per_stream * self.under_way
        if job.ready < self.front:
            job.ready = self.front
        self.front = job.ready
        if self.store is not None and self.store.tiers and not job.swapped:
            self._fetch(self.store, job)
        else:
            self.future.append(job)

    def _fetch(self, store: PrefixCache, job: SimRequest) -> None:
        """What of the prompt waits in tiers comes back first; those behind it that miss nothing go before it."""
        job.ready = store.fetch(job, job.ready, self.pool - self.used)
        place = len(self.future)
        while place and self.future[place - 1].ready > job.ready:
            place -= 1
        self.future.insert(place, job)

    def step(self, until: float, waits: bool = False) -> bool:
        """One step, or a stride of them, starting before `until`; whether there was anything to do.

        `waits`: a stride that only something new at `until` would cut is left until that is known; nothing ends before.
        """
        if self.now >= self.warm:
            self.end_warmup()
        if not (self.batch or self.partial or self.waiting):
            if not self.future or self.future[0].ready >= until:
                return False
            self.now = self.decided = max(self.now, self.future[0].ready)
            self._see(self.now)
        elif self.now >= until:
            return False
        elif self.steps % self.poll == 0 or not self.batch:
            self._see(self.decided if self.ahead else self.now)
        if self.batch:
            held = self.context + self.filling + self.pad * (self.batch + len(self.partial)) - self.saved
            if held + self.batch > self.pool:
                self._preempt_until_it_fits()
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
        return self._stride(until, waits)

    def on_failure(self) -> tuple[Replica, list[SimRequest]]:
        """One to start in its place, which knows nothing and counts on; and the jobs that it had, as they were when they came."""
        running = [job for _, _, epoch, job in self.ends if epoch == job.epoch]
        jobs = [*running, *self.partial, *self.waiting, *self.future]
        for job in jobs:
            job.reset()
        store = self.store.reset_copy() if self.store is not None else None
        fresh = Replica(self.prices, self.limits, self.scheduler, store, self.hand_over)
        fresh.tally, fresh.warm = self.tally, self.warm
        return fresh, jobs

    def end_warmup(self) -> None:
        """The warm-up is over: what was counted until now does not count; once."""
        if self.warm < INF:
            self.tally, self.warm = self.tally.reset_copy(), INF

    def _preempt_until_it_fits(self) -> None:
        while self.batch and self.used + self.batch > self.pool:
            self._preempt()

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
