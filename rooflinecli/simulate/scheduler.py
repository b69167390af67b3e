"""What a replica holds: the queue, the sequences whose prompts are read, the running batch and its pool of cache.

Nothing here is per token: running sequences are a sum of contexts, ends wait in a heap by the tick (count of decode steps)
at which they are due. What time passes is for `clock` to say.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.request import INF, SimRequest
from rooflinecli.simulate.stats import ReplicaStats
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.registry import load
from rooflinecli.specs.scheduler import Scheduler


@dataclass(frozen=True)
class ReplicaLimits:
    """What a replica may hold: tokens of cache, sequences; bytes of cache per token and bytes per second to the host, for swapping."""

    pool: int
    sequences: int
    bytes_per_token: float = 0.0
    swap_rate: float = 0.0
    stride: bool = True


class SchedulerState:
    """Sequences on a replica under a scheduler. `hand_over`: prompts leave after their first token, for a pool of decoders to go on with."""

    def __init__(
        self,
        prices: StepTimeTable,
        limits: ReplicaLimits,
        scheduler: Scheduler,
        store: PrefixCache | None = None,
        hand_over: bool = False,
    ):
        self.prices, self.limits, self.scheduler, self.store, self.hand_over = (
            prices,
            limits,
            scheduler,
            store,
            hand_over,
        )
        self.policy: Any = load("simulate/policies", scheduler.policy)
        self.pad, self.pool = scheduler.block - 1, limits.pool
        self.poll, self.ahead = scheduler.poll_steps, bool(scheduler.look_ahead)
        moe = scheduler.prompt_factor_moe
        self.factor = scheduler.prompt_factor if moe is None or not prices.moe else moe
        self.now = self.decided = self.stall = self.debt = self.front = 0.0
        self.future: deque[SimRequest] = deque()
        self.waiting: deque[SimRequest] = deque()
        self.partial: list[SimRequest] = []
        self.ends: list[tuple[int, int, int, SimRequest]] = []
        self.unsent: list[tuple[int, int, int, SimRequest]] = []  # first tokens that wait for more of them
        self.joined: list[tuple[SimRequest, int]] = []
        self.fresh: list[SimRequest] = []  # joined since the last decode step: each has a gap of its own before it
        self.finished: list[SimRequest] = []
        self.batch = self.context = self.tick = self.filling = self.saved = self.steps = self.held = 0
        self.owed = 0  # tokens that the running batch has still to write
        self.pause = INF  # decode steps until the policy wants to be asked again
        self.under_way = 0
        self.warm = INF  # instant from which on the tally counts; INF: it counts
        self.tally = ReplicaStats()

    # --- what policies and routers see -----------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """Tokens of cache taken, blocks counted as if each sequence's last held one token only, so never too few."""
        return self.context + self.filling + self.pad * (self.batch + len(self.partial)) - self.saved

    def room(self, job: SimRequest) -> bool:
        """Whether a waiting job may enter now, beside a further token of every running sequence."""
        if self.batch + len(self.partial) >= self.limits.sequences:
            return False
        share = self.scheduler.reserve_share
        ahead = share * (self.owed + sum(j.remaining for j in self.partial) + job.remaining) if share else 0.0
        known = self.store.pinned_tokens(job) if self.store is not None else 0
        need = self.used + self.batch + job.need + 1 + job.swapped + self.pad - known + ahead
        return need <= self.limits.pool

    def fill(self, left: int, whole: bool = False) -> list[tuple[SimRequest, int]]:
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

    # --- entering and leaving ------------------------------------------------------------------------------------------------

    def _enter(self, job: SimRequest) -> None:
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

    def _resume(self, job: SimRequest) -> None:
        """A sequence whose cache exists elsewhere goes on; fetching it is owed by the next step."""
        if job.preempted and self.limits.swap_rate:
            self.debt += job.need * self.limits.bytes_per_token / self.limits.swap_rate
        job.swapped = False
        self._join(job)

    def _join(self, job: SimRequest) -> None:
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
        self.fresh.append(job)

    def _prompt_done(self, job: SimRequest, instant: float) -> None:
        """The last chunk was computed: the first token is there, or after a recomputation the next one."""
        if job.made:
            self.tally.gap(instant - job.last, 1)  # a recomputation: what it waited stands before this token
        job.made += 1
        job.last = instant if self.hand_over else self.now
        if job.first == INF and (self.scheduler.stream_steps == 1 or job.output == 1 or self.hand_over):
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
        if self.store is not None and job.shared:
            self.store.leave(job)
            self.saved = self.store.saved
        job.finish = instant
        self.finished.append(job)

    def _out(self, job: SimRequest) -> None:
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
        if job in self.fresh:
            self.fresh.remove(job)
        else:
            job.last = self.now - self.stall
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
