"""mamf-finder (stas00/ml-engineering): the achieved TFLOP/s of matmuls, `… TFLOPS @ MxNxK`."""

from __future__ import annotations

import re

from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "mamf-finder"
_ROW = re.compile(r"([\d.]+)\s*(?:TFLOPS|\(mean\)).*?@ (\d+)x(\d+)x(\d+) \(MxNxK\)")
_DTYPE = re.compile(
    r"dtype[=:\s]+(?:torch\.)?(bfloat16|float16|float8_e4m3fn|float32)|--dtype (bfloat16|float16|float8_e4m3fn|float32)"
)
_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8", "float32": "tf32"}


def claims(source: Source) -> bool:
    return "(MxNxK)" in source.plain and bool(_ROW.search(source.plain))


def read(source: Source) -> list[MeasuredRow]:
    match = _DTYPE.search(source.plain)
    dtype = _NAMES[match[1] or match[2]] if match else None
    found = []
    for line, text in enumerate(source.lines, start=1):
        match = _ROW.search(text)
        rate = positive(match[1]) if match else None
        if match and rate and all(int(match[i]) for i in (2, 3, 4)) and "best outcome" not in text:
            m, n, k = (float(match[i]) for i in (2, 3, 4))
            probe = {"m": m, "n": n, "k": k, "dtype": dtype}
            found.append(MeasuredRow(source.at(line), TOOL, "matmul", 2 * m * n * k / (rate * 1e12), probe=probe))
    return found
