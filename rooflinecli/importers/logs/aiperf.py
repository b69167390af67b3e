"""AIPerf and genai-perf: profile_export_aiperf.json / profile_export_genai_perf.json, each metric with its own unit.

Checked against JsonExportData, schema 1.4, and BenchmarkConfig of aiperf 0.13.0, and against files of earlier versions.
"""

from __future__ import annotations

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "AIPerf / genai-perf JSON"
SCALE = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}


def claims(source: Source) -> bool:
    return (
        source.looks_like_json
        and '"time_to_first_token"' in source.head
        and '"inter_token_latency"' in source.head
        and '"unit"' in source.head
    )


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, run in source.objects:
        if "time_to_first_token" in run:
            if run.get("is_complete") is False or run.get("was_cancelled"):
                reason = run.get("incomplete_reason") or "it was canceled"
                raise DataError(f"{source.at(line)}: the run did not finish ({reason}); measure again")
            asked = run.get("input_config") or {}
            found += serving_common.readings(
                source,
                line,
                TOOL,
                {
                    "model": _model(asked),
                    "prompt": _count(run, "input_sequence_length"),
                    "output": _count(run, "output_sequence_length"),
                },
                ttft=_seconds(source, line, run, "time_to_first_token"),
                itl=_seconds(source, line, run, "inter_token_latency"),
                throughput=positive((run.get("output_token_throughput") or {}).get("avg")),
                **_load(asked),
            )
    return found


def _seconds(source: Source, line: int, run: Json, name: str) -> float | None:
    metric = run.get(name) or {}
    value, unit = positive(metric.get("avg")), str(metric.get("unit", ""))
    if value is None:
        return None
    if unit not in SCALE:
        raise DataError(f"{source.at(line)}: {name}.unit: expected {', '.join(SCALE)}, got {unit!r}")
    return value * SCALE[unit]


def _count(run: Json, name: str) -> int | None:
    found = positive((run.get(name) or {}).get("avg"))
    return max(round(found), 1) if found else None


def _model(asked: Json) -> str | None:
    """Three generations of the same field."""
    endpoint = asked.get("endpoint") or {}
    names = (
        endpoint.get("model_names") or asked.get("model") or asked.get("models") or asked.get("formatted_model_name")
    )
    if isinstance(names, dict):
        names = [item.get("name") for item in names.get("items", []) if isinstance(item, dict)]
    return names[0] if isinstance(names, list) and names else names if isinstance(names, str) else None


def _load(asked: Json) -> serving_common.BenchmarkLoad:
    load = asked.get("loadgen") or {}
    stimulus = (asked.get("perf_analyzer") or {}).get("stimulus") or {}
    phases = asked.get("phases") or [{}]
    last = phases[-1] if isinstance(phases, list) and phases and isinstance(phases[-1], dict) else {}
    cap = load.get("concurrency") or stimulus.get("concurrency") or asked.get("concurrency") or last.get("concurrency")
    rate = load.get("request_rate") or stimulus.get("request_rate") or asked.get("request_rate") or last.get("rate")
    return serving_common.load(cap, rate)
