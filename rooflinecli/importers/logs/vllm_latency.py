"""`vllm bench latency --output-json` and `vllm bench throughput --output-json`: seconds of whole batches, tokens per second of a burst."""

from __future__ import annotations

from rooflinecli.importers.logs.serving_run import QUEUED
from rooflinecli.importers.source import MeasuredRow, Source, need, positive

TOOL = "vllm bench latency/throughput"


def claims(source: Source) -> bool:
    if not source.looks_like_json:
        return False
    latency = '"avg_latency"' in source.head and '"percentiles"' in source.head
    return latency or ('"elapsed_time"' in source.head and '"tokens_per_second"' in source.head)


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, run in source.objects:
        if "avg_latency" in run or "latencies" in run:
            value = need(source, line, run, "avg_latency")
            found.append(MeasuredRow(source.at(line), TOOL, "static", value, "s/batch", {"engine": "vllm"}))
        elif "tokens_per_second" in run:
            found.append(_burst(source, line, run))
    return found


def _burst(source: Source, line: int, run: dict[str, float]) -> MeasuredRow:
    """Its tokens are prompt and output together, the usual factor of two between tools."""
    rate = need(source, line, run, "tokens_per_second")
    need(source, line, run, "elapsed_time")
    requests = positive(run.get("num_requests"))
    options = {"engine": "vllm", "concurrency": round(requests) if requests and requests <= QUEUED else "max"}
    each = positive(run.get("total_num_tokens"))
    lengths = {"tokens_per_request": each / requests} if each and requests else {}
    return MeasuredRow(source.at(line), TOOL, "throughput", rate, "total tokens/s", options, probe=lengths)
