"""llama-bench (llama.cpp) as JSON, JSON lines, CSV or markdown, and llama-batched-bench: tokens per second of prompts (pp) and of answers (tg)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import MeasuredRow, Options, Source, csv_rows, number, patterns, positive

_P = patterns("llama_bench")
TOOL = "llama-bench"
_WIDE = {"fp16": 16.0, "bf16": 16.0, "fp32": 32.0, "q8_0": 8.5}  # bits a weight
SCATTER = 0.1  # of a rate: a larger standard deviation of its runs is noted
_UNNAMED = "the format of the weights is not stated; --weight-dtype gives it"
_ALL = 99  # layers on the device: more than most models have, which is how all of them are asked for
_BATCHED = {"PP", "TG", "B", "T_PP s", "T_TG s"}  # columns of llama-batched-bench
_METAL_2025, _CUDA_2024 = 4000, 3300  # builds from which, and up to which, other constants hold: 2024-11, 2024-07


def claims(source: Source) -> bool:
    json = source.looks_like_json and '"avg_ts"' in source.head and '"n_gen"' in source.head
    table = r"^\|.*\b(?:test|n_gen|T_TG s)\b.*\|.*t/s|^build_commit,.*avg_ts"
    return json or bool(re.search(table, source.plain, re.MULTILINE))


def read(source: Source) -> list[MeasuredRow]:
    if source.looks_like_json and '"avg_ts"' in source.head:
        return [_row(source, line, row) for line, row in source.members if "avg_ts" in row or "n_gen" in row]
    return [*_markdown(source), *(_row(source, line, row) for line, row in csv_rows(source, "build_commit,"))]


class Test(NamedTuple):
    """A prompt (pp), tokens written (tg) behind `depth` tokens of context, or both together; tokens per second and their deviation."""

    kind: str
    tokens: float
    depth: float | None
    rate: float
    scatter: float | None


def _row(source: Source, line: int, row: Json) -> MeasuredRow:
    prompt, answer, rate = (positive(row.get(name)) for name in ("n_prompt", "n_gen", "avg_ts"))
    if rate is None:
        raise DataError(f"{source.at(line)}: avg_ts: expected tokens per second; was the file cut short?")
    kind, depth = "pp+tg" if prompt and answer else "pp" if prompt else "tg", positive(row.get("n_depth"))
    test = Test(kind, prompt or answer or 1.0, depth, rate, positive(row.get("stddev_ts")))
    return reading(source, line, row, test)


def reading(source: Source, line: int, row: Json, test: Test) -> MeasuredRow:
    stored, notes = _formats(row)
    devices = cards(source, row, line)
    if test.scatter and test.scatter > SCATTER * test.rate:
        notes = (*notes, f"its runs scatter by {test.scatter / test.rate:.0%}")
    options: Options = {"batch": 1, "said-model": _model(row), **stored, **_server(source, row, devices)}
    probe: Json = {"cpu": True} if _backend(row) in ("cpu", "blas") else {"device": devices[:1]}
    quantity, value = ("prefill", test.tokens / test.rate) if test.kind == "pp" else ("itl", 1.0 / test.rate)
    if test.kind == "pp":
        whole = (test.depth or 0.0) + test.tokens
        options |= {"prompt": whole} | ({"prefix-hit": test.depth / whole} if test.depth else {})
    elif test.kind == "tg":
        options |= {"prompt": test.depth or 1.0, "output": test.tokens}
    unread = "" if test.kind in ("pp", "tg") else "one rate of prompt and answer together"
    if row.get("ot") and "experts-on" not in options:
        unread = f"-ot {row['ot']}: what it keeps on the host is not that of any option"
    return MeasuredRow(source.at(line), TOOL, quantity, value, options=options, probe=probe, notes=notes, unread=unread)


def _model(row: Json) -> str:
    """Its name, with the size for which llama.cpp has none ('llama ?B')."""
    count = _amount(row.get("model_n_params", row.get("params")))
    name = str(row.get("model_type") or row.get("model_filename") or row.get("model") or "")
    return name.replace("?B", f"{count / 1e9:.3g}B") if count else name


def _formats(row: Json) -> tuple[Options, tuple[str, ...]]:
    """Format of the weights by the name that llama.cpp gives a file ('llama 8B Q4_K - Medium' is q4_k_m), unless the file's size is another's."""
    match = _P.format.search(_model(row))
    if match is None:
        return {}, (_UNNAMED,)
    name = match[1].lower() + (f"_{match[2][0].lower()}" if match[2] and match[1].lower() != "q2_k" else "")
    name = {"f16": "fp16", "f32": "fp32"}.get(name, "iq3_m" if "IQ3_S mix" in _model(row) else name)
    size, count = _amount(row.get("model_size", row.get("size"))), _amount(row.get("model_n_params", row.get("params")))
    bits = 8 * size / count if size and count else None
    if bits is not None and name in _WIDE and bits < 0.7 * _WIDE[name]:  # gpt-oss in 16 bits keeps its experts in four
        return {}, (f"called {match[1]}, but the file has {bits:.1f} bits a weight; --weight-dtype names its format",)
    if mixed := re.fullmatch(r"(q\d)_k_x?l", name):  # layers in several formats, most of them in that of its letter
        name = {"q2": "q2_k", "q6": "q6_k", "q8": "q8_0"}.get(mixed[1], f"{mixed[1]}_k_m")
        return {"weight-dtype": name}, (f"{match[0]} has layers in several formats; taken as {name} (--weight-dtype)",)
    return {"weight-dtype": name}, ()


def _amount(text: object) -> float | None:
    """Bytes or parameters: a number, or as markdown has it ('12.83 GiB', '20.91 B')."""
    value, _, unit = str(text).partition(" ")
    scale = {"": 1.0, "MiB": 2.0**20, "GiB": 2.0**30, "M": 1e6, "B": 1e9, "T": 1e12}.get(unit.strip())
    found = positive(value)
    return found * scale if found and scale else None


def _backend(row: Json) -> str:
    """The backend that computes: the first that is named, none of those that only help; builds before 2024-08 had a flag for each."""
    flags = [name for name in ("cuda", "vulkan", "metal") if str(row.get(name)).lower() in ("true", "1")]
    named = str(row.get("backends") or row.get("backend") or ",".join(flags)).lower().split(",")
    return next((name for name in named if name not in ("rpc", "blas")), named[0])


def cards(source: Source, row: Json, line: int) -> list[str]:
    """Names of the devices, from the row or from what the backend printed when it last started."""
    stated = str(row.get("gpu_info") or "")
    listed = [] if stated else [(i, m[1]) for i, text in enumerate(source.lines[:line]) if (m := _P.card.match(text))]
    last = [name for place, (i, name) in enumerate(listed) if listed[-1][0] - i == len(listed) - 1 - place]
    names = [name.strip() for name in (stated.split(",") if stated else last) if name.strip()]
    return names if len(set(names)) == 1 else []  # which of several kinds ran is not said


def _server(source: Source, row: Json, names: list[str]) -> Options:
    """The engine with its build, the devices that shared the layers, and what stayed on the host."""
    backend = _backend(row)
    build = re.search(r"^build: \w+ \((\d+)\)", source.plain, re.MULTILINE)
    stated = positive(row.get("build_number") or (build and build[1]))
    engine = {"rocm": "llamacpp-rocm", "hip": "llamacpp-rocm", "vulkan": "llamacpp-vulkan"}.get(backend, "llamacpp")
    if stated and backend == "metal" and stated >= _METAL_2025:
        engine = "llamacpp-2025"
    elif stated and backend == "cuda" and stated < _CUDA_2024:
        engine = "llamacpp-2024"
    devices = 0 if "rpc" in str(row.get("backends") or row.get("backend")).lower() else len(names)
    hosted = positive(row.get("n_cpu_moe"))
    layers = next((value for name in ("n_gpu_layers", "ngl") if (value := number(row.get(name))) is not None), None)
    caches = {str(row[name]) for name in ("type_k", "type_v") if row.get(name)} - {"f16"}
    fused = str(row.get("flash_attn", row.get("fa", ""))).lower()
    found: Options = {
        "engine": engine,
        "n": devices or None,
        "pp": devices if devices > 1 else None,
        "gpu-layers": layers if layers is not None and 0 <= layers < _ALL else None,
        "experts-on": f"host:{hosted:g}" if hosted else "host" if _P.experts.search(str(row.get("ot"))) else None,
        "kv-dtype": caches.pop() if len(caches) == 1 else None,
        "flash": {"0": False, "false": False, "1": True, "true": True}.get(fused),
    }
    return {name: value for name, value in found.items() if value is not None}


def _markdown(source: Source) -> list[MeasuredRow]:
    found, host, placed, compared = list[MeasuredRow](), False, "", 0
    header: list[str] | None = None
    for line, text in enumerate(source.lines, start=1):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")] if text.lstrip().startswith("|") else []
        if not cells and (text.startswith("#") or "llama-bench" in text):
            host = _P.host.search(text) is not None
        if not cells and ((match := _P.placed.search(text)) or re.search(r"llama-bench\S* +-", text)):
            placed = match[1] if match else ""
        if "test" in cells and "t/s" not in cells:
            compared = compared or line
        if ("t/s" in cells and ("test" in cells or {"n_prompt", "n_gen"} <= set(cells))) or set(cells) >= _BATCHED:
            header = cells  # n_prompt and n_gen until 2023-08
        elif header and not set(text) <= set("|-: ") and 0 < len(cells) <= len(header):  # more: a backend's own table
            if len(cells) != len(header):
                why = f"{source.at(line)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
                raise DataError(why)
            row = dict(zip(header, cells, strict=True)) | ({"backend": "CPU"} if host else {})
            row.setdefault("ot", placed)
            if "T_TG s" in row:
                found += _batched(source, line, row)
                continue
            if "est_ppt (ms)" in row:
                found += _benchy(source, line, row, found)
                continue
            parts = [f"{name}{row[n]}" for name, n in (("pp", "n_prompt"), ("tg", "n_gen")) if positive(row.get(n))]
            match = _P.test.match(row.get("test") or "+".join(parts))
            rate, scatter = map(positive, row["t/s"].partition("±")[::2])
            if match and rate and float(match[2]):
                kind = f"{match[1]}{match[3] or ''}"
                test = Test(kind, float(match[2]), positive(match[4]), rate, scatter)
                found.append(reading(source, line, row, test))
        elif not text.strip() or text.lstrip().startswith(("#", "```")):
            header = None  # which a library's warning between rows does not end
    if compared and not found:
        why = f"{source.at(compared)}: a table with a t/s column for each build; give what llama-bench prints"
        raise DataError(why)
    return found


def _benchy(source: Source, line: int, row: Json, before: list[MeasuredRow]) -> list[MeasuredRow]:
    """A row of llama-benchy, which measures any server as llama-bench does: answers follow the prompt of the row before, and a prompt takes the
    context before it along, unless the rate shows that it was cached."""
    match, (rate, scatter) = _P.test.match(row["test"]), map(positive, row["t/s"].partition("±")[::2])
    if match is None or match[3] or not rate:
        return []
    depth, tokens, taken = float(match[4] or 0), float(match[2]), positive(row["est_ppt (ms)"].partition("±")[0])
    options: Options = {"batch": 1, "said-model": row.get("model", "")}
    if match[1] == "tg":
        prompt = before[-1].options["prompt"] if before and before[-1].quantity == "prefill" else depth or 1.0
        quantity, value, options = "itl", 1 / rate, options | {"prompt": prompt, "output": tokens}
    else:
        cached = taken is not None and depth > 0 and abs(rate * taken * 1e-3 / tokens - 1) < SCATTER
        quantity, value = "prefill", (tokens if cached else depth + tokens) / rate
        options |= {"prompt": depth + tokens} | ({"prefix-hit": depth / (depth + tokens)} if cached else {})
    notes = (f"its runs scatter by {scatter / rate:.0%}",) if scatter and scatter > SCATTER * rate else ()
    return [MeasuredRow(source.at(line), "llama-benchy", quantity, value, options=options, notes=notes)]


def _batched(source: Source, line: int, row: Json) -> Iterator[MeasuredRow]:
    """A row of llama-batched-bench: B prompts of PP tokens at once, then TG tokens of each."""
    batch, prompt, answer, first, rest = (positive(row[name]) for name in ("B", "PP", "TG", "T_PP s", "T_TG s"))
    if batch and prompt and first:
        several = "prompts of several requests at once" if batch > 1 else ""
        yield replace(reading(source, line, row, Test("pp", prompt, None, prompt / first, None)), unread=several)
    if batch and prompt and answer and rest:
        made = reading(source, line, row, Test("tg", answer, prompt, answer / rest, None))
        yield replace(made, options=made.options | {"batch": int(batch)})
