"""inference-perf (kubernetes-sigs): `stage_N_lifecycle_metrics.json`, seconds; a stage is an open loop at its requested rate.

Its time per output token counts pieces of the stream, of which one may hold several tokens, so it is taken from whole requests.
"""

from __future__ import annotations

from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, need, positive

TOOL = "inference-perf"


def claims(source: Source) -> bool:
    return source.looks_like_json and '"load_summary"' in source.head and '"successes"' in source.head


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, stage in source.objects:
        if "load_summary" in stage:
            found += _stage(source, line, stage)
    return found


def _stage(source: Source, line: int, stage: Json) -> list[MeasuredRow]:
    load, done = stage["load_summary"], stage.get("successes") or {}
    need(source, line, done, "count")
    latency = done.get("latency") or {}
    prompt, output = (_mean(done, name) for name in ("prompt_len", "output_len"))
    whole, first = (_mean(latency, name) for name in ("request_latency", "time_to_first_token"))
    steps = (output or 1) - 1
    failed = positive((stage.get("failures") or {}).get("count"))
    return serving_common.readings(
        source,
        line,
        TOOL,
        {name: max(round(v), 1) if v else None for name, v in (("prompt", prompt), ("output", output))},
        ttft=first,
        itl=(whole - first) / steps if whole and first and whole > first and steps > 0 else None,
        throughput=positive((done.get("throughput") or {}).get("output_tokens_per_sec")),
        concurrency=positive(load.get("concurrency")),
        rate=positive(load.get("requested_rate")) or positive(load.get("achieved_rate")),
        notes=(f"{failed:g} requests failed",) if failed else (),
    )


def _mean(holder: Json, name: str) -> float | None:
    of = holder.get(name)
    return positive(of.get("mean")) if isinstance(of, dict) else None
