"""Serving benchmarks whose result is JSON, or a CSV of AIPerf's: a row of READERS says by what a format is recognized and makes a ServingRun of each of its runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs.log_reader import LogReader, csv_rows
from rooflinecli.importers.logs.serving_run import (
    QUEUED,
    ServingRun,
    between,
    engine_of,
    lengths,
    lumped,
    seconds,
    unread,
)
from rooflinecli.importers.source import MeasuredRow, Options, Source, need, positive

Made = Callable[[Source, int, Json], ServingRun | None]
AIPERF_SCALE = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
_CSV_LATENCIES = {"Time to First Token": "ttft", "Time To First Token": "ttft", "Inter Token Latency": "itl"}
_CSV_LENGTHS = {"Input Sequence Length": "prompt", "Output Sequence Length": "output"}
DRAWN = 0.9  # InferenceX's client draws lengths uniformly in [0.8, 1] of the nominal ones
_INFERENCEX_DTYPES = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "int4": "int4"}


@dataclass(frozen=True)
class JsonBenchmark:
    """A format: `marks` occur in its files (`early`: in their head), `field` in the object of each run; `make` reads one; `apart` says
    why those it makes nothing of are no rows."""

    TOOL: str
    early: tuple[str, ...]
    field: str
    make: Made
    marks: tuple[str, ...] = ()
    apart: str = ""
    runs: Callable[[Source], Iterable[tuple[int, Json]]] = lambda source: source.objects

    def claims(self, source: Source) -> bool:
        # lists of every request's times may come before the means
        marked = all(f'"{m}"' in source.head for m in self.early) and all(f'"{m}"' in source.plain for m in self.marks)
        return source.looks_like_json and marked

    def read(self, source: Source) -> list[MeasuredRow]:
        found: list[MeasuredRow] = []
        left_out = 0
        for line, run in self.runs(source):
            if self.field in run:
                made = self.make(source, line, run)
                left_out = line if made is None else left_out
                found += made.rows(source, line, self.TOOL) if made else []
        if left_out and not found:
            raise DataError(f"{source.at(left_out)}: {self.apart}")
        return found


def _at(holder: Any, path: str) -> Any:
    """A field of nested objects; None where there is none."""
    for name in path.split("."):
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def _vllm(source: Source, line: int, run: Json) -> ServingRun:
    """`vllm bench serve --save-result` (benchmark_serving.py): milliseconds."""
    need(source, line, run, "duration")
    completed, failed = need(source, line, run, "completed"), positive(run.get("failed"))
    wrong = unread(source, line, run, "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms")
    broken = lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms"))
    sizes = lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed)
    client = run.get("endpoint_type") or run.get("backend")
    return ServingRun(
        {"model": run["model_id"], "engine": engine_of(client), **sizes},
        seconds(run, "mean_ttft_ms", "median_ttft_ms"),
        None if broken else seconds(run, "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"),
        positive(run.get("output_throughput")),
        run.get("max_concurrency"),
        run.get("request_rate"),
        completed,
        run["duration"],
        notes=(*((f"{failed:g} requests failed",) if failed else ()), *wrong),
    )


def _sglang(source: Source, line: int, run: Json) -> ServingRun | None:
    """`sglang.bench_serving --output-file`: milliseconds; older versions name neither model nor TPOT. ITL is the mean per token after the
    first; where only whole requests are stated, E2E latency less TTFT."""
    completed, server = need(source, line, run, "completed"), _sglang_server(run.get("server_info"))
    if server.pop("disaggregated", False):
        return None
    wrong = unread(
        source,
        line,
        run,
        *("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms", "mean_e2e_latency_ms"),
    )
    sizes = lengths(run.get("total_input_tokens"), run.get("total_output_tokens"), completed)
    first, whole = seconds(run, "mean_ttft_ms", "median_ttft_ms"), seconds(run, "mean_e2e_latency_ms")
    itl = seconds(run, "mean_tpot_ms", "mean_itl_ms")
    if itl is None:
        itl = between(whole, first, sizes.get("output"))
    elif lumped(run.get("mean_tpot_ms"), run.get("median_tpot_ms")):
        itl = None
    return ServingRun(
        {"engine": engine_of(run.get("backend")), **server, **sizes},
        first,
        itl,
        positive(run.get("output_throughput")),
        run.get("max_concurrency"),
        run.get("request_rate"),
        completed,
        run.get("duration"),
        notes=wrong,
        images=run.get("dataset_name") in ("image", "mmmu") or bool(positive(run.get("total_input_vision_tokens"))),
    )


def _sglang_server(info: object) -> Json:
    """Model, layout and formats from the server's own arguments, which newer versions attach."""
    if not isinstance(info, dict):
        return {}
    state = (info.get("internal_states") or [{}])[0]
    merged = {**(state if isinstance(state, dict) else {}), **{k: v for k, v in info.items() if k != "internal_states"}}
    devices, replicas = positive(merged.get("tp_size")), positive(merged.get("dp_size"))
    if devices and replicas and merged.get("enable_dp_attention"):
        devices /= replicas  # its tensor-parallel size counts every device, of which attention forms replicas
    found = {"model": merged.get("model_path"), "tp": devices, "dp": replicas, "pp": positive(merged.get("pp_size"))}
    apart = str(merged.get("disaggregation_mode", "null")) not in ("null", "None")
    return {**{key: value for key, value in found.items() if value is not None}, "disaggregated": apart}


def _aiperf(source: Source, line: int, run: Json) -> ServingRun:
    """AIPerf and genai-perf, each metric with its own unit. Checked against JsonExportData, schema 1.4, and BenchmarkConfig of aiperf
    0.13.0, and against files of earlier versions."""
    if run.get("is_complete") is False or run.get("was_cancelled"):
        reason = run.get("incomplete_reason") or "it was canceled"
        raise DataError(f"{source.at(line)}: the run did not finish ({reason}); measure again")

    def metric(name: str) -> float | None:
        value, unit = positive(_at(run, f"{name}.avg")), str(_at(run, f"{name}.unit") or "")
        if value is not None and unit not in AIPERF_SCALE:
            raise DataError(f"{source.at(line)}: {name}.unit: expected {', '.join(AIPERF_SCALE)}, got {unit!r}")
        return None if value is None else value * AIPERF_SCALE[unit]

    asked = run.get("input_config") or {}
    names = _at(asked, "endpoint.model_names") or asked.get("model") or asked.get("models")
    names = names or asked.get("formatted_model_name")
    if isinstance(names, dict):
        names = [item.get("name") for item in names.get("items", []) if isinstance(item, dict)]
    phases = asked.get("phases")
    places = [asked.get("loadgen"), _at(asked, "perf_analyzer.stimulus"), asked]
    places += phases[-1:] if isinstance(phases, list) else []
    cap, rate = (
        next((found for place in places for name in several if (found := _at(place, name))), None)
        for several in (("concurrency",), ("request_rate", "rate"))
    )
    return ServingRun(
        {
            "model": names[0] if isinstance(names, list) and names else names if isinstance(names, str) else None,
            **lengths(_at(run, "input_sequence_length.avg"), _at(run, "output_sequence_length.avg")),
        },
        metric("time_to_first_token"),
        metric("inter_token_latency"),
        positive(_at(run, "output_token_throughput.avg")),
        cap,
        rate,
        load_stated=False,
    )


def _guidellm_benchmarks(source: Source) -> Iterable[tuple[int, Json]]:
    for line, report in source.objects:
        for bench in report.get("benchmarks") or []:
            first = str(bench.get("id_") or _at(bench, "config.id_") or "")
            at = source.line_of(source.plain.find(first)) if first and first in source.plain else line
            yield at, {"report": report, **bench}


def _guidellm(source: Source, line: int, bench: Json) -> ServingRun:
    """GuideLLM, versions 1 and 2: statistics over successful requests. Streams are a closed loop, one for a synchronous client; a rate is
    an open one, constant or Poisson; throughput without a cap is a burst. Checked against the strategies of guidellm 0.8.1."""
    mean = {
        name: positive(_at(bench, f"metrics.{name}.successful.mean"))
        for name in ("time_to_first_token_ms", "inter_token_latency_ms", "output_tokens_per_second")
    }
    sizes = [_at(bench, f"metrics.{side}_token_count.successful.mean") for side in ("prompt", "output")]
    strategy = _at(bench.get("config") or bench.get("args"), "strategy") or {}
    kind = strategy.get("type_") or strategy.get("kind")
    backends = (
        *(_at(bench, "config.backend"), _at(bench, "report.args"), _at(bench, "report.config.spec.backend")),
        _at(bench, "benchmarker.backend"),
    )
    return ServingRun(
        {"model": next((m for b in backends if isinstance(m := _at(b, "model"), str)), None), **lengths(*sizes)},
        seconds(mean, "time_to_first_token_ms"),
        seconds(mean, "inter_token_latency_ms"),
        mean["output_tokens_per_second"],
        1.0
        if kind == "synchronous"
        else strategy.get("streams") or strategy.get("max_concurrency")
        if kind in ("concurrent", "throughput")
        else None,
        strategy.get("rate") if kind in ("constant", "poisson") else None,
    )


def _inference_perf(source: Source, line: int, stage: Json) -> ServingRun:
    """inference-perf (kubernetes-sigs), `stage_N_lifecycle_metrics.json`: seconds, an open loop at its requested rate. Its time per output
    token counts pieces of the stream, of which one may hold several tokens, so it is taken from whole requests."""
    load, done = stage["load_summary"], stage.get("successes") or {}
    need(source, line, done, "count")
    sizes = lengths(_at(done, "prompt_len.mean"), _at(done, "output_len.mean"))
    whole, first = (positive(_at(done, f"latency.{name}.mean")) for name in ("request_latency", "time_to_first_token"))
    failed = positive(_at(stage, "failures.count"))
    return ServingRun(
        sizes,
        first,
        between(whole, first, sizes.get("output")),
        positive(_at(done, "throughput.output_tokens_per_sec")),
        load.get("concurrency"),
        load.get("requested_rate") or load.get("achieved_rate"),
        notes=(f"{failed:g} requests failed",) if failed else (),
    )


def _llmperf(source: Source, line: int, run: Json) -> ServingRun:
    """LLMPerf's summary: seconds, a closed loop. Its inter-token latency is a whole request's over its tokens, the first included, so
    that after the first is taken from whole requests."""
    sizes = lengths(*(run.get(f"results_number_{side}_tokens_mean") for side in ("input", "output")))
    first, whole = (positive(run.get(f"results_{name}_s_mean")) for name in ("ttft", "end_to_end_latency"))
    names, failed = ("results_ttft_s_mean", "results_ttft_s_quantiles_p50"), positive(run.get("results_number_errors"))
    return ServingRun(
        {"model": run.get("model"), **sizes},
        first,
        between(whole, first, sizes.get("output")),
        concurrency=need(source, line, run, "num_concurrent_requests"),
        notes=(*((f"{failed:g} requests failed",) if failed else ()), *unread(source, line, run, *names)),
    )


def _inferencex(source: Source, line: int, run: Json) -> ServingRun | None:
    """InferenceX: seconds. With data-parallel attention, every device holds its own sequences; the flag is a word in some files."""
    if run.get("disagg") or run.get("spec_decoding") not in (None, "none", "off"):
        return None
    tp = positive(run.get("tp")) or 1.0
    apart = tp if str(run.get("dp_attention")).lower() == "true" else 1.0
    options: Options = {
        "model": run.get("model"),
        "hw": run.get("hw"),
        "engine": {"trt": "trtllm"}.get(str(run.get("framework")), run.get("framework")),
        "tp": tp / apart,
        "dp": apart,
        "n": tp,
        "ep": apart if apart > 1 else None,
        **lengths(DRAWN * (positive(run.get("isl")) or 0.0), DRAWN * (positive(run.get("osl")) or 0.0)),
        "dtype": _INFERENCEX_DTYPES.get(str(run.get("precision"))),
    }
    if options["dtype"] == "nvfp4" and str(run.get("hw", "")).startswith(("h1", "h2", "mi3")):
        options |= {"dtype": "bf16", "weight-dtype": "mxfp4"}  # these store four bits and compute in sixteen
    first, itl = (seconds(run, name, scale=1.0) for name in ("mean_ttft", "mean_tpot"))
    return ServingRun(options, first, itl, concurrency=need(source, line, run, "conc") / apart)


def _own(source: Source, line: int, run: Json) -> ServingRun | None:
    """`roofline measure openai` and `measure vllm`: seconds."""
    if run["schema"] != "roofline/serving-run/1":
        return None
    sizes = lengths(*(need(source, line, run, f"{side}_tokens") for side in ("prompt", "output")))
    return ServingRun(
        {"model": run.get("model"), "engine": run.get("engine"), **sizes},
        need(source, line, run, "first_token_s"),
        positive(run.get("inter_token_s")),
        positive(run.get("output_tokens_per_s")),
        need(source, line, run, "concurrency"),
    )


def _aiperf_csv(source: Source, tool: str) -> list[MeasuredRow]:
    """A table of latencies, an empty line, a table of single values; the load is not in the file."""
    found, options = [], dict[str, object]()
    for line, row in csv_rows(source, "Metric,"):
        name, _, unit = row["Metric"].rstrip(")").partition(" (")
        value = positive(row.get("avg", row.get("Avg", "")))
        if name in _CSV_LATENCIES and value and unit in AIPERF_SCALE:
            found.append((line, _CSV_LATENCIES[name], value * AIPERF_SCALE[unit]))
        elif name in _CSV_LENGTHS and value:
            options[_CSV_LENGTHS[name]] = max(round(value), 1)
    notes = ("the load is not in the file",)
    return [
        MeasuredRow(source.at(line), tool, what, value, options=options, notes=notes) for line, what, value in found
    ]


def _vllm_batches(source: Source, tool: str) -> list[MeasuredRow]:
    """`vllm bench latency` and `throughput --output-json`: seconds of whole batches; tokens per second of a burst, prompt and output
    together, the usual factor of two between tools."""
    found = []
    for line, run in source.objects:
        if "avg_latency" in run or "latencies" in run:
            value = need(source, line, run, "avg_latency")
            found.append(MeasuredRow(source.at(line), tool, "static", value, "s/batch", {"engine": "vllm"}))
        elif "tokens_per_second" in run:
            rate, requests = need(source, line, run, "tokens_per_second"), positive(run.get("num_requests"))
            need(source, line, run, "elapsed_time")
            options = {"engine": "vllm", "concurrency": round(requests) if requests and requests <= QUEUED else "max"}
            each = positive(run.get("total_num_tokens"))
            lengths = {"tokens_per_request": each / requests} if each and requests else {}
            where = source.at(line)
            found.append(MeasuredRow(where, tool, "throughput", rate, "total tokens/s", options, probe=lengths))
    return found


READERS = (
    JsonBenchmark("vllm bench serve", ("model_id",), "model_id", _vllm, ("mean_ttft_ms",)),
    JsonBenchmark(
        "sglang bench_serving",
        (),
        "dataset_name",
        _sglang,
        ("median_ttft_ms", "random_range_ratio"),
        "separate prefill and decode pools (disaggregated) are not one estimate",
    ),
    JsonBenchmark(
        "AIPerf / genai-perf JSON",
        ("time_to_first_token", "inter_token_latency", "unit"),
        "time_to_first_token",
        _aiperf,
    ),
    JsonBenchmark(
        "GuideLLM", (), "metrics", _guidellm, ("benchmarks", "time_to_first_token_ms"), runs=_guidellm_benchmarks
    ),
    JsonBenchmark(
        "LLMPerf",
        ("num_concurrent_requests",),
        "num_concurrent_requests",
        _llmperf,
        ("results_ttft_s_mean",),
        runs=lambda source: source.members,
    ),
    JsonBenchmark("inference-perf", ("load_summary", "successes"), "load_summary", _inference_perf),
    JsonBenchmark(
        "InferenceX",
        ("tput_per_gpu", "conc", "framework"),
        "conc",
        _inferencex,
        apart="separate pools of prefill and decode and drafted tokens are not one estimate",
    ),
    JsonBenchmark("roofline measure openai", ("roofline/serving-run/1",), "schema", _own),
    LogReader("AIPerf / genai-perf CSV", re.compile(r"(?ms)^ *Metric,[Aa]vg,(?=.*First Token)"), _aiperf_csv),
    LogReader(
        "vllm bench latency/throughput",
        re.compile(r'(?s)"avg_latency":\s*[\d.e-]+,\s*"latencies"|"elapsed_time".{0,400}?"tokens_per_second"'),
        _vllm_batches,
    ),
)
