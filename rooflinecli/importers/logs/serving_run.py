"""Shared code of serving benchmarks: a run as its file states it, and the rows that follow from its load, lengths and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import MeasuredRow, Options, Source, number, positive

LITTLE = 1.3  # times the cap on requests in flight: more than this many at once contradict it
BURST = 0.05  # of a run: requests that all arrive in it are sent at once
BEHIND = 1.25  # times the span of arrivals: a longer run served fewer requests than arrived
DRAIN = 3.0  # times the latency of a request: how long the last ones may take after that span
CAPPED = 0.25  # of requests sent at once: fewer in flight mean a cap, since waiting ones count too
QUEUED = 256  # requests at once, from which engines let some wait (vLLM's max_num_seqs)
SKEWED = 2.0  # times the median: a larger mean is noted
STREAMING_BROKEN = 0.05  # of the mean: a smaller median means that the stream delivered several tokens at once
IMAGES = "prompts of images or sound: their tokens and encoders are not in its lengths"
# by what the name of a client's backend begins with
_ENGINES = {"openai": "vllm", "vllm": "vllm", "sglang": "sglang", "trt": "trtllm"}


@dataclass
class ServingRun:
    """One run. Latencies are means in seconds, throughput is in output tokens per second; the load is a cap on requests in flight, or a
    rate of arrivals per second, of `requests` in `duration` seconds. `load_stated`: a run with neither sent all requests at once;
    `images`: its prompts hold more than text; `drafted`: tokens of a step with speculative decoding; `static`: seconds of a whole batch;
    `both`: tokens per second of prompts and answers together."""

    options: Options
    ttft: float | None = None
    itl: float | None = None
    throughput: float | None = None
    concurrency: object = None
    rate: object = None
    requests: object = None
    duration: object = None
    notes: tuple[str, ...] = ()
    load_stated: bool = True
    images: bool = False
    drafted: float | None = None
    static: float | None = None
    both: float | None = None
    lines: Mapping[str, int] = field(default_factory=dict)  # of a quantity, where it is not that of the run

    @property
    def latency(self) -> float | None:
        """Seconds of a whole request."""
        output = self.options.get("output")
        return self.ttft + (output - 1) * self.itl if output and self.ttft and self.itl else None

    @property
    def in_flight(self) -> float | None:
        """Requests in flight on average, by the rate and the latency (Little 1961)."""
        latency = self.latency
        return float(self.throughput / self.options["output"] * latency) if self.throughput and latency else None

    def rows(self, source: Source, line: int, tool: str) -> list[MeasuredRow]:
        """Rows of ITL and TTFT under a steady load, else of throughput.

        A cap is a closed loop whatever the rate. Requests that arrive within the latency of one, or in a small part of the run, are
        all in flight at once: TTFT includes queueing, so only the rate is read. A single request is a closed loop of one.
        """
        given, notes, doubt = {k: v for k, v in self.options.items() if v is not None}, self.notes, ""
        if self.static is not None:
            return [MeasuredRow(source.at(line), tool, "static", self.static, "s/batch", given, notes=notes)]
        cap, rate, count, duration = (positive(v) for v in (self.concurrency, self.rate, self.requests, self.duration))
        cap = 1.0 if cap is None and count == 1 else cap
        span = count / rate if count and rate else None
        at_once = rate is None or (span and span < max(BURST * (duration or 0.0), self.latency or 0.0))
        ttft, itl, flying = self.ttft, self.itl, self.in_flight
        if cap is None and at_once and self.load_stated and count and flying and flying < CAPPED * count:
            cap = flying
            note = f"about {flying:.3g} of its {count:g} requests in flight by its rate and latency (Little's law): a cap that it does not name"
            self.notes = (*self.notes, note)
        if cap is not None:
            given["concurrency"] = max(round(cap), 1)
            doubt, notes = self._against_cap(cap)
        elif not self.load_stated and rate is None:
            notes = (*notes, "the load is not in the file")
        elif at_once:
            given["concurrency"] = round(count) if count and count <= QUEUED else "max"
            sent = "" if rate is None else f", though sent at {rate:g} per second"
            burst = f"all requests at once{sent}: a burst has no steady first token or inter-token latency"
            notes = (*notes, f"{burst}, so only its rate is read")
            ttft = itl = None
        else:
            given["qps"] = rate
            if span and duration and duration > max(BEHIND * span, span + DRAIN * (self.latency or duration)):
                doubt = f"served {count / duration:.3g} of {rate:.3g} requests per second, so its queue grew: no steady load"  # type: ignore[operator]
        found = [
            MeasuredRow(
                source.at(self.lines.get(what, line)), tool, what, value, options=given, notes=notes, doubt=doubt
            )
            for what, value in (("itl", itl), ("ttft", ttft))
            if value is not None
        ]
        if (whole_rate := self.throughput or self.both) and not found:
            unread = "answers of one token measure prompts, not decoding" if given.get("output") == 1 else ""
            unit = "tokens/s" if self.throughput else "total tokens/s"
            whole = MeasuredRow(source.at(line), tool, "throughput", whole_rate, unit, given)
            found = [replace(whole, notes=notes, unread=unread)]
        if self.drafted:
            found = [row if row.quantity == "ttft" else replace(row, probe={"drafted": self.drafted}) for row in found]
        return [replace(row, unread=IMAGES) if self.images and row.quantity != "itl" else row for row in found]

    def _against_cap(self, cap: float) -> tuple[str, tuple[str, ...]]:
        """Why the requests in flight on average contradict the cap; notes on a lower number."""
        in_flight = self.in_flight
        if in_flight is None:
            return "", self.notes
        if in_flight > LITTLE * cap:
            doubt = (
                f"contradicts itself: its rate and latencies mean {in_flight:.3g} requests in flight (Little's law), where at most "
                f"{cap:g} were; is the rate one of prompts and answers together?"
            )
            return doubt, self.notes
        fewer = f"{in_flight:.3g} requests in flight on average, of the {cap:g} allowed"
        return "", (*self.notes, fewer) if in_flight < cap / LITTLE else self.notes


def lengths(total_in: object, total_out: object, requests: object = 1) -> Options:
    """Mean prompt and output of a run from its totals, as options."""
    count, sums = positive(requests), {"prompt": positive(total_in), "output": positive(total_out)}
    return {name: max(round(total / count), 1) for name, total in sums.items() if count and total}


def engine_of(client: object) -> str | None:
    """The engine behind a client's backend: clients of OpenAI's protocol are vLLM's own."""
    name = str(client) if client else ""
    return _ENGINES.get(name.partition("-")[0], name or None)


def suspect(
    source: Source, line: int, figures: Json, mean_and_median: Sequence[str], known: float | None
) -> tuple[str, ...]:
    """Notes on latencies that are not times: NaN, infinite, below zero; tools write 0 for what did not occur; and on a mean far above its
    median. Metrics with a unit of their own are not looked at.

    Raises DataError where a run has no valid one, `known`, which would otherwise be dropped silently.
    """
    plain = {name: raw for name, raw in figures.items() if raw is not None and not isinstance(raw, dict)}
    wrong = {name: raw for name, raw in plain.items() if (figure := number(raw)) is None or figure < 0}
    stated = ", ".join(f"{name} {raw}" for name, raw in wrong.items())
    if stated and known is None:
        raise DataError(f"{source.at(line)}: {stated}: not a time; take the run out of the file, or measure it again")
    notes: tuple[str, ...] = (f"{stated}: not a time, not read",) if stated else ()
    mean, middle = (positive(plain.get(name)) for name in mean_and_median) if len(mean_and_median) == 2 else (None, 0)
    if mean and middle and mean > SKEWED * middle:
        notes += (
            f"{mean_and_median[0]} is {mean / middle:.2g} times its median: a few requests waited, or came first",
        )
    return notes


def between(whole: float | None, first: float | None, output: object) -> float | None:
    """Seconds per token after the first, of whole requests."""
    steps = (positive(output) or 1.0) - 1.0
    return (whole - first) / steps if whole and first and whole > first and steps > 0 else None


def lumped(mean: object, median: object) -> bool:
    """Whether a latency's mean and median contradict each other, because the stream delivered several tokens at once."""
    a, b = number(mean), number(median)
    return a is not None and b is not None and a > 0 and b < STREAMING_BROKEN * a
