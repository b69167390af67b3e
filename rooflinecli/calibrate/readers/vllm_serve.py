"""`vllm bench serve --save-result` (benchmark_serving.py): an object per run, milliseconds; several in one file where runs were appended."""

from __future__ import annotations

from rooflinecli.calibrate.readers import serving
from rooflinecli.calibrate.source import Reading, Source, need, positive

TOOL = "vllm bench serve"
_LATENCIES = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms")
_CLIENTS = ("vllm", "openai", "openai-chat", "openai-completions", "openai-audio")  # how its client speaks to vLLM


def claims(source: Source) -> bool:
    # --save-detailed puts every request's lengths and times before the means
    return source.looks_like_json and '"mean_ttft_ms"' in source.plain and '"model_id"' in source.head


def read(source: Source) -> list[Reading]:
    found = []
    for line, run in source.objects:
        if "model_id" not in run:
            continue
        need(source, line, run, "duration")
        client = run.get("endpoint_type") or run.get("backend")
        completed = need(source, line, run, "completed")
        options = {
            "model": run["model_id"],
            "engine": "vllm" if client in _CLIENTS else client,
            **serving.lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed),
        }
        unread = serving.unread(source, line, run, *_LATENCIES)
        if serving.lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms")):
            run = {**run, "mean_tpot_ms": None, "median_tpot_ms": None, "mean_itl_ms": None}
        found += serving.readings(
            source,
            line,
            TOOL,
            options,
            ttft=serving.seconds(run, "mean_ttft_ms", "median_ttft_ms"),
            itl=serving.seconds(run, "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"),
            throughput=positive(run.get("output_throughput")),
            notes=(*((f"{run['failed']:g} requests failed",) if positive(run.get("failed")) else ()), *unread),
            **serving.load(run.get("max_concurrency"), run.get("request_rate")),
        )
    return found
