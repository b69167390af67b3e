"""A load on its way through a fleet that stays as it is, loses replicas, or grows and shrinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.simulate import autoscaler, failures
from rooflinecli.simulate import cluster as running
from rooflinecli.simulate.cluster import Cluster, Tell
from rooflinecli.simulate.request import SimRequest


class LoadRun:
    """Requests that have ended, also after an interrupt; `more` holds numbers that the kind of fleet adds."""

    def __init__(self, question: Simulate, fleet: Cluster, tell: Tell | None):
        self.question, self.fleet, self.tell = question, fleet, tell
        self.ended: list[SimRequest] = []
        self.more: dict[str, Any] = {}
        rule = question.scaling
        self.scaled = autoscaler.AutoscaledCluster(fleet, rule, tell, self.ended) if rule is not None else None

    def __call__(self, jobs: list[SimRequest], follow: Callable[[SimRequest], SimRequest | None] | None) -> None:
        """Play the jobs. Raises Infeasible where some find no replica."""
        question = self.question
        if self.scaled is not None:
            autoscaler.run_open_loop(self.scaled, jobs)
            self.more = {"replicas_started": self.scaled.started}
        elif question.concurrency:
            running.run_closed_loop(self.fleet, jobs, question.concurrency, self.tell, self.ended)
        elif question.replica_failures:
            restarts = failures.run_open_loop(self.fleet, jobs, question.replica_failures, self.tell, self.ended)
            self.more = {"requests_restarted": restarts}
        else:
            running.run_open_loop(self.fleet, jobs, follow, self.tell, self.ended)

    def paid(self, start: float, end: float) -> float | None:
        """Replicas that cost something, in the mean over these seconds; None where all do throughout."""
        return autoscaler.mean(self.scaled.paid, start, end) if self.scaled is not None else None
