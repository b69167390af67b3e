"""The protocol on a clock that the test winds."""

import random

import pytest

from rooflinecli.measure.timing import Protocol, measure


class Machine:
    """A clock and a kernel that takes `cost` seconds per run, plus `latency` per wait."""

    def __init__(self, cost, latency=0.0, jitter=0.0):
        self.now, self.cost, self.latency, self.jitter, self.turns = 0.0, cost, latency, jitter, []
        self.rng = random.Random(1)

    def clock(self):
        return self.now

    def run(self, turn):
        self.turns.append(turn)
        self.now += self.cost * (1 + self.jitter * self.rng.random())
        return turn

    def wait(self, out):
        self.now += self.latency


def timed(machine, protocol, **more):
    return measure(machine.run, machine.wait, protocol, clock=machine.clock, **more)


def test_long_runs_are_timed_one_by_one_and_stop_when_tight():
    machine = Machine(1e-3)
    timing = timed(machine, Protocol(budget=10.0))
    assert timing.batch == 1 and timing.summary.median == pytest.approx(1e-3)
    assert timing.summary.n < 40


def test_short_runs_are_batched_so_that_the_wait_does_not_count():
    machine = Machine(5e-6, latency=20e-6)
    timing = timed(machine, Protocol(budget=10.0, batch_length=5e-3))
    assert timing.batch > 50
    assert timing.summary.median == pytest.approx(5e-6, rel=0.1)


def test_dispatch_is_subtracted_from_short_runs_only():
    assert timed(Machine(5e-6), Protocol(), dispatch=2e-6).summary.median == pytest.approx(3e-6)
    assert timed(Machine(5e-3), Protocol(), dispatch=2e-6).summary.median == pytest.approx(5e-3)


def test_a_chain_divides_by_its_length():
    assert timed(Machine(1e-3), Protocol(), chain=4).summary.median == pytest.approx(0.25e-3)


def test_the_budget_ends_a_noisy_kernel():
    machine = Machine(0.01, jitter=1.0)
    timing = timed(machine, Protocol(budget=0.5, target_spread=1e-6))
    assert machine.now < 1.0 and timing.summary.n >= 9


def test_every_run_sees_the_next_input_set():
    machine = Machine(1e-3)
    timed(machine, Protocol())
    assert machine.turns[2:] == list(range(2, len(machine.turns)))


def test_scatter_is_warned_about_with_a_remedy():
    machine = Machine(0.01, jitter=1.5)
    assert "again" in timed(machine, Protocol(budget=1.0)).warning
    assert timed(Machine(0.01), Protocol(budget=1.0)).warning == ""
