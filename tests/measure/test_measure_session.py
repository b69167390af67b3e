"""The loop over cases: resumes, survives interrupts and refusals, looks again at what a busy machine disturbed."""

import pytest

from rooflinecli.measure import cases, session
from rooflinecli.measure.session import Log, Session, quicker
from rooflinecli.measure.timing import QUICK, Timing, summarize

CASES = [cases.matmul(n, n, n, "fp32") for n in (32, 64, 96, 128)]


class Quiet:
    """A canary that says what the test wants."""

    def __init__(self, *slowdowns):
        self.slowdowns = list(slowdowns)

    def slowdown(self):
        return self.slowdowns.pop(0) if len(self.slowdowns) > 1 else self.slowdowns[0]


class Alone:
    """No other program on the processors, whatever the machine at hand is doing."""

    def share(self):
        return 0.0


@pytest.fixture
def timings(monkeypatch):
    """Every kernel takes a second less each time it is timed; the list says what was timed."""
    seen = []

    def timed(case, protocol, environment, dispatch):
        seen.append(case.sizes["m"])
        seconds = 10.0 - seen.count(case.sizes["m"])
        return Timing(summarize([seconds] * 5), (seconds,) * 5, 1, 0.0)

    monkeypatch.setattr(session, "timed", timed)
    monkeypatch.setattr(session, "CpuContention", Alone)
    return seen


def make(tmp_path, env, **more):
    return Session(env, Log(tmp_path / "log.jsonl", env.fingerprint), QUICK, 60.0, **more)


def test_everything_is_timed_once_on_a_quiet_machine(tmp_path, env, timings):
    found = make(tmp_path, env, canary=Quiet(1.0)).run(CASES)
    assert timings == [32, 64, 96, 128] and len(found) == 4


def test_an_interrupted_run_keeps_what_is_done_and_resumes(tmp_path, env, timings, monkeypatch):
    def stop(case, record):
        if case.sizes["m"] == 96 and record is None:
            raise KeyboardInterrupt

    first = make(tmp_path, env, progress=stop)
    assert len(first.run(CASES)) == 2 and first.interrupted
    second = make(tmp_path, env)
    assert len(second.run(CASES)) == 4 and timings == [32, 64, 96, 128]


def test_a_kernel_that_cannot_run_is_noted_and_passed_over(tmp_path, env, monkeypatch):
    def timed(case, *rest):
        if case.sizes["m"] == 64:
            raise NotImplementedError("no such\ndtype")
        return Timing(summarize([1.0] * 5), (1.0,) * 5, 1, 0.0)

    monkeypatch.setattr(session, "timed", timed)
    s = make(tmp_path, env)
    assert len(s.run(CASES)) == 3 and list(s.failed.values()) == ["no such dtype"]


def test_what_was_timed_on_a_busy_machine_is_timed_again_and_the_quicker_kept(tmp_path, env, timings):
    s = make(tmp_path, env, canary=Quiet(1, 1, 2, 2, 1, 1, 3, 3, 1))
    found = s.run(CASES)
    assert timings == [32, 64, 96, 128, 128, 64]  # the busiest first
    assert [r["looks"] for r in found] == [1, 2, 1, 2] and found[1]["time_s"] == 8.0


def test_the_budget_is_kept_and_the_rest_counted(tmp_path, env, timings):
    s = make(tmp_path, env)
    s.budget = 0.0
    assert s.run(CASES) == [] and s.skipped == 4


def test_waiting_for_quiet_ends_with_patience(tmp_path, env, timings):
    s = make(tmp_path, env, canary=Quiet(2.0), max_timings=1, patience=0.25)
    s.run(CASES[:2])
    assert s.patience <= 0 and timings == [32, 64]


def test_several_processes_time_every_case_the_same_number_of_times(tmp_path, env, monkeypatch):
    protocols = []

    def timed(case, protocol, *rest):
        protocols.append((protocol.minimum, protocol.maximum))
        return Timing(summarize([1.0] * 5), (1.0,) * 5, 1, 0.0)

    monkeypatch.setattr(session, "timed", timed)
    object.__setattr__(env, "processes", 2)
    make(tmp_path, env).run(CASES)
    assert protocols == [(20, 20)] * 4


def test_the_quicker_look_wins():
    slow, quick = {"time_s": 2.0, "looks": 1, "busy": 1.0}, {"time_s": 1.0, "looks": 1, "busy": 2.0}
    assert quicker(None, slow) is slow
    assert (
        quicker(slow, quick)["time_s"] == quicker(quick, slow)["time_s"] == 1.0 and quicker(slow, quick)["looks"] == 2
    )
