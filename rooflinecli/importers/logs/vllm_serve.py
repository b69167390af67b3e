"""`vllm bench serve --save-result` (benchmark_serving.py): an object per run, milliseconds; several in one file where runs were appended."""

from __future__ import annotations

from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import MeasuredRow, Source, need, positive

TOOL = "vllm bench serve"
_LATENCIES = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms")
_CLIENTS = ("vllm", "openai", "openai-chat", "openai-completions", "openai-audio")  # names of its client backends


def claims(source: Source) -> bool:
    # --save-detailed puts every request's lengths and times before the means
    return source.looks_like_json and '"mean_ttft_ms"' in source.plain and '"model_id"' in source.head


def read(source: Source) -> list[MeasuredRow]:
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
            **serving_common.lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed),
        }
        unread = serving_common.unread(source, line, run, *_LATENCIES)
        if serving_common.lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms")):
            run = {**run, "mean_tpot_ms": None, "median_tpot_ms": None, "mean_itl_ms": None}
        found += serving_common.readings(
            source,
            line,
            TOOL,
            options,
            ttft=serving_common.seconds(run, "mean_ttft_ms", "median_ttft_ms"),
            itl=serving_common.seconds(run, "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"),
            throughput=positive(run.get("output_throughput")),
            notes=(*((f"{run['failed']:g} requests failed",) if positive(run.get("failed")) else ()), *unread),
            **serving_common.load(
                run.get("max_concurrency"), run.get("request_rate"), run.get("completed"), run.get("duration")
            ),
        )
    return found
