"""The report of `trtllm-bench throughput` and `latency`: text, milliseconds, layout and formats stated."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "trtllm-bench"
_FIELD = re.compile(r"^([A-Z][^:]*?):\s+(\S.*?)\s*$")
_DTYPES = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "int4", "W8A16": "int8"}


def claims(source: Source) -> bool:
    return "= PERFORMANCE OVERVIEW" in source.plain or (
        "= ENGINE DETAILS" in source.plain and "TP Size:" in source.plain
    )


def read(source: Source) -> list[MeasuredRow]:
    starts = [
        i for i, text in enumerate(source.lines) if re.match(r"^= (ENGINE DETAILS|PYTORCH BACKEND|_AUTODEPLOY)", text)
    ]
    found: list[MeasuredRow] = []
    if not starts:
        return found
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        block = source.lines[start:following]
        fields = {m[1].strip(): m[2] for m in map(_FIELD.match, block) if m}
        at = next((i for i, text in enumerate(block) if "PERFORMANCE OVERVIEW" in text), None)
        if at is None:
            raise DataError(
                f"{source.at(start + len(block))}: the report ends before its PERFORMANCE OVERVIEW; was it cut short?"
            )
        found += _run(source, start + at + 1, fields)
    return found


def _run(source: Source, line: int, fields: dict[str, str]) -> list[MeasuredRow]:
    values: Json = {name: positive(text.rstrip("%")) for name, text in fields.items()}
    rate = values.get("Total Output Throughput (tokens/sec)") or values.get("Token Throughput (tokens/sec)")
    tp, pp = values.get("TP Size") or 1.0, values.get("PP Size") or 1.0
    options = {
        "model": fields.get("Model"),
        "engine": "trtllm",
        "tp": tp,
        "pp": pp,
        "n": tp * pp,
        "prompt": values.get("Average Input Length (tokens)"),
        "output": values.get("Average Output Length (tokens)"),
        "dtype": _DTYPES.get(fields.get("Quantization", ""), "bf16" if fields.get("Dtype") == "bfloat16" else None),
        "kv-dtype": "fp8" if fields.get("KV Cache Dtype") == "FP8" else None,
    }
    cap = values.get("Number of concurrent requests")
    if rate is None and positive(values.get("Average time-per-output-token [TPOT] (ms)")) is None:
        raise DataError(f"{source.at(line)}: no throughput in this report; placeholders are no measurements")
    return serving_common.readings(
        source,
        line,
        TOOL,
        options,
        ttft=serving_common.seconds(values, "Average time-to-first-token [TTFT] (ms)"),
        itl=serving_common.seconds(values, "Average time-per-output-token [TPOT] (ms)"),
        throughput=rate,
        concurrency=cap,
    )
