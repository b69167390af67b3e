"""The resumable loop: build, compile, time, log, report. Ctrl-C keeps completed cases; a budget ends the run early.

The log has one line of JSON for each timed case, flushed as it is written, so that an interrupted run resumes. Contention by other
programs is seen by a reference kernel timed around every case, and by the share of the processors that others use.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.measure.cases import KernelCase, Record
from rooflinecli.measure.collectives import bus_bytes
from rooflinecli.measure.device import Environment, current_conditions
from rooflinecli.measure.timing import Protocol, Run, T, Timing, Wait, summarize, timed

if TYPE_CHECKING:
    import jax


BUSY = 1.15


def was_contended(record: Record) -> bool:
    """Whether a kernel was timed while other programs ran."""
    return bool(record.get("busy", 1.0) > BUSY)


class ReferenceKernel:
    """A matmul of a few hundred microseconds on all cores. `best` may come from an earlier run's log."""

    def __init__(self, best: float = float("inf"), size: int = 384):
        import jax

        from rooflinecli.measure.kernels.base import normal

        x, w = normal(1, (size, size), "fp32"), normal(2, (size, size), "fp32")
        run: jax.stages.Compiled = jax.jit(lambda x, w: x @ w).lower(x, w).compile()
        self._call = lambda: run(x, w).block_until_ready()
        self._call()
        self.best = best
        for _ in range(20):
            self.slowdown(1)

    def slowdown(self, runs: int = 4) -> float:
        """Current time over the best ever measured; 1 on an idle machine."""
        taken = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            self._call()
            taken = min(taken, time.perf_counter() - start)
        self.best = min(self.best, taken)
        return taken / self.best


CALM = 0.08  # fraction of all processors that others may use before a timing counts as contended
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # /proc/stat: user, nice, system, irq, softirq, steal


class CpuContention:
    """Processor time of other processes since construction, as a fraction of all processors; 0 where the system does not report it."""

    def __init__(self) -> None:
        self.start = _cpu_seconds()

    def share(self) -> float:
        now = _cpu_seconds()
        if now is None or self.start is None:
            return 0.0
        wall, busy, own = (after - before for after, before in zip(now, self.start, strict=True))
        cores = os.cpu_count() or 1
        return max(0.0, (busy - own) / (wall * cores)) if wall > 0 else 0.0


def _cpu_seconds() -> tuple[float, float, float] | None:
    """Wall seconds, busy processor seconds of the machine, processor seconds of this process."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    own = os.times()
    return time.monotonic(), sum(float(fields[i]) for i in _BUSY_FIELDS) / ticks, own.user + own.system


def time_in_blocks(run: Run[T], wait: Wait[T], budget: float, *, enough: int = 7, block: float = 0.3) -> Timing:
    """Time a long program in blocks and keep the undisturbed ones; waits up to three more budgets for `enough` of them.

    On a machine that is never idle all runs count, with a warning.
    """
    for turn in range(2):
        wait(run(turn))
    start, blocks = time.monotonic(), list[tuple[float, list[float]]]()
    while True:
        others, samples, end = CpuContention(), list[float](), time.monotonic() + block
        while not samples or time.monotonic() < end:
            begin = time.perf_counter()
            wait(run(len(samples)))
            samples.append(time.perf_counter() - begin)
        blocks.append((others.share(), samples))
        calm = [s for share, of_block in blocks if share <= CALM for s in of_block]
        spent = time.monotonic() - start
        if (spent >= budget and len(calm) >= enough) or spent >= 4 * budget:
            break
    kept, note = calm, ""
    if len(calm) < 3:
        kept = [s for _, of_block in blocks for s in of_block]
        note = "other programs had part of the processors all the time: measure again when they are idle"
    return Timing(summarize(kept), tuple(kept), 1, 0.0, note=note)


Progress = Callable[[KernelCase, "Record | None"], None]


@dataclass
class Session:
    """One run over cases. `failed` maps a case's key to the reason it could not be timed.

    The time left after the first pass is used to time cases again, first those timed on a busy machine. A record
    keeps its quickest timing: interference only adds time.
    """

    environment: Environment
    log: Log
    protocol: Protocol
    budget: float
    progress: Progress = lambda case, record: None
    canary: ReferenceKernel | None = None
    dispatch: float = 0.0
    max_timings: int = 2
    patience: float = 0.0
    interrupted: bool = False
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def run(self, cases: list[KernelCase]) -> list[Record]:
        """Time every case that is not in the log, then repeat suspect ones. Returns all records of `cases`."""
        # all run every case the same number of times, or a collective would deadlock
        if self.environment.processes > 1:
            self.protocol = replace(
                self.protocol, minimum=20, maximum=20, budget=1e9, target_spread=0.0, batch_below=0.0
            )
            for case in cases:
                self._one(case, 1e12)
            return [self.log.records[case.key] for case in cases if case.key in self.log]
        deadline = time.monotonic() + self.budget
        todo = [case for case in cases if case.key not in self.log]
        try:
            self.skipped = self._pass(todo, deadline)
            for _ in range(1, self.max_timings):
                self._pass(self.suspects(cases), deadline)
        except KeyboardInterrupt:
            self.interrupted = True
        return [self.log.records[case.key] for case in cases if case.key in self.log]

    def _pass(self, todo: list[KernelCase], deadline: float) -> int:
        """Time each case of `todo` once; return how many did not fit into the time."""
        for i, case in enumerate(todo):
            left = deadline - time.monotonic()
            if left <= self.protocol.budget:
                return len(todo) - i
            self._one(case, left / (len(todo) - i))
        return 0

    def suspects(self, cases: list[KernelCase]) -> list[KernelCase]:
        """Cases timed fewer than `max_timings` times, those whose canary ran slow first."""
        logged = [(self.log.records[c.key], c) for c in cases if c.key in self.log]
        again = [
            (r["busy"], i, c)
            for i, (r, c) in enumerate(logged)
            if r["looks"] < self.max_timings and (r["busy"] > BUSY or r["spread"] > 0.05)
        ]
        return [c for _, _, c in sorted(again, key=lambda item: (-item[0], item[1]))]

    def _quiet(self) -> float:
        """Slowdown of the reference kernel, after waiting for an idle machine while patience lasts."""
        if self.canary is None:
            return 1.0
        start = time.monotonic()
        busy = self.canary.slowdown()
        while busy > BUSY and self.patience > 0:
            time.sleep(0.1)
            busy = self.canary.slowdown()
            self.patience -= time.monotonic() - start
            start = time.monotonic()
        return busy

    def _one(self, case: KernelCase, share: float) -> None:
        """One case within about its share of the time left; a case that cannot run on this device is recorded as failed."""
        self.progress(case, None)
        protocol = replace(self.protocol, budget=max(0.02, min(self.protocol.budget, 0.6 * share)))
        before, others = self._quiet(), CpuContention()
        try:
            timing = timed(case, protocol, self.environment, self.dispatch)
        except Exception as error:  # a shape or dtype that this backend does not support
            self.failed[case.key] = " ".join(str(error).split())[:200] or type(error).__name__
            return
        share = others.share() if self.environment.platform == "cpu" else 0.0
        busy = max(before, self.canary.slowdown() if self.canary else 1.0, 1 + (share if share > CALM else 0.0))
        extra: Record = {"bus_bytes": bus_bytes(case.record())} if case.suite == "collectives" else {}
        if self.environment.platform == "gpu" and (now := current_conditions()):
            extra["conditions"] = now
        record = quicker(
            self.log.records.get(case.key),
            {
                **case.record(),
                **extra,
                **log_record(timing),
                "busy": round(busy, 3),
                "looks": 1,  # how often it was timed, as logs call it
                "date": self.environment.date,
            },
        )
        self.log.append(record)
        self.progress(case, record)


def quicker(old: Record | None, new: Record) -> Record:
    """The quicker of two timings of one case, with their number."""
    if old is None:
        return new
    return {**(new if new["time_s"] < old["time_s"] else old), "looks": old["looks"] + 1}


def log_record(timing: Timing) -> Record:
    """A timing as a line of the log, in SI."""
    s = timing.summary
    return {
        "time_s": s.p10, "median_s": s.median, "mad_s": s.mad, "interval_s": [s.median_low, s.median_high], "runs": s.n, "batch": timing.batch,
        "compile_s": timing.compile_s, "dispatch_s": timing.dispatch, "outliers": s.outliers, "spread": round(s.spread, 4), "warning": timing.warning,
    }  # fmt: skip


SCHEMA = "roofline-measure/1"


class Log:
    """Records by key under one machine fingerprint. Later lines win; a line cut short by an interrupt is skipped."""

    def __init__(self, path: Path, fingerprint: str, *, fresh: bool = False):
        self.path, self.fingerprint = path, fingerprint
        self.foreign = 0
        self._muted = False
        self.records: dict[str, Record] = {}
        if fresh and path.exists():
            path.replace(path.with_name(path.name + ".old"))
        for record in _lines(path):
            if record.get("fingerprint") == fingerprint:
                self.records[str(record.get("key"))] = record
            else:
                self.foreign += 1

    def __contains__(self, key: str) -> bool:
        return key in self.records

    def mute(self) -> None:
        """Keep records in memory only: another process writes the file."""
        self._muted = True
        self.records.clear()

    def append(self, record: Record) -> None:
        """Write one record and keep it. Raises UsageError when the file cannot be written."""
        whole = {"schema": SCHEMA, "fingerprint": self.fingerprint, **record}
        self.records[str(record["key"])] = whole
        if self._muted:
            return
        try:
            cut = self.path.exists() and self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n"
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(("\n" if cut else "") + json.dumps(whole) + "\n")
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written ({error.strerror}); give --log a writable path") from None


def _lines(path: Path) -> Iterator[Record]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("schema") == SCHEMA:
            yield record
