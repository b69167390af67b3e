"""Parts of a step of RL post-training: rollout in the simulator, passes of the trainer, weights and state on the move.

    synchronous   step = rollout + reward + log-probabilities + update + weight sync + offload + fixed
    split, k off  step = max(rollout of k steps / k, reward + log-probabilities + update) + weight sync + fixed

Samples that are carried over to the next step leave no engine waiting for the longest one: such a rollout is the time between the
ends of a step's samples while others take their places.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.importers.source import Options
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.formats import size_of
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.rl.question import Rl
from rooflinecli.questions.simulate.deployment import Deployment, deployment, scheduler_of
from rooflinecli.simulate.cluster import Cluster, Follow, run_open_loop
from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.request import SimRequest
from rooflinecli.simulate.request_load import Lengths, lengths
from rooflinecli.specs.parse_values import number
from rooflinecli.specs.registry import load

PROMPT, OUTPUT, TOOL_OUTPUT = "1k", "lognormal:2k,0.8", "256"
TIMED_STEPS = 2  # steps over which a rollout is timed where samples are carried over, once a step has ended
SIMULATED = 4  # engines that are simulated for all where samples are carried over, since none waits for a longest one
BLOCK = 256  # tokens by which prompts of several turns are shared
QUANTILES = 8  # lengths that stand for all in a packed sequence
LAST_TURN = "last"  # label of the request that ends a sample
PREFILL_CHUNK = 4096  # tokens
MOST_ENGINES = 1024  # devices of one rollout engine that are tried


@dataclass(frozen=True)
class Sample:
    """Tokens of one sample: prompt, output over all turns, what tools added; seconds that it waited for them."""

    group: int
    prompt: int
    outputs: tuple[int, ...]
    tools: tuple[int, ...] = ()
    waits: tuple[float, ...] = ()

    @property
    def output(self) -> int:
        return sum(self.outputs)

    @property
    def tokens(self) -> int:
        return self.prompt + self.output + sum(self.tools)


@dataclass(frozen=True)
class Part:
    """Seconds of a part of a step; `side` is rollout, trainer or both."""

    name: str
    side: str
    floor_s: float
    time_s: float
    interval_s: tuple[float, float]

    def scaled(self, factor: float, spread: tuple[float, float] | None = None) -> Part:
        """The part `factor` times as long, never below its floor; `spread`: ends of its interval over its time."""
        time = max(self.time_s * factor, self.floor_s)
        low, high = (end / self.time_s if self.time_s else 1.0 for end in self.interval_s) if spread is None else spread
        return Part(self.name, self.side, self.floor_s, time, (max(time * low, self.floor_s), time * high))


@dataclass(frozen=True)
class Rollout:
    """The rollout of a step: seconds of the slowest engine, the fraction of engine time without work, mean decode batch."""

    part: Part
    engine: Deployment
    engines: int
    devices: int
    idle_fraction: float
    limits: ReplicaLimits


def samples_of(question: Rl, steps: int = 1) -> list[Sample]:
    """The samples of some steps, those of a prompt next to each other. Equal seeds draw equal lengths."""
    prompts, each = question.sequences // question.samples_each * steps, question.samples_each
    openings = lengths("prompt", question.prompt or PROMPT).draw(prompts, question.seed, 2)
    outputs = lengths("output", question.output or OUTPUT).draw(prompts * each, question.seed, 3)
    if question.max_output:
        outputs = [min(tokens, int(question.max_output)) for tokens in outputs]
    if question.turns == 1:
        return [Sample(i // each, openings[i // each], (tokens,)) for i, tokens in enumerate(outputs)]
    between = question.turns - 1
    tools = iter(
        lengths("tool-output", question.tool_output or TOOL_OUTPUT).draw(len(outputs) * between, question.seed, 4)
    )
    waits = iter(_waits(question, len(outputs) * between))
    found = []
    for i, tokens in enumerate(outputs):
        turns = [max(tokens // question.turns, 1)] * between
        outside = tuple(islice(tools, between)), tuple(islice(waits, between))
        found.append(Sample(i // each, openings[i // each], (*turns, max(tokens - sum(turns), 1)), *outside))
    return found


def _waits(question: Rl, count: int) -> list[float]:
    """Seconds that tools take, drawn like lengths but not whole: in milliseconds. Raises UsageError."""
    written = question.tool_wait
    if written is None:
        return [0.0] * count
    kind, colon, rest = written.partition(":")
    values = [number("--tool-wait", part, "seconds", "tool-wait") for part in (rest.split(",") if colon else [kind])]
    scaled = [1000 * v if i == 0 or kind == "uniform" else v for i, v in enumerate(values)]
    wanted = {"uniform": 2, "lognormal": 2, "exponential": 1}.get(kind, 0 if colon else 1)
    if len(values) != wanted or (kind == "uniform" and values[0] > values[1]):
        raise UsageError(f"--tool-wait {written}: write 2, uniform:1,10, lognormal:5,1.0 or exponential:3", "tool-wait")
    drawn = Lengths(kind if colon else "fixed", tuple(scaled)).draw(count, question.seed, 5)
    return [milliseconds / 1000 for milliseconds in drawn]


@lru_cache(maxsize=256)
def rollout(question: Rl, devices: int, tp: int | None = None, floored: bool = True) -> Rollout:
    """Simulate the rollout of a step on a number of devices, on engines of the size given or the fastest; its floor is 0 unless `floored`.

    Raises Infeasible where no engine holds the model.
    """
    size, sizes_open = tp or question.rollout_tp, question.replace(rollout_tp=None)
    made = _timed(sizes_open, devices, size) if size else _fastest(sizes_open, devices)
    if not floored:
        return made
    one, (samples, mean) = made.engine, _samples_under_way(question)
    prompt = sum(sample.prompt for sample in samples) / len(samples)
    options = (*question.rollout_options(one.devices, int(one.layout.tp)), ("efficiency", "ideal"))
    ideal = deployment(options, prompt, max(mean - prompt, 1.0))
    (low, high), seconds = made.part.interval_s, made.part.time_s
    floor = min(_simulated(question, ideal, samples, made.engines, mean)[0], seconds)
    return replace(made, part=Part("rollout", "rollout", floor, seconds, (max(low, floor), high)))


def _samples_under_way(question: Rl) -> tuple[list[Sample], float]:
    """The samples that a rollout is timed over, and their mean tokens."""
    in_flight = 1 + max(question.staleness, 1)  # steps of samples that may be under way at once
    steps = in_flight + 1 + TIMED_STEPS if question.carries_over else max(question.staleness, 1)
    samples = samples_of(question, steps)
    return samples, sum(sample.tokens for sample in samples) / len(samples)


@lru_cache(maxsize=256)
def _timed(question: Rl, devices: int, size: int, limit: float = math.inf) -> Rollout:
    """The rollout on engines of `size`, its floor left out; no shorter than `limit` once it takes that long."""
    samples, mean = _samples_under_way(question)
    one = _engine(question, size, max(sample.tokens for sample in samples), mean)
    if one.devices > devices:
        raise Infeasible(
            f"a rollout engine of {one.devices} devices is more than the {devices} of the rollout; lower --rollout-tp"
        )
    engines = max(devices // one.devices, 1) * one.ranks
    seconds, idle = _simulated(question, one, samples, engines, mean, limit)
    low, high = one.error
    part = Part("rollout", "rollout", 0.0, seconds, (low * seconds, high * seconds))
    return Rollout(
        part, one, engines, engines // one.ranks * one.devices, idle, one.limits(mean, scheduler_of(one.ctx, ()))
    )


def _engine(question: Rl, tp: int, longest: int, mean: float) -> Deployment:
    """An engine of this tensor parallel size. Raises Infeasible where it does not hold the longest sample."""
    options = question.rollout_options(max(tp, question.rollout_ep or 1), tp)
    one = deployment(options, mean / 2, mean / 2)
    if one.limits(mean, scheduler_of(one.ctx, ())).pool <= longest + BLOCK:
        raise Infeasible(
            f"--rollout-tp {tp}: a sample of {longest:,} tokens needs more cache than an engine has; raise it"
        )
    return one


def _fastest(question: Rl, devices: int) -> Rollout:
    """The rollout of the fastest engine size: the smallest that holds the model, and twice as large while that is faster."""
    size, best = 1, None
    last: Infeasible | UsageError | None = None
    while size <= min(devices, MOST_ENGINES):
        try:
            made = _timed(question, devices, size, math.inf if best is None else best.part.time_s)
        except (Infeasible, UsageError) as error:  # sizes that do not divide the heads, or do not hold the model
            last = error
        else:
            if best is not None and made.part.time_s >= best.part.time_s:
                break
            best = made
        size *= 2
    if best is None:
        raise last or Infeasible("no rollout engine fits")
    return best


def _between_ends(
    cluster: Cluster, jobs: list[SimRequest], follow: Follow | None, first: int, last: int, limit: float
) -> float:
    """Seconds between the ends of two samples, counted in the order in which they end, or more than `limit` where they are; what is under
    way then is not followed further."""
    ends = list[float]()

    def ended(job: SimRequest) -> SimRequest | None:
        if job.label == LAST_TURN:
            ends.append(job.finish)
        if len(ends) > last or (len(ends) > first and job.finish - ends[first] > limit):
            raise StopIteration
        return follow(job) if follow is not None else None

    with suppress(StopIteration):
        run_open_loop(cluster, jobs, ended)
    return ends[-1] - ends[first]


def _simulated(
    question: Rl, one: Deployment, samples: list[Sample], engines: int, mean: float, limit: float = math.inf
) -> tuple[float, float]:
    """(seconds of a step's rollout, fraction of engine time after an engine's own last sample); no more than that it takes `limit` where it does.

    Where samples are carried over, engines hold as many as staleness lets be under way, and a step lasts until a step's samples have
    ended; those under way at the weight sync that ends it are prefilled again.
    """
    scheduler, router = scheduler_of(one.ctx, ()), load("simulate/routers", "round-robin")
    limits, ends = one.limits(mean, scheduler), list[float]()
    each = question.sequences / engines
    room = question.rollout_batch or len(samples)
    held = max(min(round((1 + max(question.staleness, 1)) * each), room), 1)
    timed = range(0, engines, -(-engines // SIMULATED)) if question.carries_over else range(engines)
    for i in timed:  # the samples of a prompt stay together, as a request of several outputs does
        share = samples[i * len(samples) // engines : (i + 1) * len(samples) // engines]
        if max(ends, default=0.0) >= limit:
            break
        if not share:
            ends.append(0.0)
            continue
        cluster = Cluster([Replica(one.prices, limits, scheduler, PrefixCache())], router)
        jobs, follow = _jobs(question, share, held if question.carries_over else min(room, len(share)))
        if question.carries_over:
            first, last = (min(round(steps * each), len(share) - 1) for steps in (1, 1 + TIMED_STEPS))
            seconds = _between_ends(cluster, jobs, follow, first, last, limit * TIMED_STEPS) / TIMED_STEPS
            # mean tokens of a sample under way at any instant: longer ones are more often
            work = sum(sample.output for sample in share)
            context = sum(sample.output * (sample.tokens - sample.output / 2) for sample in share) / work
            one.prices.attention(0, PREFILL_CHUNK)  # grows the tables
            again = held * context / PREFILL_CHUNK * one.prices.linear[PREFILL_CHUNK]  # prefilled, attention aside
            ends.append(seconds + again)
        else:
            run = run_open_loop(cluster, jobs, follow)
            ends.append(max(job.finish for job in run) / max(question.staleness, 1))
    last_end = max(ends)
    return last_end, 1 - sum(ends) / (last_end * len(ends))


def _jobs(question: Rl, share: list[Sample], held: int) -> tuple[list[SimRequest], Follow | None]:
    """Requests of the first turns of as many samples as are in flight at once, and what follows the end of each request: the next turn
    with the context so far, after the tool's wait; after the last one, another sample."""
    if question.turns == 1 and held >= len(share):
        return [
            SimRequest(i, 0.0, s.prompt, s.output, hashes=(s.group,), span=s.prompt, label=LAST_TURN)
            for i, s in enumerate(share)
        ], None
    turn, queue = [0] * len(share), iter(range(held, len(share)))

    def request_at(i: int, context: int, arrival: float) -> SimRequest:
        sample, span = share[i], min(BLOCK, share[i].prompt)
        shared = sample.prompt // span
        keys = [f"{sample.group}/{b}" for b in range(shared)] + [f"{i}:{b}" for b in range(shared, context // span)]
        last = LAST_TURN if turn[i] + 1 == len(sample.outputs) else ""
        return SimRequest(i, arrival, context, sample.outputs[turn[i]], hashes=tuple(keys), span=span, label=last)

    def follow(job: SimRequest) -> SimRequest | None:
        i, sample = job.index, share[job.index]
        if job.label == LAST_TURN:
            following = next(queue, None)
            return None if following is None else request_at(following, share[following].prompt, job.finish)
        context = job.prompt + job.output + sample.tools[turn[i]]
        arrival = job.finish + sample.waits[turn[i]]
        turn[i] += 1
        return request_at(i, context, arrival)

    return [request_at(i, s.prompt, 0.0) for i, s in enumerate(share[:held])], follow


@dataclass(frozen=True)
class Update:
    """The trainer's passes over a step: optimizer steps, seconds of an optimizer step, and of a forward pass over all sequences."""

    answer: TrainAnswer
    optimizer_steps: int

    def part(self, name: str) -> Part:
        """Forward, backward and optimizer over all sequences."""
        a, n = self.answer, self.optimizer_steps
        floor, time, low, high = (n * float(seconds) for seconds in (a.floor_s, a.time_s, *a.interval_s))
        return Part(name, "trainer", floor, time, (low, high))

    def forward(self, name: str, epochs: int) -> Part:
        """One forward pass over all sequences."""
        whole, optimizer = self.part(name), self.optimizer_steps * float(self.answer.breakdown_s.get("optimizer", 0.0))
        passes = 4 if self.answer.layout_of_phase.recompute == "full" else 3  # of a step without its optimizer
        share = 1 / passes * (whole.time_s - optimizer) / whole.time_s / epochs
        low, high = whole.interval_s
        return Part(name, "trainer", whole.floor_s / 3 / epochs, whole.time_s * share, (low * share, high * share))


def update(question: Rl, devices: int, samples: list[Sample], model: str | None = None) -> Update:
    """The update of a step on a number of devices, sequences packed or padded. Raises Infeasible and UsageError as estimates do."""
    count = question.mini_batch or question.sequences
    totals = sorted(sample.tokens for sample in samples)
    mean, longest = sum(totals) / len(totals), totals[-1]
    options = question.trainer_options(devices, model)
    if question.packing:
        sizes = [float(options.get(axis) or 1) for axis in ("tp", "pp", "cp")]
        replicas = max(devices / (sizes[0] * sizes[1] * sizes[2]), 1)
        packed, room = 1, float(question.max_tokens_per_device or longest)
        while 2 * packed * mean <= room and count % (2 * packed) == 0 and count / (2 * packed) % replicas == 0:
            packed *= 2
        seq = _divisible(packed * mean, options)
        places = [totals[(2 * i + 1) * len(totals) // (2 * QUANTILES)] for i in range(QUANTILES)]
        options |= {"batch": count // packed, "seq": seq, "lengths": ",".join(str(min(p, seq)) for p in places)}
    else:
        options |= {"batch": count, "seq": _divisible(longest, options)}
    found = _estimate(tuple(options.items()))
    return Update(found, -(-question.sequences // count) * question.epochs)


def _divisible(tokens: float, options: Options) -> int:
    """The length rounded up so that context and sequence parallel ranks have equal parts of it."""
    unit = 2 * int(float(options.get("cp") or 1)) * int(float(options.get("tp") or 1))
    return -(-round(tokens) // unit) * unit


@lru_cache(maxsize=256)
def _estimate(options: tuple[tuple[str, object], ...]) -> TrainAnswer:
    answer = estimate(build_request.request(dict(options))).phases["train"]
    assert isinstance(answer, TrainAnswer)
    return answer


def weight_bytes(question: Rl, engine: Deployment) -> float:
    """Bytes of the weights in the rollout's format."""
    return float(parameters(engine.ctx.spec).total) * size_of(question.rollout_dtype or engine.ctx.dtype)
