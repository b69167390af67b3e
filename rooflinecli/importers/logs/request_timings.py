"""Timings of single requests as llama.cpp, Ollama and mlx-lm print or return them: tokens and time of the prompt, then of the answer."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import replace

from rooflinecli.core.record import Json
from rooflinecli.importers.logs import llama_bench
from rooflinecli.importers.source import MeasuredRow, Source, positive
from rooflinecli.specs.snapshots import packaged

TOOL = "llama.cpp / Ollama / mlx-lm timings"
_TABLE = packaged(__file__)
_FORMATS = [(tool, scale, re.compile(pattern, re.MULTILINE)) for tool, scale, pattern in _TABLE["formats"]]
_MODEL = {name: re.compile(pattern, re.MULTILINE) for name, pattern in _TABLE["model"].items()}


def claims(source: Source) -> bool:
    return any(pattern.search(source.plain) for _, _, pattern in _FORMATS)


def read(source: Source) -> list[MeasuredRow]:
    """A row of each prompt and of each answer of several tokens, in the order of the text."""
    rows, text, (begins, tasks) = [], source.plain, _tasks(source.plain)
    found = [(m.start(), tool, scale, m) for tool, scale, pattern in _FORMATS for m in pattern.finditer(text)]
    found.sort(key=lambda each: each[0])
    row, whole, start = Json(), 0.0, 0
    for (at, tool, scale, match), after in zip(found, [*(each[0] for each in found[1:]), len(text)], strict=True):
        row, start = _model(source, start, at) or row, at
        part, tokens, is_prompt = match.groupdict(), float(match["tokens"]), bool(match["prompt"])
        rate = positive(part.get("rate")) or tokens / (_seconds(part.get("time") or "", scale) or float("inf"))
        task = tasks[bisect(begins, at) - 1] if begins and at > begins[0] else {}
        if is_prompt:
            whole = max(tokens + (positive(part.get("cached")) or 0.0), task.get("prompt", 0.0))
        if not rate or not whole or (tokens < 2 and not is_prompt):  # one token follows from the prompt
            continue
        depth = whole - tokens or None if is_prompt else whole
        test = llama_bench.Test("pp" if is_prompt else "tg", tokens, depth, rate, None)
        engine = {"backend": "mlx"} if tool == "mlx-lm" else {}
        made = llama_bench.reading(source, source.line_of(at), row | engine, test)
        drafts = re.findall(_TABLE["accepted"], "" if is_prompt else text[at : min(after, at + 800)])
        taken = sum(int(one or other) for one, other in drafts)
        drafted = {"drafted": tokens / (tokens - taken)} if 0 < taken < tokens else {}
        unread = "other requests ran at the same time, so its batch changed" if task.get("shared") else made.unread
        rows.append(replace(made, tool=tool, probe={**made.probe, **drafted}, unread=unread))
    return rows


def _seconds(clock: str, scale: float) -> float:
    """Seconds of '4m34.25s', of '925.78 ms', or of a number in a unit of its own."""
    parts = re.findall(r"([\d.]+) ?(h|ms|m|s|µs|us|ns)", clock)
    each = [(positive(n) or 0.0) * _TABLE["clock"][unit] for n, unit in parts]
    return sum(each) if parts else (positive(clock) or 0.0) * scale


def _tasks(text: str) -> tuple[list[int], list[Json]]:
    """Where a server's log names a task, and what it says of it: tokens of its whole prompt, and whether others ran at the same time."""
    tasks, running, begins, named = dict[str, Json](), set[str](), list[int](), list[Json]()
    for match in re.finditer(_TABLE["task"], text):
        name, prompt, starts, stops = match.groups()
        said = tasks.setdefault(name, {})
        said |= {"prompt": float(prompt)} if prompt else {}
        running = running | {name} if starts else running - {name} if stops else running
        for each in running if len(running) > 1 else ():
            tasks[each]["shared"] = True
        begins.append(match.start())
        named.append(said)
    return begins, named


def _model(source: Source, start: int, end: int) -> Json:
    """What a log of llama.cpp states of a model that it loads in this part of the text, as a row of llama-bench; nothing where it loads none."""
    said = {name: each[-1] for name, pattern in _MODEL.items() if (each := pattern.findall(source.plain[start:end]))}
    if not said.keys() & {"name", "type"}:
        return {"model_type": said["answer"]} if "answer" in said else {}
    on, of = said.get("layers", ("99", "99"))
    backend = "".join(said.get("backend", "")) or ("" if "layers" in said else "cpu")
    cards = [] if backend == "cpu" else llama_bench.cards(source, {}, source.line_of(end))
    name = " ".join(said[part] for part in ("name", "params", "type") if part in said)
    return {
        "model_type": name, "backend": backend, "ngl": on if on != of else 99, "gpu_info": ",".join(cards), "ot": said.get("ot", ""),
    }  # fmt: skip
