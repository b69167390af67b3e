"""One simulation as it is asked: plain words and numbers, so that it can travel to another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.autoscaler import AutoscalePolicy, rule
from rooflinecli.simulate.failures import ReplicaFailure, losses
from rooflinecli.simulate.slo import SloSet, limits
from rooflinecli.specs import parse_values

REQUESTS, PER_SLOT = 1000, 10
MOST_REQUESTS = 20_000_000
LONGEST = 1e9  # s, thirty years: beyond it an instant and a millisecond after it are one number


@dataclass(frozen=True)
class SimulateQuestion:
    """`options` are those of an estimate, as (name, text) pairs; everything else is the load and what takes it.

    Lengths and distributions are as written. Numbers are SI. `replicas` counts copies of the plan; with pools it is theirs.
    Lengths left out are those of an estimate that is not told them.
    """

    options: tuple[tuple[str, str], ...]
    trace: str = ""
    qps: float = 0.0
    arrivals: str = "poisson"
    concurrency: int = 0
    per_slot: int = PER_SLOT
    prompt: str = ""
    output: str = ""
    spread: str = ""
    requests: int = 0
    seed: int = 0
    slo: str = ""
    replicas: int = 1
    router: str = "round-robin"
    prefill_pool: int = 0
    decode_pool: int = 0
    link: str = ""
    prefix_cache: bool = False
    settings: tuple[str, ...] = ()
    speed: float = 1.0
    window: str = ""
    skip_bad: bool = False
    warmup: float = 0.0
    lose: str = ""
    autoscale: str = ""
    start_up: str = ""
    scale: float = 1.0
    stride: bool = True

    @property
    def limits(self) -> SloSet | None:
        return limits(self.slo) if self.slo else None

    @property
    def losses(self) -> tuple[ReplicaFailure, ...]:
        return losses(self.lose) if self.lose else ()

    @property
    def scaling(self) -> AutoscalePolicy | None:
        return rule(self.autoscale, self.start_up) if self.autoscale else None

    @property
    def copies(self) -> int:
        """Copies of the plan, the most there may be where they come and go."""
        return self.scaling.most if self.scaling else self.replicas

    @property
    def load(self) -> str:
        """What kind of load it is."""
        return "closed" if self.concurrency else "open" if self.qps else "trace"

    @property
    def count(self) -> int:
        """Requests to make, of a load that is not recorded; per replica in a closed loop."""
        if self.requests:
            return self.requests
        return self.per_slot * self.concurrency if self.concurrency else REQUESTS

    @property
    def expected(self) -> int:
        """Requests that a progress bar counts to."""
        copies = self.replicas if self.concurrency else 1
        return self.count * copies


def check(question: SimulateQuestion) -> None:
    """Raises UsageError for a load said twice or not at all, and for what does not go together."""
    if not (question.trace or question.qps or question.concurrency):
        raise UsageError("say the load: --qps RATE, --concurrency COUNT or --trace FILE", "qps")
    if question.qps and question.concurrency:
        raise UsageError("--concurrency and --qps each say the load; give one of them", "qps")
    if not question.trace and (question.window or question.speed != 1 or question.skip_bad):
        option = "window" if question.window else "speed" if question.speed != 1 else "skip-bad"
        raise UsageError(f"--{option} speaks of a recorded load; add --trace FILE", option)
    _unused(question)
    if question.count > MOST_REQUESTS:
        option = "requests" if question.requests else "concurrency"
        asks = "" if question.requests else f" and {question.per_slot} prompts per slot"
        written = question.requests or question.concurrency
        raise UsageError(f"--{option} {written:g}{asks}: at most {MOST_REQUESTS:,} requests", option)
    if question.qps and not question.count / question.qps <= LONGEST:
        raise UsageError(
            f"--qps {question.qps:g}: {question.count} requests take longer than {LONGEST:g} s; give a higher rate or fewer requests",
            "qps",
        )
    if bool(question.prefill_pool) != bool(question.decode_pool):
        raise UsageError("--prefill-pool and --decode-pool go together; give both", "prefill-pool")
    _ = question.limits


def _unused(question: SimulateQuestion) -> None:
    """Raises UsageError for what would be read and then leave no trace in the answer."""
    if question.trace and (question.prompt or question.output or question.spread):
        option = "prompt" if question.prompt else "output" if question.output else "lengths"
        raise UsageError(
            f"--{option}: a recorded load has lengths of its own; leave it out, or leave --trace out", option
        )
    if question.speed != 1 and (question.qps or question.concurrency):
        load = "qps" if question.qps else "concurrency"
        raise UsageError(f"--speed plays recorded times, and --{load} replaces them; keep one", "speed")
    if question.arrivals != "poisson" and not question.qps:
        raise UsageError(f"--arrivals {question.arrivals}: says how a rate comes; add --qps", "arrivals")
    if question.per_slot != PER_SLOT and (question.trace or not question.concurrency):
        raise UsageError(
            "--prompts-per-slot speaks of a closed loop that is not recorded; give --concurrency alone",
            "prompts-per-slot",
        )
    for option, given in (("lose", question.lose), ("autoscale", question.autoscale)):
        if given and (question.concurrency or question.prefill_pool):
            raise UsageError(f"--{option} needs an open loop on one pool: --qps or --trace", option)
    if question.autoscale and (question.lose or question.replicas != 1):
        option = "lose" if question.lose else "replicas"
        raise UsageError(f"--autoscale says how many replicas there are; leave --{option} out", "autoscale")
    if question.start_up and not question.autoscale:
        raise UsageError("--start-up speaks of replicas that come with the load; add --autoscale 1:8@32", "start-up")
    _ = question.losses, question.scaling
    if question.link and not question.prefill_pool:
        raise UsageError("--kv-link joins pools; add --prefill-pool and --decode-pool", "kv-link")


def whole(option: str, written: Any, least: int = 1) -> int:
    """A count as written. Raises UsageError."""
    found = int(parse_values.number(f"--{option}", written, "count", option))
    if found < least:
        raise UsageError(f"--{option} {written}: must be at least {least}", option)
    if found > parse_values.MOST_THINGS:
        raise UsageError(
            f"--{option} {written}: is more than anything there is; give at most {parse_values.MOST_THINGS:g}", option
        )
    return found
