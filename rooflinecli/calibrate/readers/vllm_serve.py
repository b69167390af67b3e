"""`vllm bench serve --save-result` (benchmark_serving.py): an object per run, milliseconds; several in one file where runs were appended."""

from __future__ import annotations

from rooflinecli.calibrate.readers import serving
from rooflinecli.calibrate.source import Reading, Source, need, positive

TOOL = "vllm bench serve"


def claims(source: Source) -> bool:
    return source.looks_like_json and '"mean_ttft_ms"' in source.head and '"model_id"' in source.head


def read(source: Source) -> list[Reading]:
    found = []
    for line, run in source.objects:
        if "model_id" not in run:
            continue
        need(source, line, run, "duration")
        completed = need(source, line, run, "completed")
        options = {
            "model": run["model_id"],
            "engine": "vllm" if run.get("backend") in ("vllm", "openai", "openai-chat") else run.get("backend"),
            **serving.lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed),
        }
        if serving.lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms")):
            run = {**run, "mean_tpot_ms": None, "median_tpot_ms": None}
        found += serving.readings(
            source,
            line,
            TOOL,
            options,
            ttft=serving.seconds(run, "mean_ttft_ms", "median_ttft_ms"),
            itl=serving.seconds(run, "mean_tpot_ms", "median_tpot_ms"),
            throughput=positive(run.get("output_throughput")),
            notes=(f"{run['failed']:g} requests failed",) if positive(run.get("failed")) else (),
            **serving.load(run.get("max_concurrency"), run.get("request_rate")),
        )
    return found
