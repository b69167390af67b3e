"""Shared code of serving benchmarks: rows from a run's load, lengths and latencies."""

from __future__ import annotations

from typing import TypedDict

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import Json, MeasuredRow, Options, Source, number, positive

LITTLE = 1.3  # times the cap on requests in flight: more than this many at once contradict it
BURST = 0.05  # of a run: requests that all arrive in it are sent at once
STREAMING_BROKEN = 0.05  # of the mean: a smaller median means that the stream delivered several tokens at once


def readings(
    source: Source,
    line: int,
    tool: str,
    options: Options,
    *,
    ttft: float | None = None,
    itl: float | None = None,
    throughput: float | None = None,
    concurrency: float | None = None,
    rate: float | None = None,
    notes: tuple[str, ...] = (),
) -> list[MeasuredRow]:
    """Readings of one run. Latencies in seconds, throughput in output tokens per second; the load is a concurrency or a rate.

    A run with neither sent all requests at once: its TTFT includes queueing, so only its rate is read.
    """
    given = {key: value for key, value in options.items() if value is not None}
    where, doubt = source.at(line), ""
    in_flight = _in_flight(given.get("output"), ttft, itl, throughput)
    if concurrency is not None and in_flight is not None and in_flight > LITTLE * concurrency:
        doubt = (
            f"contradicts itself: its rate and latencies mean {in_flight:.3g} requests in flight (Little's law), where at most "
            f"{concurrency:g} were; is the rate one of prompts and answers together?"
        )
    elif concurrency is not None and in_flight is not None and in_flight < concurrency / LITTLE:
        notes = (*notes, f"{in_flight:.3g} requests in flight on average, of the {concurrency:g} allowed")
    if concurrency is not None:
        given["concurrency"] = max(round(concurrency), 1)
    elif rate is not None:
        given["qps"] = rate
    else:
        given["concurrency"] = "max"
        notes = (
            *notes,
            "all requests at once: a burst has no steady first token or inter-token latency, so only its rate is read",
        )
        ttft = itl = None
    found = []
    if itl is not None:
        found.append(MeasuredRow(where, tool, "itl", itl, options=given, notes=notes, doubt=doubt))
    if ttft is not None:
        found.append(MeasuredRow(where, tool, "ttft", ttft, options=given, notes=notes, doubt=doubt))
    if throughput is not None and not found:
        found.append(MeasuredRow(where, tool, "throughput", throughput, "tokens/s", given, notes=notes))
    return found


def _in_flight(output: float | None, ttft: float | None, itl: float | None, throughput: float | None) -> float | None:
    """Requests at once that a rate of output tokens and the time of a request mean (Little 1961)."""
    if not (output and ttft and itl and throughput):
        return None
    return float(throughput / output * (ttft + (output - 1) * itl))


def lengths(total_in: object, total_out: object, requests: object) -> Options:
    """Mean prompt and output of a run from its totals, as options."""
    count, sums = positive(requests), {"prompt": positive(total_in), "output": positive(total_out)}
    return {name: max(round(total / count), 1) for name, total in sums.items() if count and total}


class BenchmarkLoad(TypedDict):
    """Arrival of requests: a concurrency, a rate per second, or neither (all at once)."""

    concurrency: float | None
    rate: float | None


def load(
    max_concurrency: object, request_rate: object, requests: object = None, duration: object = None
) -> BenchmarkLoad:
    """A cap on requests in flight is a closed loop whatever the rate; else the rate, unless it is infinite, or all requests arrive in a
    small part of the run: then it is a burst. A single request is a closed loop of one."""
    cap, rate, count, seconds = (positive(value) for value in (max_concurrency, request_rate, requests, duration))
    if cap is None and count == 1:
        cap = 1.0
    burst = rate and count and seconds and count / rate < BURST * seconds
    return {"concurrency": cap, "rate": None if cap is not None or burst else rate}


def seconds(holder: Json, *names: str, scale: float = 1e-3) -> float | None:
    """The first of several latencies that is there and above zero, in seconds."""
    for name in names:
        found = positive(holder.get(name))
        if found is not None:
            return found * scale
    return None


def unread(source: Source, line: int, holder: Json, *names: str) -> tuple[str, ...]:
    """Notes on latencies that are not times: NaN, infinite, below zero.

    Raises DataError where a run has no valid one, which would otherwise be dropped silently.
    """
    wrong = [name for name in names if holder.get(name) is not None and not _time(holder[name])]
    stated = ", ".join(f"{name} {holder[name]}" for name in wrong)
    if wrong and seconds(holder, *names) is None:
        raise DataError(f"{source.at(line)}: {stated}: not a time; take the run out of the file, or measure it again")
    return (f"{stated}: not a time, not read",) if wrong else ()


def _time(value: object) -> bool:
    """Whether a latency is a number from zero on: tools write 0 for what did not occur."""
    found = number(value)
    return found is not None and found >= 0


def lumped(mean: object, median: object) -> bool:
    """Whether a latency's mean and median contradict each other, because the stream delivered several tokens at once."""
    a, b = number(mean), number(median)
    return a is not None and b is not None and a > 0 and b < STREAMING_BROKEN * a
