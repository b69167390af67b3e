"""`roofline measure openai` and `measure vllm`: a JSON line per load, seconds."""

from __future__ import annotations

from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import MeasuredRow, Source, need, positive

TOOL = "roofline measure openai"
SCHEMA = "roofline/serving-run/1"


def claims(source: Source) -> bool:
    return source.looks_like_json and SCHEMA in source.head


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, run in source.objects:
        if run.get("schema") != SCHEMA:
            continue
        sizes = {
            "prompt": round(need(source, line, run, "prompt_tokens")),
            "output": round(need(source, line, run, "output_tokens")),
        }
        found += serving_common.readings(
            source,
            line,
            TOOL,
            {"model": run.get("model"), "engine": run.get("engine"), **sizes},
            ttft=need(source, line, run, "first_token_s"),
            itl=positive(run.get("inter_token_s")),
            throughput=positive(run.get("output_tokens_per_s")),
            concurrency=need(source, line, run, "concurrency"),
        )
    return found
