"""llama-bench (llama.cpp) as JSON, JSON lines, CSV or markdown: tokens per second of prompts (pp) and of answers (tg)."""

from __future__ import annotations

import csv
import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import Json, MeasuredRow, Options, Source, positive

TOOL = "llama-bench"
_BITS = (  # names of GGUF files' formats -> what their weights stream as
    (re.compile(r"\b(I?Q[234]|MXFP4|NVFP4)", re.IGNORECASE), "int4"),
    (re.compile(r"\bQ[5678]", re.IGNORECASE), "int8"),
)
_TEST = re.compile(r"^(pp|tg) ?(\d+)(?: ?@ ?d(\d+))?$")


def claims(source: Source) -> bool:
    json = source.looks_like_json and '"avg_ts"' in source.head and '"n_gen"' in source.head
    return json or bool(re.search(r"^\|.*\btest\b.*\|.*t/s", source.plain, re.MULTILINE)) or _csv(source) is not None


def read(source: Source) -> list[MeasuredRow]:
    if source.looks_like_json and '"avg_ts"' in source.head:
        found = [_row(source, line, row) for line, row in source.objects if "avg_ts" in row or "n_gen" in row]
    else:
        found = [*_markdown(source), *_table(source)]
    return [reading for reading in found if reading is not None]


def _row(source: Source, line: int, row: Json) -> MeasuredRow | None:
    prompt, answer, rate = (positive(row.get(name)) for name in ("n_prompt", "n_gen", "avg_ts"))
    if rate is None:
        raise DataError(f"{source.at(line)}: avg_ts: expected tokens per second; was the file cut short?")
    if prompt and answer:
        return None  # both mixed into one rate
    name = str(row.get("model_type") or row.get("model_filename") or "")
    return _reading(
        source, line, name, "pp" if prompt else "tg", prompt or answer or 1.0, positive(row.get("n_depth")), rate
    )


def _reading(
    source: Source, line: int, model: str, test: str, tokens: float, depth: float | None, rate: float
) -> MeasuredRow | None:
    stored = next((bits for pattern, bits in _BITS if pattern.search(model)), None)
    options: Options = {"batch": 1, "said-model": model, **({"weight-dtype": stored} if stored else {})}
    if test == "pp":
        if depth:
            return None  # a prompt behind a cache that is already there
        return MeasuredRow(source.at(line), TOOL, "prefill", tokens / rate, options={**options, "prompt": tokens})
    return MeasuredRow(
        source.at(line), TOOL, "itl", 1.0 / rate, options={**options, "prompt": depth or 1.0, "output": tokens}
    )


def _markdown(source: Source) -> list[MeasuredRow | None]:
    found, header = [], None
    for line, text in enumerate(source.lines, start=1):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")] if text.lstrip().startswith("|") else []
        if "test" in cells and "t/s" in cells:
            header = cells
        elif header and cells and not set(text) <= set("|-: "):
            if len(cells) != len(header):
                raise DataError(
                    f"{source.at(line)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
                )
            row = dict(zip(header, cells, strict=True))
            match, rate = _TEST.match(row["test"]), positive(row["t/s"].partition("±")[0].strip())
            if match and rate:
                found.append(
                    _reading(source, line, row.get("model", ""), match[1], float(match[2]), positive(match[3]), rate)
                )
        elif not cells:
            header = None
    return found


def _csv(source: Source) -> int | None:
    """The line of a CSV header, where there is one."""
    return next(
        (i for i, text in enumerate(source.lines) if text.startswith("build_commit,") and "avg_ts" in text), None
    )


def _table(source: Source) -> list[MeasuredRow | None]:
    start = _csv(source)
    if start is None:
        return []
    header, *rows = csv.reader(source.lines[start:])
    for i, cells in enumerate(rows):
        if cells and len(cells) != len(header):
            raise DataError(
                f"{source.at(start + i + 2)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
            )
    return [_row(source, start + i + 2, dict(zip(header, cells, strict=True))) for i, cells in enumerate(rows) if cells]
