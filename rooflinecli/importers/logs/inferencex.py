"""InferenceX (InferenceMAX) aggregated results: an array of runs, latencies in seconds, rates per GPU, the chip and layout in the row."""

from __future__ import annotations

from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Options, Source, need, positive

TOOL = "InferenceX"
DRAWN = 0.9  # its client draws lengths uniformly in [0.8, 1] of the nominal ones
_DTYPES = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "int4": "int4"}


def claims(source: Source) -> bool:
    return source.looks_like_json and all(f'"{name}"' in source.head for name in ("tput_per_gpu", "conc", "framework"))


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for line, run in source.objects:
        if run.get("disagg") or run.get("spec_decoding") not in (None, "none", "off"):
            continue  # separate pools and drafted tokens are not one estimate
        need(source, line, run, "conc")
        found += serving_common.readings(
            source,
            line,
            TOOL,
            _options(run),
            ttft=serving_common.seconds(run, "mean_ttft", scale=1.0),
            itl=serving_common.seconds(run, "mean_tpot", scale=1.0),
            concurrency=positive(run["conc"]) / _replicas(run),  # type: ignore[operator]
        )
    return found


def _replicas(run: Json) -> float:
    """Attention replicas: with data-parallel attention, every device holds its own sequences. The flag is a word in some files."""
    return positive(run.get("tp")) or 1.0 if str(run.get("dp_attention")).lower() == "true" else 1.0


def _options(run: Json) -> Options:
    apart = _replicas(run)
    tp = (positive(run.get("tp")) or 1.0) / apart
    found = {
        "model": run.get("model"),
        "hw": run.get("hw"),
        "engine": str(run.get("framework", "")).replace("trt", "trtllm")
        if run.get("framework") == "trt"
        else run.get("framework"),
        "tp": tp,
        "dp": apart,
        "n": tp * apart,
        "ep": apart if apart > 1 else None,
        "prompt": max(round(DRAWN * float(run["isl"])), 1) if positive(run.get("isl")) else None,
        "output": max(round(DRAWN * float(run["osl"])), 1) if positive(run.get("osl")) else None,
    }
    precision = _DTYPES.get(str(run.get("precision")))
    if precision == "nvfp4" and str(run.get("hw", "")).startswith(("h1", "h2", "mi3")):
        return {**found, "dtype": "bf16", "weight-dtype": "mxfp4"}  # these store four bits and compute in sixteen
    return {**found, "dtype": precision}
