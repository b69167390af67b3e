"""GuideLLM reports (JSON, versions 1 and 2): a benchmark per rate or number of streams, statistics over successful requests.

Checked against GenerativeBenchmark and the scheduling strategies of guidellm 0.8.1.
"""

from __future__ import annotations

from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "GuideLLM"


def claims(source: Source) -> bool:
    return source.looks_like_json and '"benchmarks"' in source.plain and '"time_to_first_token_ms"' in source.plain


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, report in source.objects:
        for bench in report.get("benchmarks") or []:
            first = str(bench.get("id_") or (bench.get("config") or {}).get("id_") or "")
            at = source.line_of(source.plain.find(first)) if first and first in source.plain else line
            found += _bench(source, at, report, bench)
    return found


def _bench(source: Source, line: int, report: Json, bench: Json) -> list[MeasuredRow]:
    metrics = bench.get("metrics") or {}
    tokens = {"prompt": _mean(metrics, "prompt_token_count"), "output": _mean(metrics, "output_token_count")}
    first, step = _mean(metrics, "time_to_first_token_ms"), _mean(metrics, "inter_token_latency_ms")
    return serving_common.readings(
        source,
        line,
        TOOL,
        {"model": _model(report, bench), **{k: max(round(v), 1) for k, v in tokens.items() if v}},
        ttft=first / 1e3 if first else None,
        itl=step / 1e3 if step else None,
        throughput=_mean(metrics, "output_tokens_per_second"),
        **_load(bench),
    )


def _mean(metrics: Json, name: str) -> float | None:
    of = (metrics.get(name) or {}).get("successful") or {}
    return positive(of.get("mean"))


def _load(bench: Json) -> serving_common.BenchmarkLoad:
    """Streams are a closed loop, one for a synchronous client; a rate is an open one, constant or Poisson; throughput without a cap is a burst."""
    at = bench.get("config") or bench.get("args") or {}
    strategy = at.get("strategy") or {}
    kind = strategy.get("type_") or strategy.get("kind")
    if kind == "synchronous":
        return {"concurrency": 1.0, "rate": None}
    if kind in ("concurrent", "throughput"):
        return {"concurrency": positive(strategy.get("streams") or strategy.get("max_concurrency")), "rate": None}
    return {"concurrency": None, "rate": positive(strategy.get("rate")) if kind in ("constant", "poisson") else None}


def _model(report: Json, bench: Json) -> str | None:
    places = (
        (bench.get("config") or {}).get("backend") or {},
        (report.get("args") or {}),
        (((report.get("config") or {}).get("spec") or {}).get("backend") or {}),
        (bench.get("benchmarker") or {}).get("backend") or {},
    )
    return next((p["model"] for p in places if isinstance(p, dict) and isinstance(p.get("model"), str)), None)
