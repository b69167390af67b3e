"""`python -m sglang.bench_serving --output-file`: JSON lines, milliseconds; older versions name neither model nor TPOT, a rate may be a bare Infinity."""

from __future__ import annotations

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, need, positive

TOOL = "sglang bench_serving"
_LATENCIES = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms", "mean_e2e_latency_ms")


def claims(source: Source) -> bool:
    # --output-details puts every request's times among the fields
    return source.looks_like_json and all(
        f'"{name}"' in source.plain for name in ("median_ttft_ms", "random_range_ratio")
    )


def read(source: Source) -> list[MeasuredRow]:
    found, apart = [], 0
    for line, run in source.objects:
        if "dataset_name" not in run:
            continue
        completed = need(source, line, run, "completed")
        server = _server(run.get("server_info"))
        sizes = serving_common.lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed)
        if server.pop("disaggregated", False):
            apart = line
            continue
        found += serving_common.readings(
            source,
            line,
            TOOL,
            {"engine": _engine(run.get("backend")), **server, **sizes},
            ttft=serving_common.seconds(run, "mean_ttft_ms", "median_ttft_ms"),
            itl=_itl(run, sizes),
            throughput=positive(run.get("output_throughput")),
            notes=serving_common.unread(source, line, run, *_LATENCIES),
            **serving_common.load(
                run.get("max_concurrency"), run.get("request_rate"), run.get("completed"), run.get("duration")
            ),
        )
    if apart and not found:
        raise DataError(f"{source.at(apart)}: separate prefill and decode pools (disaggregated) are not one estimate")
    return found


def _engine(backend: object) -> str | None:
    name = str(backend) if backend else None
    return {"sglang-oai": "sglang", "sglang-native": "sglang", "sglang-oai-chat": "sglang"}.get(str(name), name)


def _itl(run: Json, sizes: Json) -> float | None:
    """The mean per token after the first; where only whole requests are stated, E2E latency less TTFT."""
    stated = serving_common.seconds(run, "mean_tpot_ms", "mean_itl_ms")
    if stated is not None:
        return None if serving_common.lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms")) else stated
    whole, first = (
        serving_common.seconds(run, "mean_e2e_latency_ms"),
        serving_common.seconds(run, "mean_ttft_ms", "median_ttft_ms"),
    )
    steps = sizes.get("output", 1) - 1
    return (whole - first) / steps if whole and first and steps > 0 and whole > first else None


def _server(info: object) -> Json:
    """Model, layout and formats from the server's own arguments, which newer versions attach."""
    if not isinstance(info, dict):
        return {}
    state = (info.get("internal_states") or [{}])[0]
    merged = {**(state if isinstance(state, dict) else {}), **{k: v for k, v in info.items() if k != "internal_states"}}
    devices, replicas = positive(merged.get("tp_size")), positive(merged.get("dp_size"))
    if devices and replicas and merged.get("enable_dp_attention"):
        devices /= replicas  # its tensor-parallel size counts every device, of which attention forms replicas
    found = {
        "model": merged.get("model_path"),
        "tp": devices,
        "dp": replicas,
        "pp": positive(merged.get("pp_size")),
        "disaggregated": str(merged.get("disaggregation_mode", "null")) not in ("null", "None"),
    }
    return {key: value for key, value in found.items() if value is not None}
